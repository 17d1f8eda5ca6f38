// Parts of the agent for its tests: a clock that a test moves, probes that do what they are told, a log that is kept.
import { setImmediate as turn } from "node:timers/promises";
import type { Probe, ProbeRun } from "../../lib/agent/probes/common/probe.ts";
import type { AgentLog, Clock } from "../../lib/agent/schedule.ts";
import type { Labels, Metric } from "../../lib/shared/exposition.ts";
import type { ResultKind } from "../../lib/agent/command/types.ts";

/** A clock that stands still until it is moved; sleepers wake in the order of their time. */
export class FakeClock implements Clock {
  #now = 0;
  readonly #sleepers = new Set<{ readonly at: number; readonly wake: () => void }>();

  now(): number {
    return this.#now;
  }

  sleep(seconds: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        this.#sleepers.delete(sleeper);
        resolve();
      };
      const sleeper = { at: this.#now + seconds, wake };
      if (signal.aborted) return resolve();
      this.#sleepers.add(sleeper);
      signal.addEventListener("abort", wake, { once: true });
    });
  }

  /** How many wait for their time. */
  get sleepers(): number {
    return this.#sleepers.size;
  }

  /** Lets time pass, and all that is done at each moment be done. */
  async pass(seconds: number): Promise<void> {
    const end = this.#now + seconds;
    for (;;) {
      await settle();
      const next = [...this.#sleepers].toSorted((a, b) => a.at - b.at)[0];
      if (next === undefined || next.at > end) break;
      this.#now = Math.max(this.#now, next.at);
      next.wake();
    }
    this.#now = end;
    await settle();
  }

  /** Time passes, and nobody is woken: the program or the machine stood still. */
  standStill(seconds: number): void {
    this.#now += seconds;
  }
}

const settle = async (): Promise<void> => {
  for (let turns = 0; turns < 3; turns++) await turn();
};

export const gauge = (name: string, value: number, labels: Labels = {}): Metric => ({
  name,
  help: `The ${name}.`,
  type: "gauge",
  samples: [{ labels, value }],
});

export const run = (kind: ResultKind, more: Partial<ProbeRun> = {}): ProbeRun => ({
  kind,
  seconds: 0.5,
  commands: [],
  metrics: [],
  readings: {},
  rejected: 0,
  ...more,
});

export const ok = (...metrics: readonly Metric[]): ProbeRun => run("ok", { metrics });

/** A probe whose runs take what `take` says (seconds; undefined: for ever) and come to `result`. */
export class FakeProbe implements Probe {
  readonly name: string;
  readonly interval: number;
  readonly timeout: number;
  readonly starts: number[] = [];
  reason: string | undefined;
  asked = 0;
  take: number | undefined = 0;
  result: () => ProbeRun = () => ok(gauge("x", 1));
  overlaps = 0;
  #open = 0;
  readonly #clock: Clock;

  constructor(name: string, clock: Clock, { interval = 30, timeout = 10 } = {}) {
    this.name = name;
    this.#clock = clock;
    this.interval = interval;
    this.timeout = timeout;
  }

  unavailable(): Promise<string | undefined> {
    this.asked += 1;
    return Promise.resolve(this.reason);
  }

  async run(): Promise<ProbeRun> {
    this.starts.push(this.#clock.now());
    if (this.#open > 0) this.overlaps += 1;
    this.#open += 1;
    const { take, result } = this;
    await (take === undefined ? new Promise(() => undefined) : this.#clock.sleep(take, new AbortController().signal));
    this.#open -= 1;
    return result();
  }

  stuck(): number {
    return 0;
  }
}

export type Said = { readonly level: "info" | "warn" | "error"; readonly fields: object; readonly text: string };

/** A log that is kept. */
export function keptLog(): AgentLog & { readonly said: Said[] } {
  const said: Said[] = [];
  const at = (level: Said["level"]) => (fields: object, text: string) => void said.push({ level, fields, text });
  return { said, info: at("info"), warn: at("warn"), error: at("error") };
}
