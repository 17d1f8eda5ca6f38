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
const TROUBLE = /[\\"\n\ud800-\udfff]/;

/** Text as UTF-8 can hold it: half a surrogate pair would become the same replacement for all, and equal series of different ones. */
const wellFormed = (text: string): string => text.replaceAll(/\p{Surrogate}/gu, "\uFFFD");

/** A label's value as it is between quotes: equal for values that are the same to Prometheus, and only for those. */
const escapeValue = (text: string): string =>
  TROUBLE.test(text)
    ? wellFormed(text).replaceAll(/[\\"\n]/g, (found) => (found === "\n" ? "\\n" : `\\${found}`))
    : text;
const escapeHelp = (text: string): string => wellFormed(text).replaceAll("\\", "\\\\").replaceAll("\n", "\\n");

/** The inside of the braces, but for the probe: `a="x",b="y"`. */
const encodeLabels = (labels: Labels): string => {
  let text = "";
  for (const name in labels) {
    if (name !== "probe") text += `${text === "" ? "" : ","}${name}="${escapeValue(labels[name] ?? "")}"`;
  }
  return text;
};

/** What all series of a probe under one name begin with. */
const lineStart = (name: string, probe: string): string => `${name}{probe="${escapeValue(probe)}"`;

/** The lines of a family of one probe, each with the label `probe`. The caller sees to it that no series comes twice. */
export function encode(probe: string, { samples, ...header }: Family): Block {
  let lines = "";
  for (const { labels, value, suffix = "" } of samples) {
    const others = encodeLabels(labels);
    lines += `${lineStart(header.name + suffix, probe)}${others === "" ? "" : ","}${others}} ${value}\n`;
  }
  return { ...header, lines, series: samples.length };
}

/**
 * The text of many blocks in Prometheus' text format 0.0.4. All blocks of one name stand together under one header, in the order
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

/** Blocks of metrics that were laid out before, so that only new ones cost anything. */
export type Laid = WeakMap<Metric, { readonly probe: string; readonly block: Block }>;

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
  const texts = new LabelTexts();
  for (const [probe, metrics] of data) {
    const all = metrics.reduce((sum, { samples }) => sum + samples.length, 0);
    const own: Block[] = [];
    for (const [name, parts] of byName(metrics)) {
      const known = catalogue(name);
      const first = known ?? claims.get(name) ?? parts[0];
      if (first === undefined || !NAME.test(name)) continue;
      claims.set(name, first);
      const fitting = parts.filter(({ type }) => known !== undefined || type === first.type);
      const block = layOut(probe, { name, help: first.help, type: first.type }, fitting, texts, laid);
      if (block.series > 0) own.push(block);
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

function layOut(
  probe: string,
  header: Pick<Metric, "name" | "help" | "type">,
  parts: readonly Metric[],
  texts: LabelTexts,
  laid: Laid,
): Block {
  const only = parts.length === 1 ? parts[0] : undefined;
  const before = only === undefined ? undefined : laid.get(only);
  if (before?.probe === probe && before.block.type === header.type && before.block.help === header.help) {
    return before.block;
  }
  const samples = parts.flatMap((part) => part.samples);
  const start = lineStart(header.name, probe);
  let lines = "";
  let series = 0;
  for (const [index, text] of texts.distinct(samples).entries()) {
    const value = samples[index]?.value;
    if (text === undefined || value === undefined) continue;
    lines += `${start}${text === "" ? "" : ","}${text}} ${value}\n`;
    series += 1;
  }
  const block = { ...header, lines, series };
  if (only !== undefined) laid.set(only, { probe, block });
  return block;
}

const LABEL = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/;

/** `shape`: the names, equal for equal names in the same order. `text`: undefined if a name is no label name. */
type KnownLabels = { readonly shape: string; readonly text: string | undefined };

/** Labels as text. Many metrics of a container or GPU share one object of labels, and most objects have the same names. */
class LabelTexts {
  readonly #known = new Map<Labels, KnownLabels>();
  readonly #valid = new Map<string, boolean>();

  /**
   * The labels of each sample as they are written, in the samples' order; undefined where the sample is left out: its value is no
   * finite number, a name is no label name, or an earlier sample is the same series.
   */
  distinct(samples: Metric["samples"]): readonly (string | undefined)[] {
    const known = samples.map(({ labels }) => this.#of(labels));
    // With the same names in the same order, series are equal if their texts are.
    const alike = known.every(({ shape }) => shape === known[0]?.shape);
    const seen = new Set<string>();
    return samples.map(({ labels, value }, index) => {
      const text = known[index]?.text;
      if (text === undefined || !Number.isFinite(value)) return undefined;
      const key = alike ? text : seriesKey(labels);
      if (seen.has(key)) return undefined;
      seen.add(key);
      return text;
    });
  }

  #of(labels: Labels): KnownLabels {
    const before = this.#known.get(labels);
    if (before !== undefined) return before;
    const names = namesOf(labels);
    // With their number, since a name that is none may hold a comma.
    const shape = `${names.length}:${names.join(",")}`;
    const known = { shape, text: this.#areValid(names, shape) ? encodeLabels(labels) : undefined };
    this.#known.set(labels, known);
    return known;
  }

  #areValid(names: readonly string[], shape: string): boolean {
    const before = this.#valid.get(shape);
    if (before !== undefined) return before;
    const valid = names.every((name) => LABEL.test(name));
    this.#valid.set(shape, valid);
    return valid;
  }
}

/** The label `probe` is the publisher's. */
const namesOf = (labels: Labels): readonly string[] => Object.keys(labels).filter((name) => name !== "probe");

/** Equal for equal series in whatever order their labels are; an empty label is none. */
function seriesKey(labels: Labels): string {
  return namesOf(labels)
    .filter((name) => labels[name] !== "")
    .toSorted()
    .map((name) => `${name}="${escapeValue(labels[name] ?? "")}"`)
    .join(",");
}
