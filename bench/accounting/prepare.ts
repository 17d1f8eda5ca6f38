import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readFile, readdir, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import { type Tell, blocksOf, compacted } from "./compact.ts";
import { fill } from "./fill.ts";
import { SHORT_BLOCK, startServer } from "./server.ts";
import { HOUR, type Shape, dailyRunAt, layoutOf } from "./shape.ts";

/** Raise it whenever the same shape gives other samples. */
const FORMAT = 3;
const DONE = "complete.json";

const done = z.object({ samples: z.number(), series: z.number(), seconds: z.number() });

/** The lengths of blocks that are measured: what servers have that keep 15 and 120 days. */
export const BLOCKS = [SHORT_BLOCK, 162] as const;
export type BlockHours = (typeof BLOCKS)[number];

/** The same samples in two databases, and what it took to make them. */
export type Prepared = z.infer<typeof done> & {
  readonly databases: Readonly<Record<BlockHours, string>>;
  readonly reused: boolean;
};

/**
 * Databases with the shape's samples, made by Prometheus itself: written to it in blocks of 18 hours, then compacted.
 * Kept in the system's temporary folder, where later runs find them.
 */
export async function prepare(shape: Shape, tell: Tell): Promise<Prepared> {
  const hash = createHash("sha256")
    .update(JSON.stringify([FORMAT, shape.jobs, shape.months, shape.scrapeSeconds]))
    .digest("hex");
  const folder = join(tmpdir(), `gridmeter-bench-${hash.slice(0, 12)}`);
  const databases = { [SHORT_BLOCK]: join(folder, "short"), 162: join(folder, "long") };
  const held = await readFile(join(folder, DONE), "utf8").catch(() => undefined);
  if (held !== undefined) return { ...done.parse(JSON.parse(held)), databases, reused: true };

  await clearDead(folder);
  const work = `${folder}.${process.pid}`;
  try {
    const start = performance.now();
    const samples = await written(shape, work, tell);
    await compacted(join(work, "short"), join(work, "long"), { hours: 162 }, tell);
    const facts = {
      samples,
      // One that lies in two blocks counts twice, as it does for Prometheus.
      series: (await blocksOf(join(work, "long"))).reduce((sum, block) => sum + block.series, 0),
      seconds: (performance.now() - start) / 1000,
    };
    await writeFile(join(work, DONE), JSON.stringify(facts));
    // Renamed when complete: a run that was killed leaves nothing that looks whole.
    await rm(folder, { recursive: true, force: true });
    await rename(work, folder);
    return { ...facts, databases, reused: false };
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/**
 * The same samples as a server has them at the moment of the daily run: none later, and the newest not yet in long
 * blocks, which are made when their time is over.
 */
export async function prepareDaily({ databases }: Prepared, hours: BlockHours, tell: Tell): Promise<string> {
  // With short blocks all that is older looks the same, and what is newer is never asked for.
  if (hours === SHORT_BLOCK) return databases[SHORT_BLOCK];
  const folder = join(dirname(databases[SHORT_BLOCK]), "daily");
  if (existsSync(folder)) return folder;
  await clearDead(folder);
  const work = `${folder}.${process.pid}`;
  try {
    await compacted(databases[SHORT_BLOCK], work, { hours, until: dailyRunAt / HOUR }, tell);
    await rename(work, folder);
    return folder;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Removes what runs that were killed have left: gigabytes that nobody would ever look for. */
async function clearDead(folder: string): Promise<void> {
  for (const name of await readdir(dirname(folder))) {
    if (!name.startsWith(`${basename(folder)}.`)) continue;
    const pid = Number(name.slice(name.lastIndexOf(".") + 1));
    try {
      process.kill(pid, 0);
    } catch {
      await rm(join(dirname(folder), name), { recursive: true, force: true });
    }
  }
}

async function written(shape: Shape, work: string, tell: Tell): Promise<number> {
  const server = await startServer(join(work, "server"), {
    // It only takes samples in, and half its time would go into collecting garbage.
    env: { GOGC: "400" },
    flags: ["--web.enable-remote-write-receiver", "--web.enable-admin-api"],
  });
  let samples: number;
  try {
    samples = await fill(server.url, layoutOf(shape), (hours, of) => tell("writing samples, hours", hours, of));
    // What is still in memory becomes the last block.
    const answer = await fetch(`${server.url}/api/v1/admin/tsdb/snapshot`, { method: "POST" });
    if (!answer.ok) throw new Error(`Prometheus made no snapshot (${answer.status}): ${await answer.text()}`);
    await answer.body?.cancel();
  } finally {
    await server.stop();
  }
  const snapshots = join(work, "server", "snapshots");
  const [name, ...others] = await readdir(snapshots);
  if (name === undefined || others.length > 0) throw new Error(`There is not one snapshot in ${snapshots}.`);
  await mkdir(join(work, "short"));
  for (const block of await readdir(join(snapshots, name))) {
    await rename(join(snapshots, name, block), join(work, "short", block));
  }
  await rm(join(work, "server"), { recursive: true });
  return samples;
}
