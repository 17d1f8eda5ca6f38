import { Buffer } from "node:buffer";
import { onlyForGratia, recordProblems } from "./check-record.ts";
import { parsedKey } from "./keys.ts";
import { type ParsedRecord, parseMessage } from "./parse.ts";
import { type Problem, ProblemList, quote } from "./problem.ts";
import type { RecordKind } from "./records.ts";

/** APEL: so many records a file. */
export const MAX_RECORDS = 500;

/** APEL: so many bytes a file; the broker's limit is 1 MB after signing and base64. */
export const MAX_BYTES = 500_000;

/** Something that is allowed, but that somebody should know. */
export type Warning = { readonly line: number; readonly rule: "service-level-absent"; readonly reason: string };

export type Verdict = { readonly problems: readonly Problem[]; readonly warnings: readonly Warning[] };

/** The server REPLACEs: of two records with one key the first is lost without a word. */
function* duplicateProblems(records: readonly ParsedRecord[]): Generator<Problem> {
  const seen = new Map<string, number>();
  for (const record of records) {
    const key = parsedKey(record);
    const before = seen.get(key);
    if (before === undefined) {
      seen.set(key, record.line);
    } else {
      const reason = `the record has the same APEL key as that of line ${before} and would replace it: ${quote(key)}`;
      yield { line: record.line, rule: "record-duplicated", reason };
    }
  }
}

/**
 * Judges a message by every rule of the APEL server and of ssmsend (design/apel-messages.md). One problem and the
 * message must not be stored: the server would reject the whole of it and tell nobody. A warning does not stop it.
 * @param now epoch seconds; Infinity leaves out the rules about the future
 */
export function checkMessage(text: string, now: number): Verdict {
  const { problems, warnings } = readChecked(text, now);
  return { problems, warnings };
}

/** The verdict of `checkMessage`, and the records it is about: none of them is good where there is a problem. */
export function readChecked(
  text: string,
  now: number,
): Verdict & { readonly kind: RecordKind | undefined; readonly records: readonly ParsedRecord[] } {
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_BYTES) {
    const reason = `the message has ${bytes} bytes, more than ${MAX_BYTES}; split it, nothing else of it was checked`;
    return { problems: [{ line: 1, rule: "too-large", reason }], warnings: [], kind: undefined, records: [] };
  }
  const { kind, records, recordCount, problems: framing } = parseMessage(text, MAX_RECORDS);
  const problems = new ProblemList();
  if (recordCount > MAX_RECORDS) {
    const reason = `the message has ${recordCount} records, more than ${MAX_RECORDS}; split it, those beyond were not checked`;
    problems.add({ line: 1, rule: "too-many-records", reason });
  }
  problems.addAll(framing);
  for (const record of records) problems.addAll(recordProblems(record, now));
  problems.addAll(duplicateProblems(records));
  const warnings = records.filter(onlyForGratia).map(({ line }): Warning => {
    return {
      line,
      rule: "service-level-absent",
      reason: "a job without a service level: only Gratia takes it, APEL rejects it",
    };
  });
  return { problems: problems.list(), warnings, kind, records };
}
