import { readSample } from "./answer.ts";
import type { Sample } from "./answer.ts";
import { parseJson } from "./failures.ts";

/** Takes the rows of an instant query's answer as they arrive. Both throw `prometheus_bad_answer`. */
export type Taker = {
  /** Rows as they are written, a comma between two. False if that is no JSON; some of them may be taken then. */
  readonly text: (rows: string) => boolean;
  readonly parsed: (rows: readonly unknown[]) => void;
};

/** Takes rows of any labels. */
export function sampleTaker(source: string, add: (sample: Sample) => void): Taker {
  const parsed = (rows: readonly unknown[]): void => {
    for (const row of rows) add(readSample(row, source));
  };
  return {
    parsed,
    text: (rows) => {
      const json = parseJson(`[${rows}]`);
      if (!Array.isArray(json)) return false;
      parsed(json);
      return true;
    },
  };
}

/**
 * Takes rows that have one label: its text ("" where a row has it not) and the value. As long as rows are written as
 * Prometheus writes them they are read without an object for each, which takes half the time and leaves no garbage; from the
 * first that is not (a text with an escape, say), the others that came with it are read as any other JSON.
 * @param label a Prometheus label name
 */
export function labelTaker(source: string, label: string, add: (text: string, value: number) => void): Taker {
  const asJson = sampleTaker(source, ({ labels, value }) => add(labels[label] ?? "", value));
  const row = new RegExp(
    String.raw`\{"metric":\{"${label}":"([ !#-[\]-~]*)"\},"value":\[(?:0|[1-9]\d*)(?:\.\d+)?,"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)"\]\}(?:,(?=\{)|$)`,
    "y",
  );
  return {
    parsed: asJson.parsed,
    text: (rows) => {
      let taken = 0;
      row.lastIndex = 0;
      for (let found = row.exec(rows); found !== null; found = row.exec(rows)) {
        taken = row.lastIndex;
        add(found[1] ?? "", Number(found[2]));
      }
      return taken === rows.length || asJson.text(rows.slice(taken));
    },
  };
}
