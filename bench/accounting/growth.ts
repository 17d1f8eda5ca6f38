import type { Contestants, Counted } from "./contestants.ts";
import { monthStretch } from "./contestants.ts";
import { truthOf } from "./jobs.ts";
import { type Run, middle } from "./measure.ts";
import { withServer } from "./server.ts";
import { type Layout, measuredMonth } from "./shape.ts";
import { mustCount } from "./truth.ts";

/** One size of a site: a month by the reference and by ours. */
export type Level = {
  readonly jobs: number;
  readonly reference: Omit<Run, "stdout">;
  readonly ours: Omit<Run, "stdout">;
};

/** Counts the measured month of another size of site, in turns as everywhere. */
export async function level(
  contestants: Contestants,
  database: string,
  layout: Layout,
  repeat: number,
): Promise<Level> {
  const truth = truthOf(layout, measuredMonth);
  const months = { first: measuredMonth, count: 1 };
  return withServer(database, async (url) => {
    const ours = async (): Promise<Counted> => {
      const run = await contestants.account({ url, place: await contestants.place(), now: layout.to, months });
      mustCount(run.figures[0], truth, truth, "gridmeter");
      return run;
    };
    // Once for nothing: the files of this size have not been read yet.
    await ours();
    const runs = { reference: new Array<Run>(), ours: new Array<Run>() };
    for (let round = 0; round < repeat; round += 1) {
      runs.reference.push(await contestants.reference(url, [monthStretch(measuredMonth)]));
      runs.ours.push(await ours());
    }
    return { jobs: truth.jobs, reference: middle(runs.reference), ours: middle(runs.ours) };
  });
}
