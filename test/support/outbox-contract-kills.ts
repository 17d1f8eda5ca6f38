import { rounds } from "./size.ts";

/**
 * How often something on the way through S3 and SQS is killed at an instant drawn at random, by test. Each test makes sure
 * of its own number; kills at every single step come on top.
 */
export const RANDOM_KILLS = {
  /** functions, between two of their calls to S3, SQS and SSM: functions-faults-kills */
  account: rounds(152, 4),
  manual: rounds(30),
  /** `gridmeter spool`, with SIGKILL: spool-kills */
  spooler: rounds(110, 10),
  /** `gridmeter send`, with SIGKILL, two at once: send-kills */
  sender: rounds(160, 16),
  /** publishing and the spooler in one process, at calls and at what they write: outbox-contract */
  outbox: rounds(16),
} as const;
