import { cp, mkdir, readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { readMeters } from "./meters.ts";
import { startServer } from "./server.ts";
import { HOUR } from "./shape.ts";

/** A block of a database; times in hours since the epoch. */
export type Block = { readonly name: string; readonly from: number; readonly to: number; readonly series: number };

const meta = z.object({ minTime: z.number(), maxTime: z.number(), stats: z.object({ numSeries: z.number() }) });
/** Tells how far a preparation is. */
export type Tell = (step: string, done: number, of: number) => void;

const PATIENCE_MS = 20 * 60_000;

/** The blocks of a database, oldest first. Throws where one vanishes meanwhile, as it does when it was compacted. */
export async function blocksOf(data: string): Promise<readonly Block[]> {
  const entries = await readdir(data);
  const blocks = entries
    .filter((name) => /^[0-9A-Z]{26}$/.test(name))
    .map(async (name) => {
      const { minTime, maxTime, stats } = meta.parse(JSON.parse(await readFile(join(data, name, "meta.json"), "utf8")));
      return { name, from: minTime / 1000 / HOUR, to: maxTime / 1000 / HOUR, series: stats.numSeries };
    });
  return (await Promise.all(blocks)).sort((a, b) => a.from - b.from);
}

/**
 * How many ranges of `hours` still hold more than one block, all but the last range, which Prometheus leaves for later.
 * Blocks lie in ranges that begin at multiples of their length.
 */
export function uncompacted(blocks: readonly Pick<Block, "from">[], hours: number): number {
  const held = new Map<number, number>();
  for (const { from } of blocks) held.set(Math.floor(from / hours), (held.get(Math.floor(from / hours)) ?? 0) + 1);
  const last = Math.max(...held.keys());
  return [...held].filter(([range, count]) => range < last && count > 1).length;
}

/** What is made of a database: blocks of `hours`, of the samples before `until` (epoch hours; default: of all). */
export type Compaction = { readonly hours: number; readonly until?: number };

/**
 * Copies a database and has Prometheus compact it. The newest blocks stay short, as they do on a real server. Prometheus
 * begins a minute after its start.
 */
export async function compacted(
  from: string,
  to: string,
  { hours, until = Infinity }: Compaction,
  tell: Tell,
): Promise<void> {
  await mkdir(to);
  for (const block of await blocksOf(from)) {
    if (block.from < until) await cp(join(from, block.name), join(to, block.name), { recursive: true });
  }
  const all = uncompacted(await blocksOf(to), hours);
  const server = await startServer(to, { longest: hours });
  const left = (): Promise<number> =>
    blocksOf(to).then(
      (blocks) => uncompacted(blocks, hours),
      () => all,
    );
  try {
    const deadline = Date.now() + PATIENCE_MS;
    for (let open = all; open > 0; open = await left()) {
      // It looks again every minute, but not while it compacts: by the second time the first has come to its end.
      if (((await readMeters(server.url)).get("prometheus_tsdb_compactions_triggered_total") ?? 0) > 1) return;
      if (Date.now() > deadline)
        throw new Error(`Prometheus did not compact ${to} in time: ${open} of ${all} are left.`);
      tell("compacting, ranges (it begins after a minute)", all - open, all);
      await sleep(500);
    }
  } finally {
    await server.stop();
  }
}
