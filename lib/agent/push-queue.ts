// Which group is pushed next. Data that are not true any more leave the gateway before anything else is pushed; two pushes of one group
// never cross, as the older might arrive last; data that the gateway refuses are tried again after a pause that grows, and nothing
// else waits for them.

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
