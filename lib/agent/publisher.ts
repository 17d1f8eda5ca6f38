// When which group is pushed. What is here serves these rules (design: "The agent: the rules"):
// - PublishQueue: data that are not true any more leave the gateway before anything else is pushed; two pushes of one group never
//   cross; data that the gateway refuses are tried again after a pause that grows, and nothing else waits for them;
// - CircuitBreaker: a gateway that is down is asked by one request at a time, and the agents of a site come back at different moments;
// - ErrorLog: an outage of a day is one line of the log, not one for each push.
import type { PushAccount } from "./metrics/self.ts";
import type { MetricStore } from "./metrics/store.ts";
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

/** What the gateway is known to hold of one group, and what it should get. */
class Entry {
  /** when it was marked, in the order of marking; undefined if the gateway has its newest values */
  marked: number | undefined;
  inFlight = false;
  /** whether the gateway may hold data of it, beside the account of its probe */
  carries = false;
  /** whether what is on its way has data */
  sends = false;
  /** when it was last sent, seconds */
  sentAt = -Infinity;
  /** data that the gateway refused are not sent before this, seconds */
  heldUntil = -Infinity;
  /** refusals in a row */
  refusals = 0;
}

/**
 * Which group is to be sent next: first those whose data the gateway must let go of, then those that changed, in the order in
 * which they did, then those that were not sent for a while. Never two of one group at a time: the older might arrive last.
 */
export class PublishQueue {
  readonly #entries: ReadonlyMap<string, Entry>;
  readonly #hasData: (group: string) => boolean;
  readonly #interval: number;
  #marks = 0;

  /** `interval`: seconds after which a group is sent again though nothing changed */
  constructor(groups: readonly string[], hasData: (group: string) => boolean, interval: number) {
    this.#entries = new Map(groups.map((group) => [group, new Entry()]));
    this.#hasData = hasData;
    this.#interval = interval;
  }

  /** Their values have changed. */
  mark(groups: Iterable<string>): void {
    for (const group of groups) {
      const entry = this.#entries.get(group);
      if (entry !== undefined) entry.marked ??= this.#marks++;
    }
  }

  markAll(): void {
    this.mark(this.#entries.keys());
  }

  /** Takes the next group out to be sent; undefined if none is to be. `whole`: its data may be sent, not only the account. */
  take(now: number): { readonly group: string; readonly whole: boolean } | undefined {
    const waiting = [...this.#entries].filter(([, entry]) => !entry.inFlight);
    const changed = waiting
      .filter(([, entry]) => entry.marked !== undefined)
      .toSorted(([, a], [, b]) => (a.marked ?? 0) - (b.marked ?? 0));
    const next =
      changed.find(([group, { carries }]) => carries && !this.#hasData(group)) ??
      changed[0] ??
      waiting.find(([, entry]) => this.#isDue(entry, now));
    if (next === undefined) return undefined;
    const [group, entry] = next;
    const whole = now >= entry.heldUntil;
    const sends = whole && this.#hasData(group);
    // Whatever becomes of it, it may have got there.
    Object.assign(entry, { marked: undefined, inFlight: true, sends, carries: entry.carries || sends });
    return { group, whole };
  }

  /** The gateway took it; `whole` as it was taken out. */
  taken(group: string, whole: boolean, now: number): void {
    const entry = this.#entries.get(group);
    if (entry === undefined) return;
    Object.assign(entry, { inFlight: false, sentAt: now, carries: entry.sends });
    if (whole) entry.refusals = 0;
  }

  /** The gateway refused its data, and holds none now; they are tried again after a pause that grows with the refusals so far. */
  refused(group: string, now: number, pause: (refusals: number) => number): void {
    const entry = this.#entries.get(group);
    if (entry === undefined) return;
    entry.refusals += 1;
    entry.heldUntil = now + pause(entry.refusals);
    Object.assign(entry, { inFlight: false, sentAt: now, carries: false });
  }

  /** It did not get there, or nobody knows: it is still to be sent. */
  failed(group: string): void {
    const entry = this.#entries.get(group);
    if (entry !== undefined) entry.inFlight = false;
    this.mark([group]);
  }

  /** Groups whose newest values the gateway does not have, those on their way apart. */
  pending(): number {
    return [...this.#entries.values()].filter(
      ({ inFlight, marked, refusals }) => !inFlight && (marked !== undefined || refusals > 0),
    ).length;
  }

  /** Besides what is old enough, what was refused and may be tried again. */
  #isDue({ sentAt, refusals, heldUntil }: Entry, now: number): boolean {
    return refusals > 0 ? now >= heldUntil : now - sentAt >= this.#interval;
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

/** What a failure is of: one group, or the gateway as a whole. */
type Source = { readonly group?: string };

const keyOf = ({ group }: Source): string => (group === undefined ? "gateway" : `group ${group}`);

/** So many different messages are logged of one failure: what a gateway answers must not fill the log. */
const MOST_SAID = 5;

/** More of what a gateway answered is not compared. */
const LONGEST_MESSAGE = 4096;

/**
 * What distinguishes one failure from another. Of a clash the gateway names series in any order, with their values, and either type as
 * the wrong one: there the first metric's name says enough.
 */
function essence({ result, status, message }: Outcome): string {
  const said = message.slice(0, LONGEST_MESSAGE);
  const name = /collected metric "?([a-zA-Z_:][a-zA-Z0-9_:]*)/.exec(said)?.[1];
  return `${result} ${status ?? ""} ${name ?? said.replaceAll(/\d+(?:\.\d+)?/g, "#")}`;
}

/** Logs what goes wrong with pushes, with what the gateway said: each thing once until it is over. */
export class ErrorLog {
  readonly #log: AgentLog;
  readonly #said = new Map<string, Set<string>>();

  constructor(log: AgentLog) {
    this.#log = log;
  }

  met(source: Source, outcome: Outcome): void {
    const { result, status, message } = outcome;
    const said = this.#said.get(keyOf(source)) ?? new Set();
    this.#said.set(keyOf(source), said);
    if (said.has(essence(outcome)) || said.size >= MOST_SAID) return;
    said.add(essence(outcome));
    const text =
      source.group === undefined
        ? "the Pushgateway does not take what is pushed; its newest values follow when it does"
        : "the Pushgateway does not take the data of this group; they were taken off it, and are tried again";
    this.#log.warn({ ...source, result, ...(status === undefined ? {} : { status }), reason: message }, text);
  }

  over(source: Source): void {
    if (!this.#said.delete(keyOf(source))) return;
    const what = source.group === undefined ? "what is pushed" : "the data of this group";
    this.#log.info(source, `the Pushgateway takes ${what} again`);
  }
}
