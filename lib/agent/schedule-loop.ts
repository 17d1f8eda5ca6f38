import { errorText } from "../errors.ts";
import type { Probe, ProbeRun } from "./probe.ts";
import type { Clock } from "./schedule-clock.ts";
import type { AgentLog } from "./schedule-log.ts";
import { EXAMINATION, PATIENCE, WatchedProbe } from "./schedule-watched.ts";
import type { ResultKind } from "./types.ts";

export type LoopOptions = {
  /** a run has settled */
  readonly settled: (probe: string, run: ProbeRun) => void;
  /** a probe was found to be able to run, or not: said once for each change */
  readonly enabled: (probe: string, enabled: boolean) => void;
  readonly log: AgentLog;
  readonly clock: Clock;
  /** seconds after which it is looked again whether a disabled probe can run */
  readonly reexamine: number;
  /** seconds for which the tool must have been `not_found` before a probe that ran is disabled */
  readonly lostAfter: number;
};

/** A loop that is so late with its next step, seconds, has come to a stop. */
const LATENESS = 10;

/** Runs one probe again and again, start to start, each start on a multiple of its interval, never two at once. */
export class ProbeLoop {
  readonly #probe: Probe;
  readonly #watched: WatchedProbe;
  readonly #options: LoopOptions;
  readonly #stop = new AbortController();
  #enabled: boolean | undefined;
  #last: ResultKind | undefined;
  #lostSince: number | undefined;
  #nextStepBy = Infinity;

  constructor(probe: Probe, options: LoopOptions) {
    this.#probe = probe;
    this.#options = options;
    this.#watched = new WatchedProbe(probe, options.clock, this.#stop.signal);
  }

  get probe(): string {
    return this.#probe.name;
  }

  /** What the last run came to; `pending` before the first one, `disabled` while the probe cannot run. */
  get state(): ResultKind | "pending" {
    return this.#enabled === false ? "disabled" : (this.#last ?? "pending");
  }

  /** Whether the loop should have gone on by now. */
  get stalled(): boolean {
    return this.#options.clock.now() > this.#nextStepBy + LATENESS;
  }

  stop(): void {
    this.#nextStepBy = Infinity;
    this.#stop.abort();
  }

  /** Runs until `stop`, first after `phase` seconds. Never rejects. */
  async conduct(phase: number): Promise<void> {
    const { clock, reexamine } = this.#options;
    let due = clock.now() + phase;
    let examined = false;
    for (;;) {
      await this.#sleepUntil(due);
      if (this.#stop.signal.aborted) return;
      if (!examined && !(await this.#canRun())) {
        due = clock.now() + reexamine;
        continue;
      }
      if (this.#stop.signal.aborted) return;
      examined = true;
      await this.#run();
      if (this.#stop.signal.aborted) return;
      if (this.#isLost()) examined = false;
      due = nextOf(due, this.#probe.interval, clock.now());
    }
  }

  /** Runs the probe once, if it can. Never rejects. */
  async once(): Promise<void> {
    if (await this.#canRun()) await this.#run();
  }

  async #run(): Promise<void> {
    this.#nextStepBy = this.#options.clock.now() + this.#probe.timeout + PATIENCE;
    const run = await this.#watched.run();
    if (this.#stop.signal.aborted) return;
    this.#last = run.kind;
    this.#tell(() => this.#options.settled(this.probe, run));
  }

  async #canRun(): Promise<boolean> {
    this.#nextStepBy = this.#options.clock.now() + EXAMINATION;
    const why = await this.#watched.unavailable();
    const enabled = why === undefined;
    if (enabled === this.#enabled || this.#stop.signal.aborted) return enabled;
    const { log, enabled: changed } = this.#options;
    if (!enabled) log.info({ probe: this.probe, why }, "the probe is disabled: it cannot run on this node");
    else if (this.#enabled === false) log.info({ probe: this.probe }, "the probe can run now and is enabled");
    this.#enabled = enabled;
    this.#last = undefined;
    this.#lostSince = undefined;
    this.#tell(() => changed(this.probe, enabled));
    return enabled;
  }

  /** Whether the tool has been missing for so long that it is asked whether the probe can run at all. */
  #isLost(): boolean {
    if (this.#last !== "not_found") this.#lostSince = undefined;
    else this.#lostSince ??= this.#options.clock.now();
    return this.#lostSince !== undefined && this.#options.clock.now() - this.#lostSince >= this.#options.lostAfter;
  }

  /** A fault of whoever listens must not end the loop. */
  #tell(listener: () => void): void {
    try {
      listener();
    } catch (thrown) {
      const text = "the run could not be taken in: this is a fault of the agent";
      this.#options.log.error({ probe: this.probe, error: errorText(thrown) }, text);
    }
  }

  /** Timers may fire a little early. */
  async #sleepUntil(due: number): Promise<void> {
    const { clock } = this.#options;
    this.#nextStepBy = due;
    while (clock.now() < due && !this.#stop.signal.aborted) await clock.sleep(due - clock.now(), this.#stop.signal);
  }
}

/** The first of `due + interval`, `due + 2 interval`, ... that is not over. */
function nextOf(due: number, interval: number, now: number): number {
  return due + interval * Math.max(1, Math.ceil((now - due) / interval));
}
