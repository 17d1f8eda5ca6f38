// The text of /metrics and of pushes. Not prom-client's writer, which cannot keep these rules:
// - the series of one name of all probes are under one header on the port, and each probe's are pushed by themselves
//   (`Registry.merge` refuses a name that two registries have);
// - a name has one type everywhere, whatever a custom probe prints, and of equal series one is left out, not the whole text;
// - what was not read is absent (an unlabelled gauge of prom-client is 0 before it is set);
// - a run's data, its joined data and the account of its probe change in one step (prom-client reads values in promises).
// 12,000 series of 1,000 containers are laid out once a run, and a scrape only joins texts.

export type Labels = Readonly<Record<string, string>>;

/** One metric name with its samples. The label `probe` is added when it is published. A value not read is not there. */
export type Metric = {
  readonly name: string;
  readonly help: string;
  readonly type: "gauge" | "counter";
  readonly samples: readonly { readonly labels: Labels; readonly value: number }[];
};

/** A sample; those of a histogram say which part of it they are. */
export type Sample = {
  readonly labels: Labels;
  readonly value: number;
  readonly suffix?: "_bucket" | "_sum" | "_count";
};

/** A metric as it can be published: a Metric, or a histogram with its samples laid out. */
export type Family = {
  readonly name: string;
  readonly help: string;
  readonly type: Metric["type"] | "histogram";
  readonly samples: readonly Sample[];
};

/** All series of one probe under one name, in the text format, without their header. Immutable: a scrape only joins blocks. */
export type Block = Omit<Family, "samples"> & {
  /** each ends in a line feed */
  readonly lines: string;
  readonly series: number;
};

/** The media type of what `render` gives. */
export const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** What a label's value cannot hold as it is, half surrogate pairs included; most values are free of it, and are not copied. */
const UNUSUAL = /[\\"\n\ud800-\udfff]/;

/** Text as UTF-8 can hold it: half a surrogate pair would become the same replacement for all, and equal series of different ones. */
const wellFormed = (text: string): string => text.replaceAll(/\p{Surrogate}/gu, "\uFFFD");

/** A label's value as it is between quotes: equal for values that are the same to Prometheus, and only for those. */
const escapeValue = (text: string): string =>
  UNUSUAL.test(text)
    ? wellFormed(text).replaceAll(/[\\"\n]/g, (found) => (found === "\n" ? "\\n" : `\\${found}`))
    : text;
const escapeHelp = (text: string): string => wellFormed(text).replaceAll("\\", "\\\\").replaceAll("\n", "\\n");

/** The inside of the braces, but for the probe: `a="x",b="y"`. */
const encodeLabels = (names: readonly string[], labels: Labels): string =>
  names.map((name) => `${name}="${escapeValue(labels[name] ?? "")}"`).join(",");

/** What all series of a probe under one name begin with. */
const lineStart = (name: string, probe: string): string => `${name}{probe="${escapeValue(probe)}"`;

/** The lines of a family of one probe, each with the label `probe`. The caller sees to it that no series comes twice. */
export function encode(probe: string, { samples, ...header }: Family): Block {
  let lines = "";
  for (const { labels, value, suffix = "" } of samples) {
    const names = Object.keys(labels).filter((label) => label !== "probe");
    const others = encodeLabels(names, labels);
    lines += `${lineStart(header.name + suffix, probe)}${others === "" ? "" : ","}${others}} ${value}\n`;
  }
  return { ...header, lines, series: samples.length };
}

/** The labels as they are written between the braces: `a="x",b="y"`. */
export const labelText = (labels: Labels): string => encodeLabels(Object.keys(labels), labels);

/** The lines of a metric as it is, without the label `probe`: for what no probe reads. Values that are no numbers are left out. */
export function plainBlock({ samples, ...header }: Metric): Block {
  const finite = samples.filter(({ value }) => Number.isFinite(value));
  const lines = finite.map(({ labels, value }) => {
    const text = labelText(labels);
    return `${header.name}${text === "" ? "" : `{${text}}`} ${value}\n`;
  });
  return { ...header, lines: lines.join(""), series: finite.length };
}

/**
 * The text of many blocks in Prometheus' text format 0.0.4. All blocks of one name are together under one header, in the order
 * in which names first came: a family that is split makes the whole text invalid. The first block's type and help count.
 */
export function render(blocks: Iterable<Block>): string {
  const families = new Map<string, string[]>();
  for (const { name, help, type, lines, series } of blocks) {
    if (series === 0) continue;
    const family = families.get(name);
    if (family === undefined)
      families.set(name, [`# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n`, lines]);
    else family.push(lines);
  }
  let text = "";
  for (const parts of families.values()) text += parts.join("");
  return text;
}

/** What a name is, wherever it comes from. */
export type Known = Pick<Metric, "type" | "help">;

type Agreed = {
  /** by probe, in the order of the input */
  readonly blocks: ReadonlyMap<string, readonly Block[]>;
  /** by probe: series that were left out; probes without any are missing */
  readonly dropped: ReadonlyMap<string, number>;
};

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;

/** Blocks of metrics that were laid out before, so that only new ones cost anything. A metric is of one probe. */
export type Laid = WeakMap<Metric, Lines>;

/** The series of one name of one probe. */
type Lines = Pick<Block, "lines" | "series">;

/**
 * Makes the data of all probes fit to be published together, since a Pushgateway refuses a whole push, and Prometheus a whole
 * scrape, for one line that is off. A name has one type everywhere: that of the catalogue, else that of the first probe that
 * has it, and what another probe prints under another type is left out. Of equal series (the same name and labels; an empty
 * label is none) the first stays. Left out as well: names that are none, and values that are no finite number.
 *
 * @param catalogue what the program itself knows of a name
 * @param laid what earlier calls made of the same metrics
 */
export function agree(
  data: Iterable<readonly [probe: string, metrics: readonly Metric[]]>,
  catalogue: (name: string) => Known | undefined,
  laid: Laid = new WeakMap(),
): Agreed {
  const claims = new Map<string, Known>();
  const blocks = new Map<string, readonly Block[]>();
  const dropped = new Map<string, number>();
  const texts: LabelTexts = new Map();
  for (const [probe, metrics] of data) {
    const all = metrics.reduce((sum, { samples }) => sum + samples.length, 0);
    const own: Block[] = [];
    for (const [name, parts] of byName(metrics)) {
      const known = catalogue(name);
      const first = known ?? claims.get(name) ?? parts[0];
      if (first === undefined || !NAME.test(name)) continue;
      claims.set(name, first);
      const fitting = parts.filter(({ type }) => known !== undefined || type === first.type);
      const only = fitting.length === 1 ? fitting[0] : undefined;
      const before = only === undefined ? undefined : laid.get(only);
      const block = before ?? layOut(lineStart(name, probe), fitting, texts);
      if (only !== undefined) laid.set(only, block);
      if (block.series > 0) own.push({ name, help: first.help, type: first.type, ...block });
    }
    blocks.set(probe, own);
    const lost = all - own.reduce((sum, { series }) => sum + series, 0);
    if (lost > 0) dropped.set(probe, lost);
  }
  return { blocks, dropped };
}

/** A probe's own metrics and joined ones may share a name. */
function byName(metrics: readonly Metric[]): ReadonlyMap<string, readonly Metric[]> {
  const found = new Map<string, Metric[]>();
  for (const metric of metrics) {
    if (metric.samples.length === 0) continue;
    const same = found.get(metric.name);
    if (same === undefined) found.set(metric.name, [metric]);
    else same.push(metric);
  }
  return found;
}

/** `start`: what each line begins with. Left out is what cannot be published, and a series that was there before. */
function layOut(start: string, parts: readonly Metric[], texts: LabelTexts): Lines {
  const seen = new Set<string>();
  let lines = "";
  for (const { labels, value } of parts.flatMap(({ samples }) => samples)) {
    const known = texts.get(labels) ?? textOf(labels);
    texts.set(labels, known);
    if (known === "no labels" || !Number.isFinite(value) || seen.has(known.key)) continue;
    seen.add(known.key);
    lines += `${start}${known.text === "" ? "" : ","}${known.text}} ${value}\n`;
  }
  return { lines, series: seen.size };
}

const LABEL = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/;

/** `text`: as they are written. `key`: equal for equal series in whatever order their labels are; an empty label is none. */
type LabelText = { readonly text: string; readonly key: string };

/** Many metrics of a container or GPU share one object of labels. */
type LabelTexts = Map<Labels, LabelText | "no labels">;

function textOf(labels: Labels): LabelText | "no labels" {
  // The label `probe` is the publisher's.
  const names = Object.keys(labels).filter((name) => name !== "probe");
  if (!names.every((name) => LABEL.test(name))) return "no labels";
  const filled = names.filter((name) => labels[name] !== "").toSorted();
  return { text: encodeLabels(names, labels), key: encodeLabels(filled, labels) };
}
