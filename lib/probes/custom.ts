import type { Metric, Output, Parsed } from "../agent/types.ts";
import { readComments, type Family } from "./custom-families.ts";
import { isForbiddenName, renameLabels } from "./custom-names.ts";
import { readSample, type Sample } from "./custom-sample.ts";
import { labelText } from "./gpu.ts";
import { ParseError } from "./parse-error.ts";

export { FORBIDDEN_NAMES, FORBIDDEN_PREFIXES, isForbiddenName } from "./custom-names.ts";

/** Series that one custom command may print; a Pushgateway copies its whole store with every push. */
export const MOST_SERIES = 10_000;

type Published = Pick<Metric, "type" | "help">;

/**
 * What a sample is published as. A Metric is a gauge or a counter: buckets, sums and counts are published as counters of their
 * own names, which is how they are queried. Undefined for a name that the family does not have.
 */
const publishedAs = (name: string, families: ReadonlyMap<string, Family>): Published | undefined => {
  const help = (family: Family | undefined) => labelText(family?.help) || "Printed by a custom command.";
  const own = families.get(name);
  if (own !== undefined && own.type !== "histogram") {
    return { type: own.type === "counter" ? "counter" : "gauge", help: help(own) };
  }
  const [, stem = "", suffix] = /^(.+)_(bucket|sum|count)$/.exec(name) ?? [];
  const family = families.get(stem);
  if (family?.type === "histogram" || (family?.type === "summary" && suffix !== "bucket")) {
    return { type: "counter", help: help(family) };
  }
  return own === undefined ? { type: "gauge", help: help(undefined) } : undefined;
};

/** One text a series: equal for equal labels in whatever order. */
const seriesKey = ({ name, labels }: Sample): string =>
  JSON.stringify([name, Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1))]);

/**
 * Reads the Prometheus text of a custom command so that a Pushgateway takes all of it. Left out, and counted, are: lines that
 * are no sample, names that are not the command's to use, samples with a time (the gateway refuses the push), values that are
 * no finite number, the second one of a series, and every sample of a name that is declared with two types. `job`, `instance`
 * and `probe` are the agent's labels; the command's own become `exported_job` and so on, as Prometheus does it.
 *
 * @throws {ParseError} when the command failed, printed too many series, or no line of what it printed is a sample
 */
export const parseCustom = (output: Output): Parsed<readonly Metric[]> => {
  const said = JSON.stringify((output.stderr.trim() || output.stdout.trim()).slice(0, 200));
  if (output.exitCode !== 0) throw new ParseError(`the command exited with ${output.exitCode} and printed ${said}`);
  const lines = output.stdout.split("\n").map((line) => line.trim());
  const families = readComments(lines);
  const rows = lines.filter((line) => line !== "" && !line.startsWith("#"));
  const metrics = new Map<string, Published & { samples: Metric["samples"][number][] }>();
  const seen = new Set<string>();
  const samples = rows.map(readSample);
  if (rows.length > 0 && samples.every((sample) => sample === undefined)) {
    throw new ParseError(`no line of the output is a sample in the Prometheus text format: ${said}`);
  }
  for (const printed of samples) {
    const labels = printed === undefined ? undefined : renameLabels(printed.labels);
    if (printed === undefined || labels === undefined || isForbiddenName(printed.name)) continue;
    const sample = { ...printed, labels };
    const published = publishedAs(sample.name, families);
    const key = seriesKey(sample);
    if (published === undefined || seen.has(key) || isRefused(sample.name, families)) continue;
    if (seen.size >= MOST_SERIES) throw new ParseError(`the command printed more than ${MOST_SERIES} series`);
    seen.add(key);
    const metric = metrics.get(sample.name) ?? { ...published, samples: [] };
    metric.samples.push({ labels, value: sample.value });
    metrics.set(sample.name, metric);
  }
  return { value: [...metrics].map(([name, metric]) => ({ name, ...metric })), rejected: rows.length - seen.size };
};

const isRefused = (name: string, families: ReadonlyMap<string, Family>): boolean =>
  [name, name.replace(/_(?:bucket|sum|count)$/, "")].some((family) => families.get(family)?.conflict === true);
