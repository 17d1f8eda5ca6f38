import { type Comparison } from "./compare.ts";
import { Contestants } from "./contestants.ts";
import { type Level, level } from "./growth.ts";
import { BLOCKS, type BlockHours, type Prepared, type Tell, prepare } from "./prepare.ts";
import { type ColdMonth, allMonths, coldMonth, daily } from "./sections.ts";
import { startServer } from "./server.ts";
import { type Shape, layoutOf, monthsOf } from "./shape.ts";
import type { Run } from "./measure.ts";

export type BenchOptions = Shape & {
  /** rounds in which all ways are measured in turns */
  readonly repeat: number;
  /** none: one size of site only; normal: also a tenth and three times of it, the larger one once; full: all rounds */
  readonly growth: "none" | "normal" | "full";
  readonly say: (text: string) => void;
  readonly tell: Tell;
};

export type OnBlocks = { readonly hours: BlockHours; readonly cold: ColdMonth; readonly daily: Comparison | undefined };

/** All that the accounting's bench has measured. */
export type Results = {
  readonly options: BenchOptions;
  readonly prepared: readonly { readonly shape: Shape; readonly data: Prepared }[];
  readonly blocks: readonly OnBlocks[];
  readonly several: { readonly months: number; readonly run: Omit<Run, "stdout"> } | undefined;
  /** by size, smallest first */
  readonly levels: readonly Level[];
};

/** The blocks on which sizes and spans are compared: fewer and longer ones, where the reference is at its best. */
const LONG: BlockHours = 162;

/** Prepares the data where it is not there yet, and measures. Takes about ten minutes with the default options. */
export async function benchAccounting(options: BenchOptions): Promise<Results> {
  const { jobs, months, scrapeSeconds, repeat, growth, say, tell } = options;
  const shape = { jobs, months, scrapeSeconds };
  const others = growth === "none" ? [] : [Math.round(jobs / 10), jobs * 3];
  const prepared: { shape: Shape; data: Prepared }[] = [];
  for (const one of [shape, ...others.map((size) => ({ jobs: size, months: 1, scrapeSeconds }))]) {
    say(`data of ${one.months} months with ${one.jobs} jobs`);
    prepared.push({ shape: one, data: await prepare(one, tell) });
  }
  const contestants = await Contestants.open();
  try {
    const blocks: OnBlocks[] = [];
    const levels: Level[] = [];
    let several: Results["several"];
    const layout = layoutOf(shape);
    for (const hours of BLOCKS) {
      const { databases } = prepared[0]?.data ?? (await prepare(shape, tell));
      const server = await startServer(databases[hours]);
      const bench = {
        contestants,
        url: server.url,
        repeat,
        say: (text: string) => say(`blocks of ${hours} h: ${text}`),
      };
      try {
        const cold = await coldMonth(bench, layout);
        blocks.push({ hours, cold, daily: months < 2 ? undefined : await daily(bench, layout) });
        if (hours !== LONG) continue;
        levels.push({ jobs: cold.jobs, reference: cold.reference.middle, ours: cold.ours.middle });
        if (months >= 3) several = { months, run: await allMonths(bench, layout, monthsOf(shape)) };
      } finally {
        await server.stop();
      }
    }
    for (const { shape: other, data } of prepared.slice(1)) {
      say(`a month with ${other.jobs} jobs`);
      const rounds = growth === "full" || other.jobs < jobs ? repeat : 1;
      levels.push(await level(contestants, data.databases[LONG], layoutOf(other), rounds));
    }
    return { options, prepared, blocks, several, levels: levels.sort((a, b) => a.jobs - b.jobs) };
  } finally {
    await contestants.close();
  }
}
