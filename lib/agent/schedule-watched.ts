import { errorText } from "../errors.ts";
import type { Probe, ProbeRun } from "./probe.ts";
import type { Clock } from "./schedule-clock.ts";
import type { ResultKind } from "./types.ts";

/** So long beyond its timeout a run is waited for, seconds: it should have settled by itself. */
export const PATIENCE = 2;
/** So long it may take to find out whether a probe can run, seconds. */
export const EXAMINATION = 5;

const without = (kind: ResultKind, seconds: number, detail: string): ProbeRun => ({
  kind,
  seconds,
  detail,
  commands: [],
  metrics: [],
  readings: {},
  rejected: 0,
});

/** A probe that is not trusted to keep its word: whatever it does, `run` settles and never rejects, and runs never overlap. */
export class WatchedProbe {
  readonly #probe: Probe;
  readonly #clock: Clock;
  readonly #stop: AbortSignal;
  #open = false;

  /** `stop`: nobody waits any more */
  constructor(probe: Probe, clock: Clock, stop: AbortSignal) {
    this.#probe = probe;
    this.#clock = clock;
    this.#stop = stop;
  }

  /**
   * Runs the probe. A run that did not settle in time is a `timeout`; what it comes to later is thrown away, and until then
   * further ones are `skipped_in_flight`. One that rejects is a fault of the probe's code: `parse_error`.
   */
  async run(): Promise<ProbeRun> {
    if (this.#open) return without("skipped_in_flight", 0, "an earlier run has not settled yet");
    const started = this.#clock.now();
    const took = () => this.#clock.now() - started;
    this.#open = true;
    // In an async function, what throws at once rejects as well.
    const run = (async () => this.#probe.run())()
      .catch((thrown: unknown) => without("parse_error", took(), `the probe itself failed: ${errorText(thrown)}`))
      .finally(() => (this.#open = false));
    const limit = this.#probe.timeout + PATIENCE;
    const settled = await this.#within(limit, run);
    return settled ?? without("timeout", took(), `it had not settled after ${limit} s`);
  }

  /** Why the probe cannot run; undefined if it can, or if that cannot be found out: then the run will tell. */
  async unavailable(): Promise<string | undefined> {
    const answer = (async () => this.#probe.unavailable())().catch(() => undefined);
    return this.#within(EXAMINATION, answer);
  }

  async #within<T>(seconds: number, work: Promise<T>): Promise<T | undefined> {
    const timer = new AbortController();
    const end = () => timer.abort();
    this.#stop.addEventListener("abort", end, { once: true });
    const late = this.#clock.sleep(seconds, timer.signal).then(() => undefined);
    try {
      return await Promise.race([work, late]);
    } finally {
      timer.abort();
      this.#stop.removeEventListener("abort", end);
    }
  }
}
