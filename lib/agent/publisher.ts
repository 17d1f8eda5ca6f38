// When which group is pushed. What is here serves these rules (design: "The agent: the rules"):
// - data that are not true any more leave the gateway before anything else is pushed (push-queue.ts);
// - a gateway that is down is asked by one request at a time, and the agents of a site come back at different moments;
// - an outage of a day is one line of the log, not one for each push (push-errors.ts).
import type { PushAccount } from "./metrics/self.ts";
import type { MetricStore } from "./metrics/store.ts";
import { PublishQueue } from "./push-queue.ts";
import { ErrorLog } from "./push-errors.ts";
import { type Outcome, OwnGroups, type Placed, type Target, clearOld, place, removeUntil } from "./own-groups.ts";
import { type AgentLog, type Clock, steadyClock } from "./schedule.ts";
import { within } from "../shared/time-limit.ts";

export type PublisherOptions = Target & {
  readonly board: Pick<MetricStore, "groups" | "group" | "hasData" | "expire">;
  /** seconds after which a group is pushed again though nothing changed, so that the living can be distinguished from the dead; default 30 */
  readonly interval?: number;
  readonly account: PushAccount;
  readonly log: AgentLog;
  readonly clock?: Clock;
  /** epoch seconds */
  readonly wallClock?: () => number;
  /** 0 to below 1 */
  readonly random?: () => number;
};

const INTERVAL = 30;
/** A group whose probe has the same interval is pushed when that settles, not a moment before as well. */
const SLACK = 1.1;
const AT_ONCE = 3;
/** Pause between looks at what is due, seconds; news are sent at once. */
const LOOK = 0.25;

/**
 * Keeps the agent's groups on a Pushgateway as the board has them. Nothing is queued: what is sent is always what is true when it
 * is sent, so that after an outage only the newest values arrive. While the gateway is down one request at a time asks for it.
 */
export class Publisher {
  readonly #options: PublisherOptions;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #groups: OwnGroups;
  readonly #queue: PublishQueue;
  readonly #outage: CircuitBreaker;
  readonly #errors: ErrorLog;
  readonly #stop = new AbortController();
  readonly #flying = new Set<Promise<void>>();
  #running = false;
  /** whether what an earlier agent left was removed */
  #cleared = false;

  /** @throws GridmeterError config_invalid if the authority's file cannot be read */
  constructor(options: PublisherOptions) {
    const { board, interval = INTERVAL, account, log, clock = steadyClock, random = Math.random } = options;
    this.#options = options;
    this.#clock = clock;
    this.#random = random;
    this.#groups = new OwnGroups(options, clock);
    this.#queue = new PublishQueue(board.groups, (group) => board.hasData(group), interval * SLACK);
    this.#outage = new CircuitBreaker(random);
    this.#errors = new ErrorLog(log);
    account.pendingFrom(() => this.#queue.pending());
  }

  /**
   * Removes what an earlier agent of this job and instance left on the gateway, groups of probes that are gone included, and then
   * keeps all groups up to date until `stop`. Goes on trying while the gateway is down; nothing is pushed before.
   */
  start(): void {
    this.#running = true;
    this.#queue.markAll();
    this.#pump();
    void this.#look();
  }

  /** These groups have changed: they are pushed at once. */
  mark(groups: readonly string[]): void {
    this.#queue.mark(groups);
    this.#pump();
  }

  /**
   * Pushes every group once, instead of `start`. Gives what became of each; after a failure of the gateway itself the others are
   * not tried. Never rejects.
   */
  async publishOnce(): Promise<ReadonlyMap<string, Outcome>> {
    const outcomes = new Map<string, Outcome>();
    for (const group of this.#options.board.groups) {
      const { outcome } = await this.#place(group, true);
      outcomes.set(group, outcome);
      if (outcome.result !== "ok" && !outcome.ofGroup) break;
    }
    this.#groups.close();
    return outcomes;
  }

  /** Stops pushing and removes all own groups, in `limit` seconds at the most. Never rejects. */
  async stop(limit = 5): Promise<void> {
    const ends = this.#clock.now() + limit;
    this.#running = false;
    this.#stop.abort();
    // A push that is on its way would put the group back after it was deleted.
    await within(limit * 0.3, Promise.all(this.#flying), undefined, {
      sleep: (seconds, signal) => this.#clock.sleep(seconds, signal),
    });
    this.#groups.abort();
    await within(limit * 0.1, Promise.all(this.#flying), undefined, {
      sleep: (seconds, signal) => this.#clock.sleep(seconds, signal),
    });
    const { board, log } = this.#options;
    const left = await removeUntil(ends, board.groups, this.#groups, this.#clock);
    this.#groups.close();
    if (left.size === 0) return;
    const text = "groups may be left on the Pushgateway; `gridmeter reap` deletes them once they are old";
    log.warn({ groups: [...left.keys()], reason: [...left.values()][0] }, text);
  }

  async #look(): Promise<void> {
    while (this.#running) {
      await this.#clock.sleep(LOOK, this.#stop.signal);
      this.mark(this.#options.board.expire());
    }
  }

  #pump(): void {
    while (this.#running && this.#flying.size < this.#room()) {
      const next = this.#cleared ? this.#queue.take(this.#clock.now()) : undefined;
      if (next === undefined && this.#cleared) return;
      const work = next === undefined ? this.#clear() : this.#send(next.group, next.whole);
      const flying = work.finally(() => {
        this.#flying.delete(flying);
        this.#pump();
      });
      this.#flying.add(flying);
    }
  }

  /** How many requests may be on their way. */
  #room(): number {
    if (this.#outage.round > 0) return this.#outage.mayAsk(this.#clock.now()) ? 1 : 0;
    return this.#cleared ? AT_ONCE : 1;
  }

  async #clear(): Promise<void> {
    const { round } = this.#outage;
    const { board, log } = this.#options;
    const done = await clearOld(this.#groups, board.groups, round > 0);
    if ("result" in done) return this.#failed(done, round, true);
    this.#cleared = true;
    this.#works();
    const { removed, refusal } = done;
    if (refusal !== undefined) {
      log.warn({ reason: refusal }, "what an earlier agent left on the Pushgateway may still be there");
    } else if (removed.length > 0) {
      log.info({ groups: removed }, "what an earlier agent left on the Pushgateway is removed");
    }
  }

  async #send(group: string, whole: boolean): Promise<void> {
    const { round } = this.#outage;
    const { outcome, off } = await this.#place(group, whole);
    const now = this.#clock.now();
    if (outcome.result === "ok") {
      this.#queue.taken(group, whole, now);
      if (whole) this.#errors.over({ group });
      this.#works();
    } else if (off) {
      this.#queue.refused(group, now, (refusals) => backOff(refusals, this.#random));
      this.#errors.met({ group }, outcome);
      this.#works();
    } else {
      this.#queue.failed(group);
      this.#failed(outcome, round, false);
    }
  }

  #place(group: string, whole: boolean): Promise<Placed> {
    const { board, account } = this.#options;
    const read = (name: string) => board.group(name);
    return place(group, whole, { groups: this.#groups, read, account, wallClock: this.#wallClock });
  }

  #works(): void {
    if (!this.#outage.works()) return;
    this.#errors.over({});
    // The gateway may have been started again, empty or with what it had saved.
    this.#queue.markAll();
  }

  #failed(outcome: Outcome, round: number, count: boolean): void {
    if (!this.#running) return;
    if (count) this.#options.account.ended(outcome.result, outcome.seconds, this.#wallClock());
    this.#errors.met({}, outcome);
    this.#outage.failed(round, this.#clock.now());
  }

  get #wallClock(): () => number {
    return this.#options.wallClock ?? (() => Date.now() / 1000);
  }
}

/** Whether the gateway is down, and when it may be asked again. */
export class CircuitBreaker {
  readonly #random: () => number;
  #failures = 0;
  #retryAt = -Infinity;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** Failures in a row; 0 if the gateway works. A request takes it along, which distinguishes it from those sent before the last failure. */
  get round(): number {
    return this.#failures;
  }

  /** Whether one more may ask a gateway that is down. */
  mayAsk(now: number): boolean {
    return now >= this.#retryAt;
  }

  /** A request failed. `round` is that of its start: several that fail together are one failure. */
  failed(round: number, now: number): void {
    if (round !== this.#failures) return;
    this.#failures += 1;
    this.#retryAt = now + backOff(this.#failures, this.#random);
  }

  /** A request succeeded. Gives whether the gateway was down. */
  works(): boolean {
    const was = this.#failures > 0;
    this.#failures = 0;
    this.#retryAt = -Infinity;
    return was;
  }
}

/** No pause is shorter, seconds: a gateway that is down is not asked in a tight loop. */
const SHORTEST = 0.1;
const LONGEST_DELAY = 60;

/**
 * The pause before the next try after so many failures in a row (1 or more), seconds: anything up to 1, 2, 4 ... 60 s (full
 * jitter), so that the agents of a whole site do not come back at the same moment.
 * @param random 0 to below 1
 */
export const backOff = (failures: number, random: () => number): number =>
  Math.max(SHORTEST, random() * Math.min(LONGEST_DELAY, 2 ** (failures - 1)));
