import type { Labels, Metric } from "./types.ts";

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

/** A label's value as it stands between quotes: equal for values that are the same to Prometheus, and only for those. */
export const escapeValue = (text: string): string =>
  TROUBLE.test(text)
    ? wellFormed(text).replaceAll(/[\\"\n]/g, (found) => (found === "\n" ? "\\n" : `\\${found}`))
    : text;
const escapeHelp = (text: string): string => wellFormed(text).replaceAll("\\", "\\\\").replaceAll("\n", "\\n");

/** The inside of the braces, but for the probe: `a="x",b="y"`. */
export const encodeLabels = (labels: Labels): string => {
  let text = "";
  for (const name in labels) {
    if (name !== "probe") text += `${text === "" ? "" : ","}${name}="${escapeValue(labels[name] ?? "")}"`;
  }
  return text;
};

/** What all series of a probe under one name begin with. */
export const lineStart = (name: string, probe: string): string => `${name}{probe="${escapeValue(probe)}"`;

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
