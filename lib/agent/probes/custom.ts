import { GridmeterError } from "../../shared/errors.ts";
import type { Labels, Metric } from "../../shared/exposition.ts";
import type { Output, Parsed } from "../command/types.ts";
import { ParseError, labelText, quoted } from "./common/parse.ts";
import { type ProbeKind, limitsOf, singleProbe } from "./common/probe.ts";
import { PROBE_NAMES, USUAL_INTERVAL, missingTool } from "./common/settings.ts";

/** A custom probe has no default command. */
const CUSTOM_DEFAULTS = { interval: USUAL_INTERVAL, timeout: 10, maxBytes: 1024 * 1024 } as const;

/** A probe of the administrator's own, whose command prints Prometheus text. */
export const custom = (name: string): ProbeKind => ({
  create: (settings) => {
    const { command } = settings;
    if (command === undefined) {
      throw new GridmeterError(
        "config_invalid",
        `The probe ${JSON.stringify(name)} has no command, and is none of gridmeter's own. It was not started. ` +
          `Set its command, or call it one of ${PROBE_NAMES.join(", ")}.`,
      );
    }
    return singleProbe({
      name,
      limits: limitsOf(name, settings, CUSTOM_DEFAULTS),
      label: name,
      argv: () => Promise.resolve(command),
      parse: parseCustom,
      metrics: (metrics) => metrics,
      readings: () => Promise.resolve({}),
      unavailable: () => missingTool([command[0]]),
    });
  },
  parseSaved: (output) => {
    const { value, rejected } = parseCustom(output);
    return { metrics: value, parsed: value, rejected };
  },
});

/** Series that one custom command may print: a Pushgateway copies its whole store with every push. */
export const MOST_SERIES = 10_000;

/**
 * Reads the Prometheus text of a custom command so that a Pushgateway takes all of it. Left out, and counted, are: lines that
 * are no sample, names that are not the command's to use, samples with a time (the gateway refuses the push), values that are
 * no finite number, the second one of a series, and every sample of a name that is declared with two types. `job`, `instance`
 * and `probe` are the agent's labels; the command's own become `exported_job` and so on, as Prometheus does it.
 *
 * @throws {ParseError} when the command failed, printed too many series, or no line of what it printed is a sample
 */
export const parseCustom = (output: Output): Parsed<readonly Metric[]> => {
  if (output.exitCode !== 0) {
    throw new ParseError(`the command exited with ${output.exitCode} and printed ${quoted(output)}`);
  }
  const lines = output.stdout.split("\n").map((line) => line.trim());
  const families = readComments(lines);
  const rows = lines.filter((line) => line !== "" && !line.startsWith("#"));
  const metrics = new Map<string, Published & { samples: Metric["samples"][number][] }>();
  const seen = new Set<string>();
  const samples = rows.map(readSample);
  if (rows.length > 0 && samples.every((sample) => sample === undefined)) {
    throw new ParseError(`no line of the output is a sample in the Prometheus text format: ${quoted(output)}`);
  }
  for (const printed of samples) {
    const labels = printed === undefined ? undefined : renameLabels(printed.labels);
    if (printed === undefined || labels === undefined || isForbiddenName(printed.name)) continue;
    const sample = { ...printed, labels };
    const published = publishedAs(sample.name, families);
    const key = seriesKey(sample);
    if (published === undefined || seen.has(key) || isConflicting(sample.name, families)) continue;
    if (seen.size >= MOST_SERIES) throw new ParseError(`the command printed more than ${MOST_SERIES} series`);
    seen.add(key);
    const metric = metrics.get(sample.name) ?? { ...published, samples: [] };
    metric.samples.push({ labels, value: sample.value });
    metrics.set(sample.name, metric);
  }
  return { value: [...metrics].map(([name, metric]) => ({ name, ...metric })), rejected: rows.length - seen.size };
};

type Published = Pick<Metric, "type" | "help">;

/**
 * The type and help under which a sample is published. The agent publishes gauges and counters only: buckets, sums and counts become
 * counters of their own names, by which they are queried. Undefined for a name that a histogram's family does not have.
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

/** Equal for equal labels in any order. */
const seriesKey = ({ name, labels }: Sample): string =>
  JSON.stringify([name, Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1))]);

/** Whether the name, or the histogram that it is of, is declared with two types. */
const isConflicting = (name: string, families: ReadonlyMap<string, Family>): boolean =>
  [name, name.replace(/_(?:bucket|sum|count)$/, "")].some((family) => families.get(family)?.conflict === true);

/** Prefixes and names of the agent's own metrics, of the Pushgateway's, and of those that Prometheus adds to every scrape. */
const FORBIDDEN_PREFIXES: readonly string[] = ["gridmeter_", "go_", "process_", "pushgateway_", "promhttp_", "scrape_"];

const FORBIDDEN_NAMES: readonly string[] = ["up", "push_time_seconds", "push_failure_time_seconds"];

/** Whether a custom command may not use this name: the Pushgateway would refuse the push, or the name would be ambiguous. */
export const isForbiddenName = (name: string): boolean =>
  FORBIDDEN_NAMES.includes(name) || FORBIDDEN_PREFIXES.some((prefix) => name.startsWith(prefix));

/** The agent's own labels, which a Pushgateway writes over those in the body. */
const OWN_LABELS: readonly string[] = ["job", "instance", "probe"];

/** Renames the labels that the agent has too, as Prometheus does; undefined where the new name is taken. */
const renameLabels = (labels: Labels): Labels | undefined => {
  const renamed = Object.entries(labels).map(
    ([name, value]) => [OWN_LABELS.includes(name) ? `exported_${name}` : name, value] as const,
  );
  return new Set(renamed.map(([name]) => name)).size === renamed.length ? Object.fromEntries(renamed) : undefined;
};

const TYPES = ["counter", "gauge", "histogram", "summary", "untyped", "unknown"] as const;

type FamilyType = (typeof TYPES)[number];

const typeOf = (text: string): FamilyType | undefined => TYPES.find((type) => type === text);

/** The TYPE and HELP of the metrics of one name. */
type Family = {
  readonly type: FamilyType;
  readonly help: string | undefined;
  /** declared with two types, or with an unknown one */
  readonly conflict: boolean;
};

/** No two parts of it match the same blank, so that matching takes linear time. */
const COMMENT = /^#[ \t]{1,64}(TYPE|HELP)[ \t]{1,64}([a-zA-Z_:][a-zA-Z0-9_:]*)(?:[ \t]+([^ \t].*)?)?$/s;

/** A comment is cut here. */
const LONGEST_COMMENT = 4096;

/** Reads `# TYPE name type` and `# HELP name text`; other comments are ignored. */
const readComments = (lines: readonly string[]): ReadonlyMap<string, Family> => {
  const families = new Map<string, Family>();
  const declared = new Set<string>();
  for (const line of lines) {
    const [, keyword, name, text = ""] = COMMENT.exec(line.slice(0, LONGEST_COMMENT)) ?? [];
    if (name === undefined) continue;
    const family = families.get(name) ?? { type: "untyped", help: undefined, conflict: false };
    if (keyword === "HELP") {
      families.set(name, { ...family, help: family.help ?? unescapeHelp(text) });
      continue;
    }
    const type = typeOf(text.trim());
    const conflict = family.conflict || type === undefined || (declared.has(name) && family.type !== type);
    declared.add(name);
    families.set(name, { ...family, type: type ?? family.type, conflict });
  }
  return families;
};

const unescapeHelp = (text: string): string =>
  text.replaceAll(/\\(n|\\)/g, (_, escaped: string) => (escaped === "n" ? " " : "\\"));

type Sample = { readonly name: string; readonly labels: Labels; readonly value: number };

const NAME = /[a-zA-Z_:][a-zA-Z0-9_:]*/y;

const LABEL = /[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\[\\"n])*)"[ \t]*(,?)/y;

const CLOSE = /[ \t]*\}/y;

/** A finite number with nothing after it: no time, no exemplar. */
const VALUE = /[ \t]*([+-]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][+-]?\d{1,9})?)[ \t]{0,64}$/y;

/** A longer line is no sample. This is room for dozens of labels with the longest values. */
const LONGEST_LINE = 64 * 1024;

/** Reads `name{label="value"} 1.5`; undefined for anything else. */
const readSample = (line: string): Sample | undefined => {
  if (line.length > LONGEST_LINE) return undefined;
  const name = match(NAME, line, 0)?.[0];
  if (name === undefined) return undefined;
  const start = name.length + (/^[ \t]*/.exec(line.slice(name.length))?.[0].length ?? 0);
  const found = line[start] === "{" ? readLabels(line, start + 1) : { labels: {}, end: name.length };
  if (found === undefined) return undefined;
  // without labels, a space has to part name and value
  if (found.end === name.length && start === name.length) return undefined;
  const value = Number(match(VALUE, line, found.end)?.[1] ?? Number.NaN);
  return Number.isFinite(value) ? { name, labels: found.labels, value } : undefined;
};

/** The labels after the brace, and where they end; undefined where they are broken. */
const readLabels = (text: string, from: number): { labels: Labels; end: number } | undefined => {
  const labels = new Map<string, string>();
  let end = from;
  for (let comma = true; comma;) {
    const found = match(LABEL, text, end);
    if (found === undefined) break;
    const [whole, name = "", escaped = "", separator] = found;
    const value = unescapeLabel(escaped);
    if (!isLabel(name, value, labels)) return undefined;
    // an empty label is the same as none, and would make two series of one
    if (value !== "") labels.set(name, value);
    end += whole.length;
    comma = separator === ",";
  }
  const close = match(CLOSE, text, end);
  return close === undefined ? undefined : { labels: Object.fromEntries(labels), end: end + close[0].length };
};

/** A sample with a longer label value is left out. */
const LONGEST_VALUE = 1024;

const isLabel = (name: string, value: string, labels: ReadonlyMap<string, string>): boolean =>
  // names with two underscores are Prometheus's own
  !name.startsWith("__") && !labels.has(name) && value.length <= LONGEST_VALUE && !/\p{Cs}/u.test(value);

const unescapeLabel = (text: string): string =>
  text.replaceAll(/\\([\\"n])/g, (_, escaped: string) => (escaped === "n" ? "\n" : escaped));

const match = (pattern: RegExp, text: string, from: number): RegExpExecArray | undefined => {
  pattern.lastIndex = from;
  return pattern.exec(text) ?? undefined;
};
