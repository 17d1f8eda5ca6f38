import { GridmeterError } from "../errors.ts";
import type { Fact, Monitoring, Row, UidPrefixes, Window } from "./ports.ts";
import { SHARDS, Tiling, prefixesOf, shardsOf } from "./tiling.ts";
import type { Size } from "./tiling.ts";
import { showTime } from "./time.ts";

const HOUR = 3600;
/** Queries for one fact of one piece, answered and refused: so many for each hour of it, and all shards of one hour. */
const MOST_QUERIES = { anHour: SHARDS / 2, besides: 2 * SHARDS };
/** The smallest tile is asked for again before its refusal is believed: a busy server is slow with everything. */
const MOST_SMALLEST = 5;
/** A server that says it cannot answer now is asked for less so often before that is believed. */
const MOST_UNAVAILABLE = 3;

type Tile = { readonly window: Window; readonly size: Size; readonly shards: number };

/** The next tile from a place on: hours of all uids, or shards of the hour. */
function tileAt(from: number, shard: number, to: number, size: Size): Tile {
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
 * @throws whatever the monitoring throws; `prometheus_too_large` or `prometheus_unavailable`, with the question, once even
 * the smallest tile is refused or too many were needed
 */
export async function ask(
  monitoring: Monitoring,
  fact: Fact,
  window: Window,
  take: (row: Row) => void,
  tiling: Tiling = new Tiling(),
  uids?: readonly string[],
): Promise<void> {
  const most = MOST_QUERIES.besides + Math.ceil((window.to - window.from) / HOUR) * MOST_QUERIES.anHour;
  let { from } = window;
  let shard = 0;
  let inARow = 0;
  let unavailable = 0;
  let smallest = 0;
  let once = Infinity;
  for (let queries = 1; ; queries += 1) {
    const tile = tileAt(from, shard, window.to, Math.min(once, tiling.most(fact)));
    const prefixes = tile.shards === SHARDS ? undefined : prefixesOf(shard, tile.shards);
    try {
      await monitoring.facts(fact, tile.window, take, prefixes === undefined ? uids && { uids } : { prefixes });
    } catch (thrown) {
      if (!isRefusal(thrown)) throw thrown;
      inARow += 1;
      if (thrown.code === "prometheus_unavailable") unavailable += 1;
      const next = tiling.refused(fact, tile.size, inARow);
      if (next === undefined) smallest += 1;
      if (smallest >= MOST_SMALLEST || unavailable >= MOST_UNAVAILABLE || queries >= most)
        throw givenUp(thrown, fact, tile.window, prefixes, queries);
      once = next ?? tile.size;
      continue;
    }
    tiling.answered(fact, tile.size);
    inARow = 0;
    unavailable = 0;
    smallest = 0;
    once = Infinity;
    shard = (shard + tile.shards) % SHARDS;
    if (shard === 0) from = tile.window.to;
    if (from >= window.to) return;
  }
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
  fact: Fact,
  { from, to }: Window,
  prefixes: UidPrefixes | undefined,
  queries: number,
): GridmeterError {
  const pods = prefixes === undefined ? "" : ` of the pods whose uid begins with ${prefixes.join(" or ")}`;
  const times = queries === 1 ? "" : `, after ${queries} queries for parts of ${fact}`;
  return new GridmeterError(
    refusal.code,
    `Given up on ${fact}${pods} from ${showTime(from)} to ${showTime(to)}${times}. ${refusal.message}`,
    { cause: refusal },
  );
}
