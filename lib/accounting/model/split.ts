// Asking about a long time in parts, where the server refuses to answer about all of it at once: too large, too slow, or not now.
import pLimit from "p-limit";
import { GridmeterError } from "../../shared/errors.ts";
import { append } from "../../shared/lists.ts";
import type { Fact, Monitoring, Row, Window } from "./monitoring.ts";
import { DAY, HOUR, showTime } from "./time.ts";

/** Some of the pods of a window. `parts`: the same pods in smaller groups; none where nothing smaller is left. */
type PodGroup<Only> = {
  readonly only: Only;
  readonly name: string;
  readonly parts: () => readonly PodGroup<Only>[];
};

type Question<Only> = {
  /** what is asked, for the error's message */
  readonly asked: string;
  /** the shortest window that is asked for, seconds */
  readonly shortest?: number;
  /** all pods in groups: a shortest window that is refused is asked for by them; none: it is not */
  readonly groups?: readonly PodGroup<Only>[];
  /** whether what was answered already says all there is to know about a window, which is then not asked */
  readonly known?: (window: Window) => boolean;
  /** what the server is known to answer at once; it changes with each answer and refusal */
  readonly longest?: LongestWindow;
};

/** The longest window that is asked for at once, seconds, and how many of that length were answered since it changed. */
type LongestWindow = { seconds: number; answers: number; wasAnswered: boolean };
const unlimited = (): LongestWindow => ({ seconds: Infinity, answers: 0, wasAnswered: false });

/** After so many answers in a row a window twice as long is tried: hours differ, and a refusal may have been a passing one. */
const GROWS_AFTER = 8;

/** What a server is known to answer at once, by fact. Handed on from piece to piece; no figure depends on it. */
export class LongestWindows {
  readonly #held = new Map<Fact, LongestWindow>();

  of(fact: Fact): LongestWindow {
    const held = this.#held.get(fact) ?? unlimited();
    this.#held.set(fact, held);
    return held;
  }
}

/**
 * Asks about windows, one after the other. Where the server refuses one, its time is halved down to the shortest window, and that is
 * asked for by groups of pods. So a question must have an answer over a window that is all that is answered over its parts,
 * which may come more than once.
 * @param ask about a window, of all pods (undefined) or of a group
 * @throws whatever `ask` throws that is no refusal; the refusal, with the question, once there is no use in asking on
 */
async function split<Only>(
  windows: readonly Window[],
  ask: (window: Window, only: Only | undefined) => Promise<void>,
  { asked, shortest = HOUR, groups = [], known = () => false, longest = unlimited() }: Question<Only>,
): Promise<void> {
  const budget = new RetryBudget(asked, windows);
  const byPods = async (window: Window, some: readonly PodGroup<Only>[]): Promise<void> => {
    for (const { only, name, parts } of some) {
      const smaller = parts();
      const question = { window, pods: ` of the pods ${name}`, isSmallest: smaller.length === 0 };
      while (!known(window) && !(await budget.answered(question, () => ask(window, only)))) {
        if (smaller.length === 0) continue;
        await byPods(window, smaller);
        break;
      }
    }
  };
  for (const window of windows) {
    let { from } = window;
    while (from < window.to) {
      const part = { from, to: Math.min(window.to, from + longest.seconds) };
      const length = part.to - part.from;
      const isShortest = length <= shortest;
      const question = { window: part, pods: "", isSmallest: isShortest && groups.length === 0 };
      if (known(part)) from = part.to;
      else if (await budget.answered(question, () => ask(part, undefined))) {
        lengthen(longest, length);
        from = part.to;
      } else if (!isShortest) shorten(longest, length, shortest);
      else if (groups.length > 0) {
        await byPods(part, groups);
        from = part.to;
      }
    }
  }
}

function lengthen(longest: LongestWindow, length: number): void {
  longest.wasAnswered = true;
  if (length < longest.seconds) return;
  longest.answers += 1;
  if (longest.answers < GROWS_AFTER) return;
  longest.seconds *= 2;
  longest.answers = 0;
}

/** A half; a quarter as long as nothing was ever answered, so that little is spent on a server that answers nothing. */
function shorten(longest: LongestWindow, refused: number, shortest: number): void {
  const share = refused / shortest / (longest.wasAnswered ? 2 : 4);
  longest.seconds = Math.max(1, Math.floor(share)) * shortest;
  longest.answers = 0;
}

/**
 * Asks a fact over a window, of all pods or of a few.
 * @param take gets all rows, some more than once (of overlapping edges, of several parts, of a try that failed halfway), and
 * merges them so that this does not matter: latest end and start, latest request
 * @param uids the pods asked for, where it is few; there may come rows of others
 * @throws whatever the monitoring throws, and as `split`
 */
export function ask(
  monitoring: Monitoring,
  fact: Fact,
  window: Window,
  take: (row: Row) => void,
  longest: LongestWindows = new LongestWindows(),
  uids?: readonly string[],
): Promise<void> {
  const askPart = (part: Window, prefix: string | undefined): Promise<void> =>
    monitoring.facts(fact, part, take, prefix === undefined ? uids && { uids } : { prefixes: [prefix] });
  return split([window], askPart, { asked: fact, groups: UID_PREFIXES, longest: longest.of(fact) });
}

/** The digits a uid is made of. */
const HEX: readonly string[] = Array.from({ length: 16 }, (_, digit) => digit.toString(16));
const prefixGroup = (prefix: string): PodGroup<string> => ({
  only: prefix,
  name: `whose uid begins with ${prefix}`,
  parts: () => (prefix.length < 2 ? HEX.map((digit) => prefixGroup(prefix + digit)) : []),
});
/** All pods by the first digit of their uid, and then by the second. */
const UID_PREFIXES = HEX.map(prefixGroup);

/**
 * Asks about windows whose answers are rows of any kind.
 * @param ask about a window, with the matchers of the pods asked for (none: all)
 * @param options see `Question`; `uidLabels`: labels under which a pod's uid may be; none: nothing is asked by pods
 * @throws as `split`
 */
export async function inParts<T>(
  windows: readonly Window[],
  ask: (part: Window, matchers: readonly string[]) => Promise<readonly T[]>,
  options: Pick<Question<never>, "shortest" | "known"> & {
    readonly asked?: string;
    readonly uidLabels?: readonly string[];
  } = {},
): Promise<readonly T[]> {
  const found: T[] = [];
  const { asked = "what was asked", uidLabels = [], ...others } = options;
  const groups = partsByUid(uidLabels);
  await split(windows, async (part, matchers) => append(found, await ask(part, matchers ?? [])), {
    ...others,
    asked,
    groups,
  });
  return found;
}

/**
 * All series in groups: by the first hexadecimal digit of the uid, then by the second, then by the next label under which a uid may
 * be. What has no uid there is a group of its own, and falls into parts by the next label.
 */
export function partsByUid(
  [label, ...others]: readonly string[],
  outer: readonly string[] = [],
): readonly PodGroup<readonly string[]>[] {
  if (label === undefined) return [];
  const group = (
    matcher: string,
    parts: () => readonly PodGroup<readonly string[]>[],
  ): PodGroup<readonly string[]> => ({
    only: [...outer, matcher],
    name: `with ${[...outer, matcher].join(", ")}`,
    parts,
  });
  const byNext = (matcher: string) => group(matcher, () => partsByUid(others, [...outer, matcher]));
  const bySecond = (first: string) => [
    ...HEX.map((second) => byNext(`${label}=~"${first}${second}.*"`)),
    byNext(`${label}=~"${first}(?:[^0-9a-f].*)?"`),
  ];
  return [
    ...HEX.map((first) => group(`${label}=~"${first}.*"`, () => bySecond(first))),
    byNext(`${label}!~"[0-9a-f].*"`),
  ];
}

/** Queries for one question, answered and refused: so many for each hour of it, and all groups of pods of one hour. */
const MOST_QUERIES = { anHour: 128, besides: 600 };
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
  #smallest = 0;
  #unavailable = 0;

  /** @param asked the question, for the error's message */
  constructor(asked: string, windows: readonly Window[]) {
    const hours = windows.reduce((sum, { from, to }) => sum + Math.ceil((to - from) / HOUR), 0);
    this.#asked = asked;
    this.#most = MOST_QUERIES.besides + hours * MOST_QUERIES.anHour;
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
    this.#smallest = this.#unavailable = 0;
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

/** Windows up to this length are little to ask for: a daily run's. Seconds. */
const SHORT = 3 * DAY;

/** Asks as soon as the limit lets this question through. */
type Limited = <T>(ask: () => Promise<T>) => Promise<T>;

/**
 * Lets the questions about one window be asked side by side, or, where there is little to ask for, one after the other: side by side
 * they would take all of the server's cores from others and still wait for each other (bench/results.md: daily run). After a failure
 * what is left is not asked any more, and never answered.
 */
export function questionLimit({ from, to }: Window): Limited {
  const limit = pLimit(to - from > SHORT ? Number.POSITIVE_INFINITY : 1);
  return (ask) =>
    limit(async () => {
      try {
        return await ask();
      } catch (error) {
        limit.clearQueue();
        throw error;
      }
    });
}
