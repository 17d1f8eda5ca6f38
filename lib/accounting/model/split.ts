import pLimit from "p-limit";
import { GridmeterError } from "../../shared/errors.ts";
import { append } from "../../shared/lists.ts";
import type { Fact, Monitoring, Row, UidPrefixes, Window } from "./monitoring.ts";
import { DAY, showTime } from "./time.ts";

const HOUR = 3600;

/** Shards of an hour: two hexadecimal digits of the uid. An hour that is still refused will not be answered at all. */
export const SHARDS = 256;

/** Queries for one fact of one piece, answered and refused: so many for each hour of it, and all shards of one hour. */
const MOST_QUERIES = { anHour: SHARDS / 2, besides: 2 * SHARDS };

type QueryWindow = { readonly window: Window; readonly size: number; readonly shards: number };

/** The next window from a moment on: hours of all uids, or shards of the hour. */
function windowAt(from: number, shard: number, to: number, size: number): QueryWindow {
  const hours = Math.max(1, Math.ceil((to - from) / HOUR));
  if (shard === 0 && size >= 1) {
    const whole = Math.min(hours, size);
    return { window: { from, to: Math.min(to, from + whole * HOUR) }, size: whole, shards: SHARDS };
  }
  const shards = shardsOf(Math.min(size, 1 / 2), shard);
  return { window: { from, to: Math.min(to, from + HOUR) }, size: shards / SHARDS, shards };
}

/**
 * Asks a fact over a window. Where Prometheus refuses it, the *asked range* is tiled contiguously, down to an hour, then
 * by uid prefix. Windows are asked one after the other, in order of time.
 * @param take gets all rows, some more than once (of overlapping edges, of several windows, of a try that failed halfway), and
 * merges them so that neither this nor the windows matter: latest end and start, latest request
 * @param batchSizes what the server is known to answer; it learns
 * @param uids the pods asked for, where it is few; there may come rows of others
 * @throws whatever the monitoring throws; the refusal, with the question, once even the smallest window is refused or too many
 * were needed
 */
export async function ask(
  monitoring: Monitoring,
  fact: Fact,
  window: Window,
  take: (row: Row) => void,
  batchSizes: BatchSizes = new BatchSizes(),
  uids?: readonly string[],
): Promise<void> {
  const sizes = batchSizes.of(fact);
  const budget = new RetryBudget(fact, [window], MOST_QUERIES);
  let { from } = window;
  let shard = 0;
  let once = Infinity;
  for (;;) {
    const next = windowAt(from, shard, window.to, Math.min(once, sizes.most));
    const prefixes = next.shards === SHARDS ? undefined : prefixesOf(shard, next.shards);
    const pods = prefixes === undefined ? "" : ` of the pods whose uid begins with ${prefixes.join(" or ")}`;
    const only = prefixes === undefined ? uids && { uids } : { prefixes };
    const part = { window: next.window, pods, isSmallest: next.size <= sizes.smallest };
    if (!(await budget.answered(part, () => monitoring.facts(fact, next.window, take, only)))) {
      once = sizes.refused(next.size, budget.inARow);
      continue;
    }
    sizes.answered(next.size);
    once = Infinity;
    shard = (shard + next.shards) % SHARDS;
    if (shard === 0) from = next.window.to;
    if (from >= window.to) return;
  }
}

/** Queries for one question, answered and refused: so many for each hour of it, and all uids of one part in 256. */
const MOST_QUERIES_OF_PARTS = { anHour: 64, besides: 600 };
/** The size of the shortest window by uid; how far its uids are parted is not remembered. */
const BY_UID = 1 / 2;

type Parting = {
  /** what is asked, for the error's message */
  readonly asked?: string;
  /** the shortest window asked for, seconds; windows are cut at multiples of it from their beginning */
  readonly shortest?: number;
  /** labels under which a pod's uid may stand: the shortest window is asked by uid; none: it is not */
  readonly uidLabels?: readonly string[];
  /** whether what was answered already says all there is to know about a window, which is then not asked */
  readonly known?: (window: Window) => boolean;
};

/**
 * Asks about windows, and where the server refuses one (too large, too slow, or not now) about parts of it: shorter windows,
 * then some of the pods. For questions whose answer over a window is all that is answered over its parts: they may come
 * more than once. All is asked one after the other, so that giving up on one part ends it.
 * @param ask about a window, with the matchers of the pods asked for (none: all)
 * @throws whatever `ask` throws; the refusal, with the question, once even the smallest part is refused or too many were
 * needed
 */
export async function inParts<T>(
  windows: readonly Window[],
  ask: (part: Window, uids: readonly string[]) => Promise<readonly T[]>,
  { asked = "what was asked", shortest = HOUR, uidLabels = [], known = () => false }: Parting = {},
): Promise<readonly T[]> {
  const found: T[] = [];
  const uidParts = partsByUid(uidLabels);
  const sizes = new BatchSize(uidParts.length === 0 ? 1 : BY_UID);
  const budget = new RetryBudget(asked, windows, MOST_QUERIES_OF_PARTS);

  const answered = (window: Window, uids: readonly string[], isSmallest: boolean): Promise<boolean> => {
    const pods = uids.length === 0 ? "" : ` of the pods with ${uids.join(", ")}`;
    return budget.answered({ window, pods, isSmallest }, async () => {
      append(found, await ask(window, uids));
    });
  };
  const byUid = async (window: Window, parts: readonly UidPart[]): Promise<void> => {
    for (const part of parts) {
      const smaller = part.parts();
      while (!known(window) && !(await answered(window, part.matchers, smaller.length === 0))) {
        if (smaller.length === 0) continue;
        await byUid(window, smaller);
        break;
      }
    }
  };

  for (const window of windows) {
    let { from } = window;
    let once = Infinity;
    while (from < window.to) {
      const size = Math.min(Math.ceil((window.to - from) / shortest), sizes.most, once);
      const part = { from, to: Math.min(window.to, from + Math.max(1, size) * shortest) };
      if (!known(part)) {
        if (size < 1) await byUid(part, uidParts);
        else if (!(await answered(part, [], size === sizes.smallest))) {
          once = sizes.refused(size, budget.inARow);
          continue;
        }
        sizes.answered(size);
      }
      once = Infinity;
      from = part.to;
    }
  }
  return found;
}

/** Some of the pods: the matchers that select them, and the pods among them when even these are too many. */
type UidPart = {
  readonly matchers: readonly string[];
  /** these pods in parts, each pod in one; none where nothing smaller is left */
  parts(): readonly UidPart[];
};

/**
 * All series in parts: by the first hexadecimal digit of the uid, then by the second, then by the next label where a uid may
 * stand. What has no uid there is a part of its own, and falls into parts by the next label.
 */
export function partsByUid(labels: readonly string[]): readonly UidPart[] {
  return partsBy(labels, []);
}

function partsBy([label, ...others]: readonly string[], outer: readonly string[]): readonly UidPart[] {
  if (label === undefined) return [];
  const part = (matcher: string, parts: () => readonly UidPart[]): UidPart => ({
    matchers: [...outer, matcher],
    parts,
  });
  const byNext = (matcher: string): UidPart => part(matcher, () => partsBy(others, [...outer, matcher]));
  const bySecond = (first: string): readonly UidPart[] => [
    ...HEX.map((second) => byNext(`${label}=~"${first}${second}.*"`)),
    byNext(`${label}=~"${first}(?:[^0-9a-f].*)?"`),
  ];
  return [
    ...HEX.map((first) => part(`${label}=~"${first}.*"`, () => bySecond(first))),
    byNext(`${label}!~"[0-9a-f].*"`),
  ];
}

/** The digits a uid is made of. */
const HEX: readonly string[] = Array.from({ length: 16 }, (_, digit) => digit.toString(16));
/** How much of each fact the server answers at once, remembered for a run: hours, below 1 a share of the uids of one hour. */
export class BatchSizes {
  readonly #held = new Map<Fact, BatchSize>();

  /** What is known of that fact; it learns. */
  of(fact: Fact): BatchSize {
    const held = this.#held.get(fact) ?? new BatchSize(1 / SHARDS);
    this.#held.set(fact, held);
    return held;
  }
}

/** How many shards from `at` on make a share of that size; prefixes of one digit where they can. */
export function shardsOf(size: number, at: number): number {
  let width = Math.max(1, Math.floor(size * SHARDS));
  while (at % width !== 0) width /= 2;
  return width;
}

/** The beginnings of the uids in the shards [at, at + width). */
export function prefixesOf(at: number, width: number): UidPrefixes {
  if (width >= 16) return HEX.slice(at / 16, (at + width) / 16);
  const digit = HEX[Math.floor(at / 16)] ?? "";
  return HEX.slice(at % 16, (at % 16) + width).map((second) => digit + second);
}

/**
 * The smallest part is asked for again before its refusal is believed: a busy server is slow with everything. An answer that
 * is cut short has been tried again already.
 */
const MOST_SMALLEST = 5;
/** A server that says it cannot answer now is asked for less so often before that is believed. */
const MOST_UNAVAILABLE = 3;

/** An answer that ended too early, time after time. A limit in between may let a shorter one pass, so less is asked. */
export class CutShort extends GridmeterError {
  constructor(message: string) {
    super("prometheus_bad_answer", message);
  }
}

/** Some of what a question is about; `pods` says which, for the error's message (all: nothing). */
type Part = { readonly window: Window; readonly pods: string; readonly isSmallest: boolean };

/** Counts the queries for the parts of one question, and ends it once there is no use in asking on. */
class RetryBudget {
  readonly #asked: string;
  readonly #most: number;
  #queries = 0;
  #inARow = 0;
  #smallest = 0;
  #unavailable = 0;

  /**
   * @param asked the question, for the error's message
   * @param most queries, answered and refused: so many for each hour, and besides
   */
  constructor(asked: string, windows: readonly Window[], most: { readonly anHour: number; readonly besides: number }) {
    const hours = windows.reduce((sum, { from, to }) => sum + Math.ceil((to - from) / HOUR), 0);
    this.#asked = asked;
    this.#most = most.besides + hours * most.anHour;
  }

  /** Refusals since the last answer. */
  get inARow(): number {
    return this.#inARow;
  }

  /**
   * Whether the server answered; where it did not, less is to be asked.
   * @throws whatever `ask` throws that is no refusal; the refusal, with the question, once there is no use in asking on
   */
  async answered({ window, pods, isSmallest }: Part, ask: () => Promise<void>): Promise<boolean> {
    this.#queries += 1;
    try {
      await ask();
    } catch (thrown) {
      if (!isRefusal(thrown)) throw thrown;
      this.#inARow += 1;
      if (isSmallest) this.#smallest += thrown instanceof CutShort ? MOST_SMALLEST : 1;
      if (thrown.code === "prometheus_unavailable") this.#unavailable += 1;
      const goesOn =
        this.#smallest < MOST_SMALLEST && this.#unavailable < MOST_UNAVAILABLE && this.#queries < this.#most;
      if (goesOn) return false;
      const where = `${pods} from ${showTime(window.from)} to ${showTime(window.to)}`;
      const times = this.#queries === 1 ? "" : `, after ${this.#queries} queries`;
      throw new GridmeterError(thrown.code, `Given up on ${this.#asked}${where}${times}. ${thrown.message}`, {
        cause: thrown,
      });
    }
    this.#inARow = this.#smallest = this.#unavailable = 0;
    return true;
  }
}

/** Whether less may be asked: it was too large or too slow, the server could not answer now, or the answer was cut short. */
function isRefusal(thrown: unknown): thrown is GridmeterError {
  if (!(thrown instanceof GridmeterError)) return false;
  return (
    thrown.code === "prometheus_too_large" || thrown.code === "prometheus_unavailable" || thrown instanceof CutShort
  );
}

/** Answers in a row after which twice as much is tried, at first and at most. */
const GROWS_AFTER = { first: 2, most: 16 };

/**
 * How much a server answers at once, learnt from its refusals. A size is a whole number of hours or cells; below 1 it is less
 * than all pods of one: a power of 1/2, down to the smallest that is asked.
 *
 * Half of what was refused is tried next (a quarter and an eighth as long as nothing was ever answered, so that little is
 * spent on a server that answers nothing), and after some answers twice as much, since hours differ and a refusal may have
 * been a passing one. Only what is asked at once depends on it, never what comes out.
 */
export class BatchSize {
  /** what to ask at once */
  most = Infinity;
  readonly smallest: number;
  /** the greatest size that was answered since a refusal was believed */
  #proven = 0;
  /** a size that had been answered was refused: once more, and it is believed */
  #doubted = false;
  /** the smallest size that was refused and not answered since */
  #refused = Infinity;
  /** answers in a row of what is asked at once */
  #answers = 0;
  #patience = GROWS_AFTER.first;
  /** whether anything was ever answered */
  #known = false;

  constructor(smallest: number) {
    this.smallest = smallest;
  }

  /** Notes an answer of that size. */
  answered(size: number): void {
    this.#known = true;
    if (size >= Math.min(this.most, this.#proven)) this.#doubted = false;
    this.#proven = Math.max(this.#proven, size);
    if (size >= this.#refused) {
      // So that refusal was a passing one.
      this.#refused = Infinity;
      this.#patience = GROWS_AFTER.first;
    }
    if (size < this.most) return;
    this.#answers += 1;
    if (this.#answers < this.#patience) return;
    this.most *= 2;
    this.#answers = 0;
  }

  /**
   * Notes a refusal of that size, and gives the size to ask next: the same where nothing smaller is left.
   * @param inARow how many refusals there were since the last answer, this one included
   */
  refused(size: number, inARow: number): number {
    if (size <= this.smallest) return size;
    const share = size / (this.#known ? 2 : 2 ** inARow);
    const next = Math.max(this.smallest, share >= 1 ? Math.floor(share) : 2 ** Math.floor(Math.log2(share)));
    // What was answered before may be refused by chance: it is asked in parts, and no less from now on until it happens again.
    if (this.#doubted && inARow > 1) return next;
    this.#doubted = !this.#doubted && size <= this.#proven;
    if (this.#doubted) return next;
    this.#proven = 0;
    // Tried again for more in vain: it is tried less often.
    if (inARow === 1 && size >= this.#refused) this.#patience = Math.min(this.#patience * 2, GROWS_AFTER.most);
    this.#refused = Math.min(this.#refused, size);
    this.#answers = 0;
    this.most = Math.min(this.most, next);
    return next;
  }
}

/** Windows up to this length are little to ask for: a daily run's. Seconds. */
const SHORT = 3 * DAY;
/** An answer that comes within this is a quick one. Seconds. */
const QUICK = 0.5;

/** Asks as soon as the limit lets this question through. */
type Limited = <T>(ask: () => Promise<T>) => Promise<T>;

/**
 * Lets the questions about one window be asked side by side, or, where there is little to ask for, one after the other as
 * long as answers come quickly: then side by side they would take all of the server's cores from others and still wait for
 * each other. After a failure what is left is not asked any more, and never answered.
 */
export function questionLimit({ from, to }: Window, { clock }: Monitoring): Limited {
  const limit = pLimit(clock === undefined || to - from > SHORT ? Number.POSITIVE_INFINITY : 1);
  return (ask) =>
    limit(async () => {
      const asked = clock?.() ?? 0;
      try {
        const answer = await ask();
        if ((clock?.() ?? 0) - asked > QUICK) limit.concurrency = Number.POSITIVE_INFINITY;
        return answer;
      } catch (error) {
        limit.clearQueue();
        throw error;
      }
    });
}
