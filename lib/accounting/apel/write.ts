import { GridmeterError } from "../../shared/errors.ts";
import type { MessageFormat } from "../model/tenant.ts";
import { quote, textProblem } from "./values.ts";
import { MAX_BYTES, MAX_RECORDS } from "./check.ts";
import { apelKey } from "./replace-keys.ts";
import { type ApelRecord, type IndividualRecord, toFields } from "./record.ts";
import { type RecordKind } from "./fields.ts";
import { type Layout, layoutFor } from "./fields.ts";

/** One file for ssmsend's queue: a header and at most 500 records of one kind. */
export type ApelMessage = { readonly kind: RecordKind; readonly body: string };

const KINDS: readonly RecordKind[] = ["summary", "normalised", "individual", "sync"];

function refuse(reason: string): never {
  throw new GridmeterError("message_invalid", `an APEL message was refused, none was written: ${reason}`);
}

function recordText(record: ApelRecord, layout: Layout): string {
  const lines = [...toFields(record, layout)].map(([name, value]) => {
    const field = layout.fields.get(name);
    // a line break in a value would pass for further lines, so it is caught before the lines are joined
    const problem = textProblem(name, value, field?.type === "text" ? field.max : undefined);
    return problem === undefined ? `${name}: ${value}\n` : refuse(problem);
  });
  return `${lines.join("")}%%\n`;
}

const twice = (key: string): string =>
  `two records have one APEL key, ${quote(key)}; the second would replace the first, add them up`;

/** Records in the order of their keys, tombstones first: should the server hold two keys for one, the figures win. */
function ordered(records: readonly ApelRecord[]): readonly ApelRecord[] {
  const keyed = new Map<string, ApelRecord>();
  for (const record of records) {
    const key = apelKey(record);
    if (keyed.has(key)) refuse(twice(key));
    keyed.set(key, record);
  }
  const isTombstone = (record: ApelRecord) => record.kind !== "individual" && record.numberOfJobs === 0;
  const sorted = [...keyed].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, record]) => record);
  return [...sorted.filter(isTombstone), ...sorted.filter((record) => !isTombstone(record))];
}

/** Bodies of at most 500 records and 500 kB, the header included. */
function* bodies(header: string, texts: Iterable<string>): Generator<string> {
  let body = "";
  let count = 0;
  for (const text of texts) {
    if (count === MAX_RECORDS || body.length + text.length > MAX_BYTES) {
      yield body;
      body = "";
      count = 0;
    }
    body = body === "" ? `${header}\n${text}` : body + text;
    count += 1;
  }
  if (body !== "") yield body;
}

/**
 * The messages that publish these records: grouped by kind, in an order that depends on nothing but the records, in
 * chunks of at most 500 records and 500 kB. The format chooses the version of each kind; sync is always v0.1. Service
 * levels are rounded to 3 decimals. No records, no messages. APEL's rules are left to the check before storing.
 * @throws GridmeterError `message_invalid`, quoting the bad value, where a text would break a line or a key occurs twice
 */
export function writeMessages(records: readonly ApelRecord[], format: MessageFormat): ApelMessage[] {
  const all = ordered(records);
  return KINDS.flatMap((kind) => {
    const layout = layoutFor(kind, format);
    function* texts(): Generator<string> {
      for (const record of all) if (record.kind === kind) yield recordText(record, layout);
    }
    return [...bodies(layout.header, texts())].map((body) => ({ kind, body }));
  });
}

/**
 * The messages of single jobs, the same as `writeMessages` makes of all of them at once, one after the other: a record and
 * a message at a time are in memory.
 * @param records in the order of their keys: of one site, by EndTime and then by LocalJobId
 * @throws GridmeterError `message_invalid`, quoting the bad value, where a text would break a line or a key occurs twice
 */
export function* jobMessages(records: Iterable<IndividualRecord>, format: MessageFormat): Generator<ApelMessage> {
  const layout = layoutFor("individual", format);
  for (const body of bodies(layout.header, jobTexts(records, layout))) yield { kind: "individual", body };
}

function* jobTexts(records: Iterable<IndividualRecord>, layout: Layout): Generator<string> {
  let last = "";
  for (const record of records) {
    const key = apelKey(record);
    if (key === last) refuse(twice(key));
    if (key < last) throw new TypeError(`the job ${quote(key)} comes after ${quote(last)}`);
    last = key;
    yield recordText(record, layout);
  }
}
