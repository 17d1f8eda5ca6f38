// Large answers are read in bounded parts. Read as a whole they make a month of 300,000 jobs take 400 MB (wanted: 300 MB at most).

import type { Readable } from "node:stream";
import { GridmeterError } from "../../shared/errors.ts";
import { parseJson } from "../../shared/text.ts";
import { type Sample, readSample, readVector } from "./response.ts";

/** Characters that are gathered before the rows among them are parsed. */
const BATCH = 1 << 18;
/** Inside a JSON text a quote is escaped, so neither of these can be in a label's value. */
const RESULT = `"result":[`;
const ROW = `,{"metric":`;
/** Most characters that are held, and most of an answer of which only a batch is held: two million pods have 200 million. */
const LONGEST = { held: 1 << 25, streamed: 1 << 28 };
/** Characters of a body that is no JSON which are kept for the error. */
const QUOTABLE = 10_000;

/** A body that is no whole JSON; `start` is its beginning. */
export class NotJson extends Error {
  readonly start: string;

  constructor(start: string) {
    super("the JSON stops in the middle");
    this.start = start.slice(0, QUOTABLE);
  }
}

/** A whole body as JSON. Throws `NotJson`, `prometheus_too_large`, and whatever the stream fails with. */
export async function readJson(body: Readable, source: string): Promise<unknown> {
  let text = "";
  for await (const piece of texts(body)) {
    text += piece;
    refuseLonger(text.length, LONGEST.held, source);
  }
  return parsed(text, text);
}

/**
 * Hands over the samples of an instant query's answer while it arrives. They hold only once this returns, since the end of the body
 * may say that the answer is no good.
 *
 * Rows are cut out of the array in batches, and what is left of the body is parsed as a whole. So a body is taken if and only if
 * it is JSON of the right shape from end to end. One that is not written as compactly as Prometheus writes is held as a whole.
 * @param isCompressed such a body is held as a whole too: the checksum at its end says whether it is what was sent
 * Throws as `readJson`, and `prometheus_bad_answer` and `prometheus_incomplete`.
 */
export async function streamVector(
  body: Readable,
  source: string,
  take: (sample: Sample) => void,
  isCompressed = false,
): Promise<void> {
  let head = "";
  let held = "";
  let length = 0;
  let isCuttable = !isCompressed;
  for await (const piece of texts(body)) {
    held += piece;
    length += piece.length;
    refuseLonger(length, LONGEST.streamed, source);
    refuseLonger(held.length, LONGEST.held, source);
    if (held.length < BATCH || !isCuttable) continue;
    const start = head === "" ? held.indexOf(RESULT) + RESULT.length : 0;
    const end = held.lastIndexOf(ROW);
    isCuttable = start !== RESULT.length - 1 && end > start;
    if (!isCuttable) continue;
    const rows = parsed(`[${held.slice(start, end)}]`, head + held);
    head += held.slice(0, start);
    held = held.slice(end + 1);
    if (Array.isArray(rows)) for (const row of rows) take(readSample(row, source));
  }
  for (const sample of readVector(parsed(head + held, head + held), source)) take(sample);
}

/** A body's text as it arrives. Bytes that are no UTF-8 are an error: replaced, they would make one uid of two. */
async function* texts(body: Readable): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  for await (const chunk of body) if (chunk instanceof Uint8Array) yield decoder.decode(chunk, { stream: true });
  yield decoder.decode();
}

function parsed(text: string, body: string): unknown {
  const json = parseJson(text);
  if (json === undefined) throw new NotJson(body);
  return json;
}

function refuseLonger(length: number, longest: number, source: string): void {
  if (length <= longest) return;
  throw new GridmeterError(
    "prometheus_too_large",
    `${source} sent an answer of more than ${longest / 2 ** 20} MiB, which was not read to its end. Nothing was published. ` +
      "See whether a proxy in between alters the answers.",
  );
}
