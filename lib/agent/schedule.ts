import { uptime } from "node:os";
import { errorText } from "../shared/errors.ts";
import { type Sleep, sleep, within } from "../shared/time-limit.ts";
import type { ResultKind } from "./command/types.ts";
import type { Probe, ProbeRun } from "./probes/common/probe.ts";

export type ScheduleOptions = {
  readonly probes: readonly Probe[];
  /** a run has settled */
  readonly settled: (probe: string, run: ProbeRun) => void;
  /** a probe was found to be able to run, or not: after the first examination, and at each change */
  readonly enabled: (probe: string, enabled: boolean) => void;
  readonly log: AgentLog;
  /** seconds after which a disabled probe is examined again, since it may be able to run by then; default 300 */
  readonly reexamine?: number;
  /**
   * Seconds for which a probe that was ok must have been `not_found` before it is disabled; default 900. Until then it fails, so that
   * an alert can fire: a tool that was removed is not the same as one that was never installed.
   */
  readonly lostAfter?: number;
  readonly clock?: Clock;
  /** 0 to below 1 */
  readonly random?: () => number;
};

/** Whether all loops go on; `stalled` names the probes of those that do not. */
export type Health = { readonly healthy: boolean; readonly stalled: readonly string[] };

/** `ready` once each enabled probe has settled once. `late`: probes that have not, or whose last run hung or was skipped. */
export type Readiness = {
  readonly ready: boolean;
  readonly late: readonly { readonly probe: string; readonly result: ResultKind | "pending" }[];
};

/** The first runs are spread over so many seconds, so that a node's tools are not started all at once. */
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
      void loop.repeat(random() * Math.min(SPREAD, interval));
    }
  }

  /** Runs every probe that can run once, all at the same time, instead of `start`. Never rejects. */
  async once(): Promise<void> {
    await Promise.all(this.#loops.map((loop) => loop.once()));
  }

  /** From now on nothing is started and no listener is called. Runs under way are left alone: `killAll` ends their commands. */
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

type LoopOptions = {
  /** a run has settled */
  readonly settled: (probe: string, run: ProbeRun) => void;
  /** a probe was found to be able to run, or not: called once for each change */
  readonly enabled: (probe: string, enabled: boolean) => void;
  readonly log: AgentLog;
  readonly clock: Clock;
  /** seconds after which a disabled probe is examined again */
  readonly reexamine: number;
  /** seconds for which the tool must have been `not_found` before a probe that was ok is disabled */
  readonly lostAfter: number;
};

/** A loop whose next step is late by more than this has stalled. Seconds. */
const STALLED_AFTER = 10;

/** Runs one probe again and again, never two runs at once. From start to start it is a multiple of the interval. */
class ProbeLoop {
  readonly #probe: Probe;
  readonly #watched: WatchedProbe;
  readonly #options: LoopOptions;
  readonly #stop = new AbortController();
  #enabled: boolean | undefined;
  #last: ResultKind | undefined;
  #wasOk = false;
  #lostSince: number | undefined;
  /** whether a run has shown that the probe cannot work here, though it can be started: it is tried again now and then */
  #onTrial = false;
  #nextStepBy = Infinity;

  constructor(probe: Probe, options: LoopOptions) {
    this.#probe = probe;
    this.#options = options;
    this.#watched = new WatchedProbe(probe, options.clock, this.#stop.signal);
  }

  get probe(): string {
    return this.#probe.name;
  }

  /** The result of the last run; `pending` before the first one, `disabled` while the probe cannot run. */
  get state(): ResultKind | "pending" {
    return this.#enabled === false ? "disabled" : (this.#last ?? "pending");
  }

  /** Whether the loop should have taken its next step by now. */
  get stalled(): boolean {
    return this.#options.clock.now() > this.#nextStepBy + STALLED_AFTER;
  }

  stop(): void {
    this.#nextStepBy = Infinity;
    this.#stop.abort();
  }

  /** Runs until `stop`, first after `phase` seconds. Never rejects. */
  async repeat(phase: number): Promise<void> {
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
      examined = await this.#run();
      if (this.#stop.signal.aborted) return;
      due = examined ? nextOf(due, this.#probe.interval, clock.now()) : clock.now() + reexamine;
    }
  }

  /** Runs the probe once, if it can. Never rejects. */
  async once(): Promise<void> {
    if (await this.#canRun()) await this.#run();
  }

  /** Runs the probe. False where the run has shown that the probe cannot work on this node: then it is disabled. */
  async #run(): Promise<boolean> {
    this.#nextStepBy = this.#options.clock.now() + this.#probe.timeout + SETTLING_TIME;
    const run = await this.#watched.run();
    if (this.#stop.signal.aborted) return true;
    this.#onTrial = this.#cannotWork(run);
    this.#setEnabled(this.#onTrial ? (run.detail ?? run.kind) : undefined);
    if (this.#onTrial) return false;
    this.#last = run.kind;
    this.#wasOk ||= run.kind === "ok";
    this.#notify(() => this.#options.settled(this.probe, run));
    return true;
  }

  /** Whether the probe can be started. One on trial is enabled only if its run shows that it works. */
  async #canRun(): Promise<boolean> {
    this.#nextStepBy = this.#options.clock.now() + EXAMINATION_LIMIT;
    const why = await this.#watched.unavailable();
    if (!this.#stop.signal.aborted && !(why === undefined && this.#onTrial)) this.#setEnabled(why);
    return why === undefined;
  }

  /** `why`: the probe cannot work; undefined if it can. */
  #setEnabled(why: string | undefined): void {
    const enabled = why === undefined;
    if (enabled === this.#enabled) return;
    const { log, enabled: changed } = this.#options;
    if (!enabled) log.info({ probe: this.probe, why }, "the probe is disabled: it cannot run on this node");
    else if (this.#enabled === false) log.info({ probe: this.probe }, "the probe can run now and is enabled");
    this.#enabled = enabled;
    this.#last = undefined;
    this.#wasOk = false;
    this.#lostSince = undefined;
    this.#notify(() => changed(this.probe, enabled));
  }

  /**
   * Whether a run shows that the probe cannot work on this node: its tool says so, or has been missing for too long. The tool may be
   * one that another program starts (`nsenter ... -- TOOL`), whose absence nothing but a run shows.
   */
  #cannotWork({ kind }: ProbeRun): boolean {
    if (kind === "disabled") return true;
    if (kind !== "not_found") this.#lostSince = undefined;
    else this.#lostSince ??= this.#options.clock.now();
    if (this.#lostSince === undefined) return false;
    return !this.#wasOk || this.#options.clock.now() - this.#lostSince > this.#options.lostAfter;
  }

  /** A fault of a listener must not end the loop. */
  #notify(listener: () => void): void {
    try {
      listener();
    } catch (thrown) {
      const text = "the result of the run could not be recorded: this is a fault of the agent";
      this.#options.log.error({ probe: this.probe, error: errorText(thrown) }, text);
    }
  }

  /** Repeated, as timers may fire a little early. */
  async #sleepUntil(due: number): Promise<void> {
    const { clock } = this.#options;
    this.#nextStepBy = due;
    while (clock.now() < due && !this.#stop.signal.aborted) await clock.sleep(due - clock.now(), this.#stop.signal);
  }
}

/** The first of `due + interval`, `due + 2 interval`, ... that is not in the past. */
function nextOf(due: number, interval: number, now: number): number {
  return due + interval * Math.max(1, Math.ceil((now - due) / interval));
}

/** So long after its timeout a run is awaited, which should have settled by itself at the timeout. Seconds. */
const SETTLING_TIME = 2;
/** So long it may take to find out whether a probe can run, seconds. */
const EXAMINATION_LIMIT = 5;

const noData = (kind: ResultKind, seconds: number, detail: string): ProbeRun => ({
  kind,
  seconds,
  detail,
  commands: [],
  metrics: [],
  readings: {},
  rejected: 0,
});

/** Guards against faults of a probe's own code: whatever it does, `run` settles and never rejects, and runs never overlap. */
class WatchedProbe {
  readonly #probe: Probe;
  readonly #clock: Clock;
  readonly #stop: AbortSignal;
  #open = false;

  /** `stop`: ends all waiting at once */
  constructor(probe: Probe, clock: Clock, stop: AbortSignal) {
    this.#probe = probe;
    this.#clock = clock;
    this.#stop = stop;
  }

  /**
   * Runs the probe. A run that does not settle in time is a `timeout`. Its late result is ignored, and until then further runs are
   * `skipped_in_flight`. A run that rejects is a fault of the probe's code: `parse_error`.
   */
  async run(): Promise<ProbeRun> {
    if (this.#open) return noData("skipped_in_flight", 0, "an earlier run has not settled yet");
    const started = this.#clock.now();
    const took = () => this.#clock.now() - started;
    this.#open = true;
    // In an async function, what throws at once rejects as well.
    const run = (async () => this.#probe.run())()
      .catch((thrown: unknown) => noData("parse_error", took(), `the probe itself failed: ${errorText(thrown)}`))
      .finally(() => (this.#open = false));
    const limit = this.#probe.timeout + SETTLING_TIME;
    const settled = await this.#within(limit, run);
    return settled ?? noData("timeout", took(), `it had not settled after ${limit} s`);
  }

  /** Why the probe cannot run; undefined if it can, or if that cannot be found out: then its run says why it failed. */
  async unavailable(): Promise<string | undefined> {
    const answer = (async () => this.#probe.unavailable())().catch(() => undefined);
    return this.#within(EXAMINATION_LIMIT, answer);
  }

  #within<T>(seconds: number, work: Promise<T>): Promise<T | undefined> {
    const clock = this.#clock;
    return within(seconds, work, undefined, { stop: this.#stop, sleep: (rest, signal) => clock.sleep(rest, signal) });
  }
}

/** The clock of a schedule; injected, so that tests can let hours pass. */
export type Clock = {
  /** seconds since some moment; never goes back, whatever the node's clock is set to */
  now(): number;
  sleep(...args: Parameters<Sleep>): ReturnType<Sleep>;
};

export const steadyClock: Clock = { now: () => performance.now() / 1000, sleep };

/** Seconds since the machine started. Unlike the clock of timers it goes on while the machine is suspended. */
export const machineClock = (): number => uptime();

/** The agent's log; pino's loggers are such. */
export type AgentLog = Readonly<Record<"info" | "warn" | "error", (fields: object, text: string) => void>>;
