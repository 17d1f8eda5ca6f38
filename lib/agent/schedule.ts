import { uptime } from "node:os";
import { errorText } from "../shared/errors.ts";
import type { ResultKind } from "./command/types.ts";
import type { Probe, ProbeRun } from "./probes/common/probe.ts";
import { type Clock, steadyClock, within } from "../shared/time-limit.ts";

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

  /** Nothing is started and no listener called any more. What runs is left to run: `killAll` ends its commands. */
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
class ProbeLoop {
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
    this.#nextStepBy = this.#options.clock.now() + this.#probe.timeout + SETTLING;
    const run = await this.#watched.run();
    if (this.#stop.signal.aborted) return;
    this.#last = run.kind;
    this.#notify(() => this.#options.settled(this.probe, run));
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
    this.#notify(() => changed(this.probe, enabled));
    return enabled;
  }

  /** Whether the tool has been missing for so long that it is asked whether the probe can run at all. */
  #isLost(): boolean {
    if (this.#last !== "not_found") this.#lostSince = undefined;
    else this.#lostSince ??= this.#options.clock.now();
    return this.#lostSince !== undefined && this.#options.clock.now() - this.#lostSince >= this.#options.lostAfter;
  }

  /** A fault of a listener must not end the loop. */
  #notify(listener: () => void): void {
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

/** So long beyond its timeout a run is waited for, seconds: it should have settled by itself. */
const SETTLING = 2;
/** So long it may take to find out whether a probe can run, seconds. */
const EXAMINATION = 5;

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
class WatchedProbe {
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
    const limit = this.#probe.timeout + SETTLING;
    const settled = await within(limit, run, undefined, { clock: this.#clock, stop: this.#stop });
    return settled ?? without("timeout", took(), `it had not settled after ${limit} s`);
  }

  /** Why the probe cannot run; undefined if it can, or if that cannot be found out: then the run will show. */
  async unavailable(): Promise<string | undefined> {
    const answer = (async () => this.#probe.unavailable())().catch(() => undefined);
    return within(EXAMINATION, answer, undefined, { clock: this.#clock, stop: this.#stop });
  }
}

/** Seconds since the machine started: goes on while it is suspended, as nothing that timers go by does. */
export const machineClock = (): number => uptime();

/** Where the agent logs what it does; pino's loggers are such. */
export type AgentLog = Readonly<Record<"info" | "warn" | "error", (fields: object, text: string) => void>>;
