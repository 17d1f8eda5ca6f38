import type { Window } from "../accounting/ports.ts";
import { showTime } from "../accounting/time.ts";
import { GridmeterError } from "../errors.ts";
import { Pace } from "./pace.ts";
import { type UidPart, partsByUid } from "./uid-parts.ts";

const HOUR = 3600;
/** Queries for one window, answered and refused: so many for each hour of it, and all uids of one part in 256. */
const MOST_QUERIES = { anHour: 64, besides: 600 };
/** What has no parts is asked for again before its refusal is believed: a busy server is slow with everything. */
const MOST_SMALLEST = 5;
/** A server that says it cannot answer now is asked for less so often before that is believed. */
const MOST_UNAVAILABLE = 3;

export type Parting = {
  /** what is asked, for the error's message */
  readonly asked?: string;
  /** the shortest window asked for, seconds; windows are cut at multiples of it from their beginning */
  readonly shortest?: number;
  /** labels under which a pod's uid may stand: the shortest window is asked by uid; none: it is not */
  readonly uidLabels?: readonly string[];
  /** whether what was answered already says all there is to know about a window, which is then not asked */
  readonly known?: (window: Window) => boolean;
  /** how long windows the server answers, where several calls ask the same */
  readonly pace?: Pace;
};

/**
 * Asks about a window, and where the server refuses it (too large, too slow, or not now) about parts of it: shorter windows,
 * then some of the pods. For questions whose answer over a window is all that is answered over its parts: they may come
 * more than once. Parts are asked one after the other, so that a refusal ends it.
 * @param ask about a window, with the matchers of the pods asked for (none: all)
 * @throws whatever `ask` throws; `prometheus_too_large` or `prometheus_unavailable`, with the question, once even the
 * smallest part is refused or too many were needed
 */
export async function inParts<T>(
  window: Window,
  ask: (part: Window, uids: readonly string[]) => Promise<readonly T[]>,
  { asked = "what was asked", shortest = HOUR, uidLabels = [], known = () => false, pace = new Pace() }: Parting = {},
): Promise<readonly T[]> {
  const found: T[] = [];
  const most = MOST_QUERIES.besides + Math.ceil((window.to - window.from) / HOUR) * MOST_QUERIES.anHour;
  const tries = { all: 0, inARow: 0, unavailable: 0, smallest: 0 };

  /** Whether it was answered. Throws once there is no use in asking on. */
  const answered = async (part: Window, uids: readonly string[], isSmallest: boolean): Promise<boolean> => {
    tries.all += 1;
    try {
      found.push(...(await ask(part, uids)));
    } catch (thrown) {
      if (!isRefusal(thrown)) throw thrown;
      tries.inARow += 1;
      if (thrown.code === "prometheus_unavailable") tries.unavailable += 1;
      if (isSmallest) tries.smallest += 1;
      if (tries.smallest < MOST_SMALLEST && tries.unavailable < MOST_UNAVAILABLE && tries.all < most) return false;
      throw givenUp(thrown, asked, part, uids, tries.all);
    }
    tries.inARow = tries.unavailable = tries.smallest = 0;
    return true;
  };
  const byUid = async (part: Window, pods: readonly UidPart[]): Promise<void> => {
    for (const each of pods) {
      const smaller = each.parts();
      for (;;) {
        if (known(part) || (await answered(part, each.matchers, smaller.length === 0))) break;
        if (smaller.length === 0) continue;
        await byUid(part, smaller);
        break;
      }
    }
  };

  const pods = partsByUid(uidLabels);
  const least = pods.length === 0 ? 1 : 0;
  let { from } = window;
  let once = Infinity;
  while (from < window.to) {
    const units = Math.ceil((window.to - from) / shortest);
    const size = Math.max(least, Math.min(units, pace.most, once));
    const part = { from, to: Math.min(window.to, from + Math.max(1, size) * shortest) };
    if (!known(part)) {
      if (size === 0) await byUid(part, pods);
      else if (!(await answered(part, [], size === 1 && least === 1))) {
        once = pace.refused(size, tries.inARow);
        continue;
      }
      pace.answered(size);
    }
    once = Infinity;
    from = part.to;
  }
  return found;
}

function isRefusal(thrown: unknown): thrown is GridmeterError {
  return (
    thrown instanceof GridmeterError &&
    (thrown.code === "prometheus_too_large" || thrown.code === "prometheus_unavailable")
  );
}

/** Which question was not answered, how small it was, and what the server said. */
function givenUp(
  refusal: GridmeterError,
  asked: string,
  { from, to }: Window,
  uids: readonly string[],
  queries: number,
): GridmeterError {
  const pods = uids.length === 0 ? "" : ` of the pods with ${uids.join(", ")}`;
  const times = queries === 1 ? "" : `, after ${queries} queries`;
  return new GridmeterError(
    refusal.code,
    `Given up on ${asked}${pods} from ${showTime(from)} to ${showTime(to)}${times}. ${refusal.message}`,
    { cause: refusal },
  );
}
