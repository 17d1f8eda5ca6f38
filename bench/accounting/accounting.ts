import { Contestants } from "./contestants.ts";
import type { Bench, Comparison } from "./compare.ts";
import type { Tell } from "./compact.ts";
import { type Level, level } from "./growth.ts";
import type { Run } from "./measure.ts";
import { type BlockHours, type Prepared, prepare, prepareDaily } from "./prepare.ts";
import { type ColdMonth, allMonths, coldMonth, daily } from "./sections.ts";
import { withServer } from "./server.ts";
import { type Shape, layoutOf, monthsOf } from "./shape.ts";
import { type Table, coldTable, dailyTable } from "./tables.ts";

export type BenchOptions = Shape & {
  /** rounds in which all ways are measured in turns */
  readonly repeat: number;
  /** none: one size of site only; normal: also a tenth and three times of it, the larger one once; full: all rounds */
  readonly growth: "none" | "normal" | "full";
  readonly blocks: readonly BlockHours[];
  readonly say: (text: string) => void;
  readonly tell: Tell;
  /** takes each table as soon as it is there */
  readonly show: (table: Table) => void;
};

type Data = { readonly shape: Shape; readonly data: Prepared };

export type OnBlocks = { readonly hours: BlockHours; readonly cold: ColdMonth; readonly daily: Comparison | undefined };

/** All that the accounting's bench has measured. */
export type Results = {
  readonly options: BenchOptions;
  readonly prepared: readonly Data[];
  readonly blocks: readonly OnBlocks[];
  readonly several: { readonly months: number; readonly run: Omit<Run, "stdout"> } | undefined;
  /** by size, smallest first */
  readonly levels: readonly Level[];
  /** length of the blocks on which sizes and spans were compared, hours */
  readonly longest: BlockHours;
};

/** Prepares the data where it is not there yet, and measures. Measuring takes about a quarter of an hour with the default options. */
export async function benchAccounting(options: BenchOptions): Promise<Results> {
  const { jobs, months, scrapeSeconds, growth, say, tell } = options;
  const shape = { jobs, months, scrapeSeconds };
  const others = growth === "none" ? [] : [Math.round(jobs / 10), jobs * 3];
  const data = new Map<Shape, Prepared>();
  for (const one of [shape, ...others.map((size) => ({ jobs: size, months: 1, scrapeSeconds }))]) {
    say(`data of ${one.months} months with ${one.jobs} jobs`);
    const prepared = await prepare(one, tell);
    data.set(one, prepared);
    // Now, so that nothing is compacted between measurements.
    if (one.months > 1) for (const hours of options.blocks) await prepareDaily(prepared, hours, tell);
  }
  const contestants = await Contestants.open();
  try {
    return await compared(options, shape, data, contestants);
  } finally {
    await contestants.close();
  }
}

async function compared(
  options: BenchOptions,
  shape: Shape,
  data: ReadonlyMap<Shape, Prepared>,
  contestants: Contestants,
): Promise<Results> {
  const { jobs, months, repeat, growth, blocks: lengths, say, tell, show } = options;
  const layout = layoutOf(shape);
  const bench = (url: string, on: string): Bench => ({
    contestants,
    url,
    repeat,
    say: (text) => say(`${on}: ${text}`),
  });
  // Sizes and spans are compared on the longest blocks, where the reference is at its best.
  const longest = lengths.includes(162) ? 162 : 18;
  const blocks: OnBlocks[] = [];
  const levels: Level[] = [];
  let several: Results["several"];
  for (const [one, prepared] of data) {
    if (one !== shape) {
      say(`a month with ${one.jobs} jobs`);
      const rounds = growth === "full" || one.jobs < jobs ? repeat : 1;
      levels.push(await level(contestants, prepared.databases[longest], layoutOf(one), rounds));
      continue;
    }
    for (const hours of lengths) {
      const on = `blocks of ${hours} h`;
      const cold = await withServer(prepared.databases[hours], async (url) => {
        const found = await coldMonth(bench(url, on), layout);
        show(coldTable(hours, found));
        if (hours !== longest) return found;
        levels.push({ jobs: found.jobs, reference: found.reference.middle, ours: found.ours.middle });
        if (months >= 3) several = { months, run: await allMonths(bench(url, on), layout, monthsOf(shape)) };
        return found;
      });
      blocks.push({ hours, cold, daily: await scheduled(prepared, hours, on) });
    }
  }
  return {
    options,
    prepared: [...data].map(([one, prepared]) => ({ shape: one, data: prepared })),
    blocks,
    several,
    levels: levels.sort((a, b) => a.jobs - b.jobs),
    longest,
  };

  async function scheduled(prepared: Prepared, hours: BlockHours, on: string): Promise<Comparison | undefined> {
    if (months < 2) return undefined;
    const database = await prepareDaily(prepared, hours, tell);
    const found = await withServer(database, (url) => daily(bench(url, on), layout));
    show(dailyTable(hours, found));
    return found;
  }
}
