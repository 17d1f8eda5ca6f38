import { createWriteStream } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { samples } from "./series.ts";
import type { Series } from "./series.ts";

const CHUNK = 1 << 18;

/** The series as OpenMetrics text in pieces: family by family, ascending in time within a series, `# EOF` at the end. */
export function* openMetrics(series: readonly Series[]): Generator<string> {
  const families = new Map<string, Series[]>();
  for (const one of series) {
    const family = families.get(one.name) ?? [];
    families.set(one.name, family);
    family.push(one);
  }
  let chunk = "";
  for (const name of [...families.keys()].sort()) {
    const counter = name.endsWith("_total");
    chunk += `# TYPE ${counter ? name.slice(0, -"_total".length) : name} ${counter ? "counter" : "gauge"}\n`;
    for (const one of families.get(name) ?? []) {
      const head = name + labelText(one.labels);
      for (const [time, value] of samples(one)) {
        chunk += `${head} ${value} ${time}\n`;
        if (chunk.length > CHUNK) {
          yield chunk;
          chunk = "";
        }
      }
    }
  }
  yield `${chunk}# EOF\n`;
}

/** Streams the text to a file, for `promtool tsdb create-blocks-from openmetrics`. */
export async function writeOpenMetrics(series: readonly Series[], file: string): Promise<void> {
  await pipeline(Readable.from(openMetrics(series)), createWriteStream(file));
}

function labelText(labels: Readonly<Record<string, string>>): string {
  const pairs = Object.keys(labels)
    .sort()
    .map((key) => `${key}=${JSON.stringify(labels[key])}`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}
