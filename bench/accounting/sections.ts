import { type Bench, type Comparison, compare } from "./compare.ts";
import { monthStretch } from "./contestants.ts";
import { truthOf } from "./jobs.ts";
import { type Run, middle } from "./measure.ts";
import { type Layout, dailyRunAt, measuredMonth, plusMonths, startOfMonth } from "./shape.ts";
import { mustCount } from "./truth.ts";

const DAY = 86_400;
/** A completion is seen a scrape later. */
const LATEST_SCRAPE = 120;

/** `again`: the same run once more, when all is settled and published. `start`: the program's start alone. */
export type ColdMonth = Comparison & {
  readonly again: Omit<Run, "stdout">;
  readonly start: Omit<Run, "stdout">;
  readonly jobs: number;
};

/** One month, nothing known before; and the same months asked for again when they are settled and published. */
export async function coldMonth(bench: Bench, layout: Layout): Promise<ColdMonth> {
  const truth = truthOf(layout, measuredMonth);
  const months = { first: measuredMonth, count: 1 };
  const comparison = await compare(bench, {
    name: "a month",
    periods: [monthStretch(measuredMonth)],
    ours: { now: layout.to, months },
  });
  mustCount(comparison.ours.figures?.[0], truth, truth, "gridmeter");
  const { contestants, url } = bench;
  const place = await contestants.place();
  await contestants.account({ url, place, now: layout.to, months });
  const again = await contestants.account({ url, place, now: layout.to, months });
  mustCount(again.figures[0], truth, truth, "gridmeter's second run");
  const starts: Run[] = [];
  for (let round = 0; round < bench.repeat; round += 1) starts.push(await contestants.start(url));
  return { ...comparison, again: middle([again]), start: middle(starts), jobs: truth.jobs };
}

/** The scheduled run at 06:00 on the 15th, with the ledger of the run of the day before; the reference has none. */
export async function daily(bench: Bench, layout: Layout): Promise<Comparison> {
  const { contestants, url } = bench;
  const current = plusMonths(measuredMonth, 1);
  const ledger = async (at: string): Promise<string> => {
    bench.say("a daily run: the ledger as the day before leaves it");
    const place = await contestants.place();
    await contestants.account({ url: at, place, now: dailyRunAt - DAY }, url);
    return place;
  };
  const comparison = await compare(bench, {
    name: "a daily run",
    periods: [monthStretch(measuredMonth), { from: startOfMonth(current), to: dailyRunAt }],
    ours: { now: dailyRunAt },
    ledger,
  });
  const previous = truthOf(layout, measuredMonth);
  mustCount(comparison.ours.figures?.[0], previous, previous, "gridmeter's previous month");
  const seen = truthOf(layout, current, dailyRunAt - LATEST_SCRAPE);
  mustCount(comparison.ours.figures?.[1], seen, truthOf(layout, current, dailyRunAt), "gridmeter's current month");
  return comparison;
}

/** All months of the data in one run; only ours, for its memory. */
export async function allMonths(bench: Bench, layout: Layout, months: readonly string[]): Promise<Omit<Run, "stdout">> {
  const { contestants, url } = bench;
  const [first = measuredMonth] = months;
  bench.say(`${months.length} months in one run`);
  const run = await contestants.account({
    url,
    place: await contestants.place(),
    now: layout.to,
    months: { first, count: months.length },
  });
  months.forEach((month, index) => {
    const truth = truthOf(layout, month);
    mustCount(run.figures[index], truth, truth, `gridmeter's ${month}`);
  });
  return middle([run]);
}
