import type { Metric, ResultKind } from "./types.ts";

/** How one command of a probe ended; a probe may run several (once a container). */
export type CommandRun = {
  /** the command's short name, from a small fixed set: `nvidia-smi`, `docker ps`, `docker inspect`, `lsof` ... */
  readonly command: string;
  readonly kind: ResultKind;
  readonly seconds: number;
};

/** What one run of a probe came to. `metrics` and `readings` are there for `ok` only. */
export type ProbeRun<Readings = object> = {
  readonly kind: ResultKind;
  readonly seconds: number;
  readonly commands: readonly CommandRun[];
  readonly metrics: readonly Metric[];
  /** what other probes' data are joined with */
  readonly readings: Partial<Readings>;
  /** rows that were broken and left out */
  readonly rejected: number;
  /** of the command that decided the result, where it exited */
  readonly exitCode?: number;
  /** for people: which file was not found, what the tool printed */
  readonly detail?: string;
};

/** A probe that can be run. `run` settles within `timeout` seconds whatever its commands do, and never rejects. */
export type Probe<Readings = object> = {
  readonly name: string;
  /** seconds from the start of a run to the start of the next */
  readonly interval: number;
  /** seconds for one run in all */
  readonly timeout: number;
  /** why the probe cannot run on this node (a tool or device is missing), or undefined if it can */
  unavailable(): Promise<string | undefined>;
  run(): Promise<ProbeRun<Readings>>;
  /** children that are there although they were killed */
  stuck(): number;
};
