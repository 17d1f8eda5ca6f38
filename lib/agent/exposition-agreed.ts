import { LabelTexts } from "./exposition-labels.ts";
import { type Block, lineStart } from "./exposition.ts";
import type { Metric } from "./types.ts";

/** What a name is, wherever it comes from. */
export type Known = Pick<Metric, "type" | "help">;

export type Agreed = {
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
