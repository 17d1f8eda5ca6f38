import type { Readable } from "node:stream";
import { readSample, readVector } from "./answer.ts";
import type { Sample } from "./answer.ts";
import { parseJson } from "./failures.ts";

/** Characters gathered before the rows among them are parsed: large enough for JSON.parse, small enough for memory. */
const BATCH = 1 << 18;
/** Inside a JSON text a quote is escaped, so neither of these can stand in a label's value. */
const RESULT = `"result":[`;
const ROW = `,{"metric":`;

/** A body that is no whole JSON; `start` is its beginning. */
export class NotJson extends Error {
  readonly start: string;

  constructor(start: string) {
    super("the JSON stops in the middle");
    this.start = start;
  }
}

/** A whole body as JSON. Throws `NotJson`, and whatever the stream fails with. */
export async function readJson(body: Readable): Promise<unknown> {
  let text = "";
  for await (const chunk of body.setEncoding("utf8")) text += String(chunk);
  const json = parseJson(text);
  if (json === undefined) throw new NotJson(text);
  return json;
}

/**
 * Hands over the rows of an instant query's answer while it arrives, so that memory does not depend on its size. What was
 * handed over holds only once this returns, for the end of the body may say that it is no good.
 *
 * The rows are cut out of the array in batches and parsed by themselves; what is left of the body is parsed as a whole, so
 * a body is taken if and only if it is JSON of the right shape from end to end. One that is not written as compactly as
 * Prometheus does is read as a whole.
 * Throws `NotJson`, whatever the stream fails with, `prometheus_bad_answer` and `prometheus_incomplete`.
 */
export async function streamVector(body: Readable, source: string, add: (sample: Sample) => void): Promise<void> {
  let head: string | undefined;
  let held = "";
  let cuttable = true;
  const take = (rows: readonly unknown[]): void => {
    for (const row of rows) add(readSample(row, source));
  };
  for await (const chunk of body.setEncoding("utf8")) {
    held += String(chunk);
    if (held.length < BATCH || !cuttable) continue;
    if (head === undefined) {
      const start = held.indexOf(RESULT);
      cuttable = start >= 0;
      if (!cuttable) continue;
      head = held.slice(0, start + RESULT.length);
      held = held.slice(head.length);
    }
    const last = held.lastIndexOf(ROW);
    cuttable = last > 0;
    if (!cuttable) continue;
    const rows = parseJson(`[${held.slice(0, last)}]`);
    if (!Array.isArray(rows)) throw new NotJson((head + held).slice(0, BATCH));
    take(rows);
    held = held.slice(last + 1);
  }
  const rest = (head ?? "") + held;
  const json = parseJson(rest);
  if (json === undefined) throw new NotJson(rest.slice(0, BATCH));
  take(readVector(json, source));
}
