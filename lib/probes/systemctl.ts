import type { Command, Output, Parsed } from "../agent/types.ts";
import { ParseError } from "./parse-error.ts";

/** An alternative to `docker info`, which asks systemd and not docker. It needs the host's systemd: in a container there is none. */
export const SYSTEMCTL_COMMAND: Command = {
  argv: ["systemctl", "is-active", "docker"],
  timeout: 5,
  maxBytes: 64 * 1024,
};

/** What `systemctl is-active` prints, of systemd.unit(5), each with whether the unit runs. */
const STATES = {
  active: true,
  reloading: true,
  refreshing: true,
  inactive: false,
  failed: false,
  activating: false,
  deactivating: false,
  maintenance: false,
} as const satisfies Record<string, boolean>;

export type SystemctlState = keyof typeof STATES | "unknown";
export const SYSTEMCTL_STATES: readonly SystemctlState[] = [
  "active",
  "reloading",
  "refreshing",
  "inactive",
  "failed",
  "activating",
  "deactivating",
  "maintenance",
  "unknown",
];

export type Systemctl = {
  readonly state: SystemctlState;
  /** undefined where systemd does not say: there is no such unit, or no systemd */
  readonly active: boolean | undefined;
};

const isState = (text: string): text is keyof typeof STATES => Object.hasOwn(STATES, text);

const NO_SYSTEMD = ["not been booted with systemd", "failed to connect to bus", "failed to get d-bus connection"];

const saysNoSystemd = ({ stderr }: Output): boolean => {
  const complaint = stderr.slice(0, 4096).toLowerCase();
  return NO_SYSTEMD.some((words) => complaint.includes(words));
};

/** Whether an output is one of systemctl: a single word, or the complaint that there is no systemd. */
export const isSystemctl = (output: Output): boolean =>
  /^[a-z-]{1,32}$/.test(output.stdout.trim()) || saysNoSystemd(output);

/**
 * Reads the one word that `systemctl is-active UNIT` prints. The word decides and not the exit code, which is 0 for active
 * and reloading, 3 for the rest and 4 for an unknown unit; a code that says otherwise makes it unknown. Without systemd (in a
 * container) it is unknown, never inactive.
 *
 * @throws {ParseError} when it printed anything else
 */
export const parseSystemctl = (output: Output): Parsed<Systemctl> => {
  const word = output.stdout.trim();
  const unknown: Parsed<Systemctl> = { value: { state: "unknown", active: undefined }, rejected: 0 };
  if (isState(word)) {
    const active = STATES[word];
    // with several units or a pipe in between, the code is that of something else
    return active === (output.exitCode === 0) ? { value: { state: word, active }, rejected: 0 } : unknown;
  }
  if (word === "unknown") return unknown;
  if (word === "" && saysNoSystemd(output)) return unknown;
  const printed = JSON.stringify((word || output.stderr.trim()).slice(0, 200));
  throw new ParseError(`systemctl is-active exited with ${output.exitCode} and printed ${printed}`);
};
