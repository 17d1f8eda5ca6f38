import type { Fact, Monitoring, Row, Window } from "./ports.ts";
import { SHARDS, Tiling, prefixesOf, shardsOf } from "./tiling.ts";
import { Tries } from "./tries.ts";

const HOUR = 3600;
/** Queries for one fact of one piece, answered and refused: so many for each hour of it, and all shards of one hour. */
const MOST_QUERIES = { anHour: SHARDS / 2, besides: 2 * SHARDS };

type Tile = { readonly window: Window; readonly size: number; readonly shards: number };

/** The next tile from a place on: hours of all uids, or shards of the hour. */
function tileAt(from: number, shard: number, to: number, size: number): Tile {
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
 * by uid prefix. Tiles are asked one after the other, in order of time.
 * @param take gets all rows, some more than once (of overlapping edges, of several tiles, of a try that failed halfway), and
 * merges them so that neither this nor the tiles matter: latest end and start, latest request
 * @param tiling what the server is known to answer; it learns
 * @param uids the pods asked for, where it is few; there may come rows of others
 * @throws whatever the monitoring throws; the refusal, with the question, once even the smallest tile is refused or too many
 * were needed
 */
export async function ask(
  monitoring: Monitoring,
  fact: Fact,
  window: Window,
  take: (row: Row) => void,
  tiling: Tiling = new Tiling(),
  uids?: readonly string[],
): Promise<void> {
  const sizes = tiling.of(fact);
  const tries = new Tries(fact, [window], MOST_QUERIES);
  let { from } = window;
  let shard = 0;
  let once = Infinity;
  for (;;) {
    const tile = tileAt(from, shard, window.to, Math.min(once, sizes.most));
    const prefixes = tile.shards === SHARDS ? undefined : prefixesOf(shard, tile.shards);
    const pods = prefixes === undefined ? "" : ` of the pods whose uid begins with ${prefixes.join(" or ")}`;
    const only = prefixes === undefined ? uids && { uids } : { prefixes };
    const part = { window: tile.window, pods, isSmallest: tile.size <= sizes.smallest };
    if (!(await tries.answered(part, () => monitoring.facts(fact, tile.window, take, only)))) {
      once = sizes.refused(tile.size, tries.inARow);
      continue;
    }
    sizes.answered(tile.size);
    once = Infinity;
    shard = (shard + tile.shards) % SHARDS;
    if (shard === 0) from = tile.window.to;
    if (from >= window.to) return;
  }
}
