import type { Readable } from "node:stream";
import { GridmeterError } from "../errors.ts";
import { readVector } from "./answer.ts";
import { parseJson } from "./failures.ts";
import type { Taker } from "./takers.ts";

/** Characters gathered before the rows among them are parsed: large enough for JSON.parse, small enough for memory. */
const BATCH = 1 << 18;
/** Inside a JSON text a quote is escaped, so neither of these can stand in a label's value. */
const RESULT = `"result":[`;
const ROW = `,{"metric":`;
/**
 * Longest answers that are taken, in characters: of those read as a whole, and of those whose rows are handed over as they
 * arrive, where each pod costs memory all the same. Two million pods have 200 million characters.
 */
const LONGEST = { whole: 1 << 25, rows: 1 << 28 };

/** A body that is no whole JSON; `start` is its beginning. */
export class NotJson extends Error {
  readonly start: string;

  constructor(start: string) {
    super("the JSON stops in the middle");
    this.start = start;
  }
}

/** A whole body as JSON. Throws `NotJson`, `prometheus_too_large`, and whatever the stream fails with. */
export async function readJson(body: Readable, source: string): Promise<unknown> {
  let text = "";
  for await (const piece of texts(body)) {
    text += piece;
    refuseLonger(text.length, LONGEST.whole, source);
  }
  const json = parseJson(text);
  if (json === undefined) throw new NotJson(text.slice(0, BATCH));
  return json;
}

/**
 * Hands over the rows of an instant query's answer while it arrives, so that memory does not depend on its size. What was
 * handed over holds only once this returns, for the end of the body may say that it is no good.
 *
 * The rows are cut out of the array in batches and parsed by themselves; what is left of the body is parsed as a whole, so
 * a body is taken if and only if it is JSON of the right shape from end to end. One that is not written as compactly as
 * Prometheus does is read as a whole, and so is one that was compressed: what it says is known to be what was sent only
 * once its checksum, which stands at the end, was seen (`checked`).
 * Throws `NotJson`, whatever the stream fails with, `prometheus_bad_answer`, `prometheus_incomplete` and, for a longer
 * answer than can be held, `prometheus_too_large`.
 */
export async function streamVector(body: Readable, source: string, taker: Taker, checked = false): Promise<void> {
  let head: string | undefined;
  let held = "";
  let length = 0;
  let cuttable = !checked;
  for await (const piece of texts(body)) {
    held += piece;
    length += piece.length;
    refuseLonger(length, LONGEST.rows, source);
    refuseLonger(held.length, LONGEST.whole, source);
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
    if (!taker.text(held.slice(0, last))) throw new NotJson((head + held).slice(0, BATCH));
    held = held.slice(last + 1);
  }
  const rest = (head ?? "") + held;
  const json = parseJson(rest);
  if (json === undefined) throw new NotJson(rest.slice(0, BATCH));
  taker.parsed(readVector(json, source));
}

/** A body's text as it arrives. Bytes that are no UTF-8 are an error: replaced, they would make one uid of two. */
async function* texts(body: Readable): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  for await (const chunk of body) if (chunk instanceof Uint8Array) yield decoder.decode(chunk, { stream: true });
  yield decoder.decode();
}

function refuseLonger(length: number, longest: number, source: string): void {
  if (length <= longest) return;
  throw new GridmeterError(
    "prometheus_too_large",
    `${source} sent an answer of more than ${longest / 2 ** 20} MiB, which was not read to its end. Nothing was published. ` +
      "See whether a proxy in between alters the answers.",
  );
}
