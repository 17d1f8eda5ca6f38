import type { Results } from "./accounting.ts";
import { machine } from "./machine.ts";
import { blockTargets, misses, sizeTargets, targetTable } from "./targets.ts";
import { type Table, bytes, coldTable, count, dailyTable, forMarkdown, ratio, seconds } from "./tables.ts";

/** The tables of a bench, the targets last. */
function tablesOf(results: Results): readonly Table[] {
  const compared = results.blocks.flatMap(({ hours, cold, daily }) => [
    coldTable(hours, cold),
    ...(daily === undefined ? [] : [dailyTable(hours, daily)]),
  ]);
  return [...compared, ...closingTables(results)];
}

/** What can only be said at the end. */
export function closingTables(results: Results): readonly Table[] {
  return [growthTable(results), targetTable(targetsOf(results))];
}

function targetsOf({ options, blocks, levels, several }: Results): ReturnType<typeof sizeTargets> {
  return [
    ...blocks.flatMap(({ hours, cold, daily }) => blockTargets(hours, cold, daily)),
    ...sizeTargets(levels, options.jobs, several),
  ];
}

function growthTable({ levels, several, options, longest }: Results): Table {
  const rows = levels.map(({ jobs, reference, ours }) => [
    `${count(jobs)} jobs, one month`,
    seconds(reference.seconds),
    seconds(ours.seconds),
    ratio(reference.seconds / ours.seconds),
    `${((ours.seconds / jobs) * 1e5).toFixed(2)} s`,
    bytes(reference.peakBytes),
    bytes(ours.peakBytes),
  ]);
  const all =
    several === undefined
      ? []
      : [
          [
            `${count(options.jobs)} jobs a month, ${several.months} months in one run`,
            "-",
            seconds(several.run.seconds),
            "-",
            `${((several.run.seconds / several.months / options.jobs) * 1e5).toFixed(2)} s`,
            "-",
            bytes(several.run.peakBytes),
          ],
        ];
  return {
    title: `How time and memory grow (cold, blocks of ${longest} h)`,
    head: [
      "size",
      "reference",
      "gridmeter",
      "faster",
      "gridmeter per 100,000 jobs",
      "reference's peak RSS",
      "gridmeter's peak RSS",
    ],
    rows: [...rows, ...all],
  };
}

/** The accounting's part of bench/results.md. */
export function markdownOf(results: Results): string {
  const { options, prepared } = results;
  const made = prepared.map(({ shape, data }) => {
    const series = `${count(data.series)} series in all blocks, ${count(data.samples)} samples`;
    return `- ${count(shape.jobs)} jobs a month, ${shape.months} ${shape.months === 1 ? "month" : "months"}: ${series}; made in ${data.seconds.toFixed(0)} s`;
  });
  const missed = misses(targetsOf(results));
  return [
    "## Accounting",
    machine(),
    `Data: a job runs for about an hour (50 to 70 minutes) and lingers one, has one container and a name of its own; ` +
      `kube-state-metrics' start, completion, CPU request and all five phases, scraped every ${options.scrapeSeconds} s.`,
    made.join("\n"),
    `Medians of ${options.repeat === 1 ? "one round" : `${options.repeat} rounds`} in which the ways are measured in turns (peak RSS: the greatest), straight against Prometheus. ` +
      "bench/README.md says what each way and each column is.",
    ...tablesOf(results).map((table) => forMarkdown(table).trimEnd()),
    missed.length === 0
      ? "All targets were reached."
      : `Not reached:\n\n${missed.map((line) => `- ${line}`).join("\n")}`,
    "",
  ].join("\n\n");
}
