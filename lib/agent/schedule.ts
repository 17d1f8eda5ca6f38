import type { Probe, ProbeRun } from "./probe.ts";
import { steadyClock } from "./schedule-clock.ts";
import type { Clock } from "./schedule-clock.ts";
import type { AgentLog } from "./schedule-log.ts";
import { ProbeLoop } from "./schedule-loop.ts";
import type { ResultKind } from "./types.ts";

export type ScheduleOptions = {
  readonly probes: readonly Probe[];
  /** a run has settled */
  readonly settled: (probe: string, run: ProbeRun) => void;
  /** a probe was found to be able to run, or not: once at the first look, and for each change */
  readonly enabled: (probe: string, enabled: boolean) => void;
  readonly log: AgentLog;
  /** seconds after which it is looked again whether a disabled probe can run; default 300 */
  readonly reexamine?: number;
  /**
   * Seconds for which a probe that ran must have been `not_found` before it is disabled; default 900. Until then it fails, so
   * that an alert has time to fire: a tool that went away is no tool that never was there.
   */
  readonly lostAfter?: number;
  readonly clock?: Clock;
  /** 0 to below 1 */
  readonly random?: () => number;
};

/** Whether all loops go on; `stalled` names those that do not. */
export type Health = { readonly healthy: boolean; readonly stalled: readonly string[] };

/** `ready` once each enabled probe has settled once. `late`: probes that have not, or whose last run hung or was skipped. */
export type Readiness = {
  readonly ready: boolean;
  readonly late: readonly { readonly probe: string; readonly result: ResultKind | "pending" }[];
};

/** All probes have run so many seconds after the start, beside the time they take: a node's tools are not started all at once. */
const SPREAD = 2;

/** Runs each probe in a loop of its own, so that none waits for another. */
export class Schedule {
  readonly #options: ScheduleOptions;
  readonly #loops: readonly ProbeLoop[];
  #running = false;

  constructor(options: ScheduleOptions) {
    const { clock = steadyClock, reexamine = 300, lostAfter = 900 } = options;
    this.#options = options;
    this.#loops = options.probes.map((probe) => new ProbeLoop(probe, { ...options, clock, reexamine, lostAfter }));
  }

  /** Starts all loops. Call it once. */
  start(): void {
    this.#running = true;
    const { random = Math.random, probes } = this.#options;
    for (const [index, loop] of this.#loops.entries()) {
      const interval = probes[index]?.interval ?? SPREAD;
      void loop.conduct(random() * Math.min(SPREAD, interval));
    }
  }

  /** Runs every probe that can run once, all at the same time, instead of `start`. Never rejects. */
  async once(): Promise<void> {
    await Promise.all(this.#loops.map((loop) => loop.once()));
  }

  /** Nothing is started and nothing told any more. What runs is left to run: `killAll` ends its commands. */
  stop(): void {
    this.#running = false;
    for (const loop of this.#loops) loop.stop();
  }

  health(): Health {
    const stalled = this.#loops.filter((loop) => loop.stalled).map(({ probe }) => probe);
    return { healthy: this.#running && stalled.length === 0, stalled };
  }

  readiness(): Readiness {
    const states = this.#loops.map(({ probe, state }) => ({ probe, result: state }));
    return {
      ready: this.#running && states.every(({ result }) => result !== "pending"),
      late: states.filter(({ result }) => LATE.has(result)),
    };
  }
}

const LATE: ReadonlySet<ResultKind | "pending"> = new Set(["pending", "timeout", "skipped_in_flight"]);
