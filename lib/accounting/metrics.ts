import { Gauge, Registry } from "prom-client";
import { type Block, type Labels, type Metric, labelText, plainBlock, render } from "../shared/exposition.ts";
import { greatest } from "../shared/lists.ts";
import type { Grouping } from "../shared/pushgateway.ts";
import { LEFT_OUT } from "./counting/usage.ts";
import { joined } from "./model/gaps.ts";
import type { Unit } from "./model/tenant.ts";
import { HOUR, addMonths, monthOf, startOf } from "./model/time.ts";
import type { RunSummary } from "./summary.ts";

/** The accounting's job on a Pushgateway. */
export const ACCOUNTING_JOB = "gridmeter_accounting";
/** The accounting never waits long for its metrics, milliseconds. */
export const PUSH_DEADLINE_MS = 5_000;

/** The accounting's own metrics, all of them gauges. Labels that every series of a unit has are not among `labels`. */
export const ACCOUNTING_METRICS = {
  last_run_timestamp_seconds: { help: "When the unit was last worked on.", labels: [] },
  last_success_timestamp_seconds: {
    help: "When the unit was last counted and, where there was anything new, published.",
    labels: [],
  },
  month_timestamp_seconds: { help: "Start of the month that these figures are of.", labels: [] },
  duration_seconds: { help: "How long the last run or invocation for the unit took.", labels: [] },
  refused: { help: "1 if the month was refused (guard, pins, unseen monitoring) and not published.", labels: [] },
  failed: { help: "1 if the month could not be counted or stored.", labels: [] },
  jobs: { help: "Jobs of the month that were counted.", labels: [] },
  core_seconds: { help: "Cores times duration of these jobs.", labels: [] },
  gap_seconds: {
    help: "How long monitoring was not seen in the month, in stretches of 30 minutes and more.",
    labels: [],
  },
  messages: { help: "Messages that the last run stored to be sent.", labels: [] },
  days_asked: { help: "Days that the last run asked Prometheus for.", labels: [] },
  left_out: {
    help: "Pods of the month that were left out, by reason; no_end and not_finished are of the days asked.",
    labels: ["reason"],
  },
  unsent_messages: { help: "Messages in the queue at the end of the last run.", labels: ["queue"] },
  unsent_oldest_age_seconds: {
    help: "How long the oldest of them had been in the queue then.",
    labels: ["queue"],
  },
} as const satisfies Readonly<Record<string, { readonly help: string; readonly labels: readonly string[] }>>;
type Name = keyof typeof ACCOUNTING_METRICS;

/** What a run counted of a unit. */
export type UnitCount = {
  readonly jobs: number;
  readonly coreSeconds: number;
  readonly gapSeconds: number;
  readonly leftOut: Readonly<Record<string, number>>;
  /** days that the whole run asked for */
  readonly daysAsked: number;
};

/** The figures of one run, or invocation, for one unit. */
export type UnitFigures = {
  readonly unit: Unit;
  /** `continued`: out of time, the rest follows */
  readonly outcome: "done" | "refused" | "failed" | "continued";
  /** undefined where nothing was counted */
  readonly counted?: UnitCount;
  /** messages that were stored */
  readonly messages: number;
  /** seconds */
  readonly duration: number;
  /** epoch seconds */
  readonly at: number;
};

/** Messages that wait in a queue. Ages in seconds. */
export type Unsent = { readonly queue: string; readonly ages: readonly number[] };

/** What a run counted of a unit; undefined where it was not counted. */
export function countOf(summary: RunSummary, { site, submitHost, month }: Unit): UnitCount | undefined {
  const found = summary.months.find((each) => each.month === month);
  if (found === undefined) return undefined;
  const members = found.units.find((unit) => unit.site === site && unit.submitHost === submitHost)?.tenants ?? [];
  const own = found.tenants.filter(({ tenant }) => members.includes(tenant));
  const leftOut: Record<string, number> = Object.fromEntries(LEFT_OUT.map((reason) => [reason, 0]));
  for (const each of own) {
    for (const [reason, count] of Object.entries(each.leftOut)) leftOut[reason] = (leftOut[reason] ?? 0) + count;
  }
  const milliCoreSeconds = own.reduce((sum, { coreHours }) => sum + Math.round(coreHours * HOUR * 1000), 0);
  return {
    jobs: own.reduce((sum, each) => sum + each.jobs, 0),
    coreSeconds: milliCoreSeconds / 1000,
    // Tenants of one cluster miss the same monitoring.
    gapSeconds: joined(own.flatMap(({ gaps }) => gaps)).reduce((sum, { from, to }) => sum + to - from, 0),
    leftOut,
    daysAsked: summary.asked.days,
  };
}

/**
 * The group of a unit. The month is in it as `current`, `previous` or `older`: a Pushgateway forgets nothing, and a group for
 * every month would go on saying for ever that its last success was long ago.
 * @param now epoch seconds, when the run began
 */
export function unitGrouping({ site, submitHost, month }: Unit, now: number): Grouping {
  const current = monthOf(now);
  const period = month === current ? "current" : month === addMonths(current, -1) ? "previous" : "older";
  return { job: ACCOUNTING_JOB, site, submit_host: submitHost, period };
}

/** The figures as metrics. The time of the last success is only in those of a success; what is not known is absent. */
export function unitMetrics({ unit, outcome, counted, messages, duration, at }: UnitFigures): readonly Metric[] {
  const values: Partial<Record<Name, number>> = {
    last_run_timestamp_seconds: at,
    ...(outcome === "done" ? { last_success_timestamp_seconds: at } : {}),
    month_timestamp_seconds: startOf(unit.month),
    duration_seconds: duration,
    refused: outcome === "refused" ? 1 : 0,
    failed: outcome === "failed" ? 1 : 0,
    ...(counted === undefined
      ? {}
      : { jobs: counted.jobs, core_seconds: counted.coreSeconds, gap_seconds: counted.gapSeconds }),
    messages,
    ...(counted === undefined ? {} : { days_asked: counted.daysAsked }),
  };
  const leftOut = Object.entries(counted?.leftOut ?? {}).map(([reason, value]) => ({ labels: { reason }, value }));
  return [
    ...Object.entries(values).map(([name, value]) => metric(name, [{ labels: {}, value }])),
    metric("left_out", leftOut),
  ];
}

/** What waits in a queue as metrics. An empty queue has no oldest message, whose age is 0 then. */
export function unsentMetrics({ queue, ages }: Unsent): readonly Metric[] {
  const labels = { queue };
  return [
    metric("unsent_messages", [{ labels, value: ages.length }]),
    metric("unsent_oldest_age_seconds", [{ labels, value: ages.length === 0 ? 0 : Math.max(0, greatest(ages)) }]),
  ];
}

const PREFIX = `${ACCOUNTING_JOB}_`;

function helpOf(name: string): string {
  return Object.entries(ACCOUNTING_METRICS).find(([each]) => PREFIX + each === name)?.[1].help ?? "";
}

function metric(short: string, samples: Metric["samples"]): Metric {
  const name = PREFIX + short;
  return { name, help: helpOf(name), type: "gauge", samples };
}

/** What is to be written into a text file for one group. `whole`: it replaces all that is there of the group. */
export type FileGroup = { readonly labels: Labels; readonly metrics: readonly Metric[]; readonly whole: boolean };

const LINE = new RegExp(`^${PREFIX}\\w+\\{`);

/** Whether a text is one that `mergedFile` made, or is empty: another program's metrics must not be overwritten. */
export function isOwnFile(text: string): boolean {
  return text.split("\n").every((line) => line === "" || line.startsWith("#") || LINE.test(line));
}

/** Of a group that is replaced as a whole. */
const ALL: ReadonlySet<string> = new Set();

/**
 * The new text of a file for node_exporter's textfile collector: the groups of this run, and of what the file held before those
 * of `kept` that this run has nothing newer of. A run that is no success leaves the time of the last one, as on a Pushgateway.
 * @param before the file's text; "" where there is none
 * @param kept the labels of groups that are still configured
 */
export function mergedFile(before: string, groups: readonly FileGroup[], kept: readonly Labels[]): string {
  const written = groups.flatMap(({ labels, metrics }) =>
    metrics.map(({ samples, ...header }) =>
      plainBlock({
        ...header,
        samples: samples.map((sample) => ({ ...sample, labels: { ...labels, ...sample.labels } })),
      }),
    ),
  );
  const names = new Map(
    groups.map(({ labels, metrics, whole }) => [labelText(labels), whole ? ALL : namesOf(metrics)]),
  );
  const known = new Set(kept.map(labelText));
  const old = before.split("\n").flatMap((line): Block[] => {
    const [, name = "", rest = ""] = /^(\w+)\{(.*)/.exec(line) ?? [];
    const group = [...known].find((labels) => rest.startsWith(labels));
    if (name === "" || group === undefined) return [];
    const replaced = names.get(group);
    if (replaced === ALL || replaced?.has(name) === true) return [];
    return [{ name, help: helpOf(name), type: "gauge", lines: `${line}\n`, series: 1 }];
  });
  return render([...written, ...old]);
}

/** The text of a group's metrics for a Pushgateway, which adds the group's labels. */
export async function pushedText(metrics: readonly Metric[]): Promise<string> {
  const registry = new Registry();
  for (const { name, help, samples } of metrics) {
    const labelNames = Object.keys(samples[0]?.labels ?? {});
    // A gauge without labels is 0 before it is set: what is not known has none.
    const gauge = samples.length === 0 ? undefined : new Gauge({ name, help, labelNames, registers: [registry] });
    for (const { labels, value } of samples) gauge?.set(labels, value);
  }
  return await registry.metrics();
}

const namesOf = (metrics: readonly Metric[]): ReadonlySet<string> =>
  new Set(metrics.filter(({ samples }) => samples.length > 0).map(({ name }) => name));
