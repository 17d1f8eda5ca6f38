import { setTimeout as sleep } from "node:timers/promises";
import { LONGEST_POLL } from "../outbox/sqs-bell.ts";
import type { BellQueue } from "../outbox/sqs-bell.ts";
import { SpoolRound } from "./spooler-round.ts";
import type { SpoolPorts } from "./spooler-round.ts";

/** Seconds to wait after a fault; doubled each time up to the most. */
export type Patience = { readonly first: number; readonly most: number };
const PATIENCE: Patience = { first: 1, most: 60 };

export type SpoolOptions = {
  /** seconds between two sweeps of `outgoing/` */
  readonly sweepInterval: number;
  /** what is in hand is finished, then the spooler ends */
  readonly stop: AbortSignal;
  readonly patience?: Patience;
};

/**
 * Spools until it is told to stop: takes what the queue tells of, and sweeps at the start and at every interval for what it
 * did not tell of. No fault of S3, SQS or the directory ends it: it is logged and tried again after a growing wait.
 */
export async function spoolForever(ports: SpoolPorts, options: SpoolOptions): Promise<void> {
  const { sweepInterval, stop, patience = PATIENCE } = options;
  let wait = patience.first;
  let nextSweep = 0;
  const round = new SpoolRound(ports);
  while (!stop.aborted) {
    // They are logged; only a single pass needs them afterwards.
    round.errors.length = 0;
    try {
      if (performance.now() >= nextSweep) {
        await round.sweep(stop);
        nextSweep = performance.now() + sweepInterval * 1000;
      }
      const quiet = await listen(round, ports, (nextSweep - performance.now()) / 1000, stop);
      if (quiet) {
        wait = patience.first;
        continue;
      }
    } catch (thrown) {
      round.note({}, thrown);
    }
    // Random, so that several spoolers do not knock together at a service that comes back.
    await pause(wait * (0.5 + Math.random() / 2), stop);
    wait = Math.min(patience.most, wait * 2);
  }
}

/** One turn at the queue, at most until the next sweep. False if not one of the messages it got could be dealt with. */
async function listen(round: SpoolRound, { bell }: SpoolPorts, seconds: number, stop: AbortSignal): Promise<boolean> {
  if (stop.aborted) return true;
  if (bell === undefined) {
    await pause(Math.max(0, seconds), stop);
    return true;
  }
  const messages = await bell.receive(Math.min(LONGEST_POLL, seconds), stop);
  return messages.length === 0 || round.take(messages, bell);
}

/**
 * One sweep, then the queue until it is empty.
 * @returns all faults, and what was set aside, as errors; none if all went well. What waits comes with the next pass.
 */
export async function spoolOnce(ports: SpoolPorts, stop: AbortSignal): Promise<readonly unknown[]> {
  const round = new SpoolRound(ports);
  try {
    await round.sweep(stop);
    if (ports.bell !== undefined) await drain(round, ports.bell, stop);
  } catch (thrown) {
    round.note({}, thrown);
  }
  return round.errors;
}

async function drain(round: SpoolRound, bell: BellQueue, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    const messages = await bell.receive(1, stop);
    if (messages.length === 0 || !(await round.take(messages, bell))) return;
  }
}

async function pause(seconds: number, stop: AbortSignal): Promise<void> {
  // Rejects when it is stopped, which ends the wait just as well.
  await sleep(seconds * 1000, undefined, { signal: stop }).catch(() => undefined);
}
