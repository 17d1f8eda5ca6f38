import type { Window } from "../accounting/ports.ts";
import { Sizes } from "../accounting/sizes.ts";
import { Tries } from "../accounting/tries.ts";
import { append } from "../lists.ts";
import { type UidPart, partsByUid } from "./uid-parts.ts";

const HOUR = 3600;
/** Queries for one question, answered and refused: so many for each hour of it, and all uids of one part in 256. */
const MOST_QUERIES = { anHour: 64, besides: 600 };
/** The size of the shortest window by uid; how far its uids are parted is not remembered. */
const BY_UID = 1 / 2;

export type Parting = {
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
  const sizes = new Sizes(uidParts.length === 0 ? 1 : BY_UID);
  const tries = new Tries(asked, windows, MOST_QUERIES);

  const answered = (window: Window, uids: readonly string[], isSmallest: boolean): Promise<boolean> => {
    const pods = uids.length === 0 ? "" : ` of the pods with ${uids.join(", ")}`;
    return tries.answered({ window, pods, isSmallest }, async () => {
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
          once = sizes.refused(size, tries.inARow);
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
