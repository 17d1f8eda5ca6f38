import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { GridmeterError } from "../../shared/errors.ts";
import { append } from "../../shared/lists.ts";
import { MOST_PROBLEMS, type Problem, ProblemList, quote } from "../apel/values.ts";
import { type Unit, isNull } from "../model/tenant.ts";
import { MAX_BYTES, onlyForGratia, recordProblems } from "../apel/check.ts";
import { apelKey } from "../apel/replace-keys.ts";
import { LONGEST_LINE, type ParsedMessage, parseMessage } from "../apel/parse.ts";
import { fromFields } from "../apel/read.ts";
import { type ApelRecord, type ParsedRecord, unitOf } from "../apel/record.ts";

/** A hand-written record that breaks no rule. */
export type ManualRecord = {
  /** its first line in the file, from 1 */
  readonly line: number;
  readonly unit: Unit;
  readonly key: string;
  readonly record: ApelRecord;
  /** hash of its header and fields, whatever their order */
  readonly content: string;
  /** its lines as they go to APEL, the closing `%%` included */
  readonly text: string;
};

/** No file that a person wrote is larger, bytes: a year of a large site's records is a hundredth of this. */
export const LARGEST_FILE = 5_000_000;

/** So many records fit into such a file, if each is one of a job. */
const MOST_RECORDS = 50_000;

/** A record that must not go, or the whole file if `line` is outside every record. */
export type RefusedRecord = { readonly line: number; readonly problems: readonly Problem[] };

/** Something that is sent nevertheless, but that somebody should know. */
export type ManualWarning = {
  readonly line: number;
  readonly rule: "service-level-absent" | "submit-host-absent" | "replaces-nothing";
  readonly reason: string;
};

export type ManualFile = {
  readonly header: string;
  /** hash of the file's content; line ends do not matter */
  readonly hash: string;
  readonly records: readonly ManualRecord[];
  /** records that come before it in the file, word for word */
  readonly repeated: readonly ManualRecord[];
  /** the first of those that must not go */
  readonly refused: readonly RefusedRecord[];
  /** how many there are beyond those */
  readonly moreRefused: number;
  readonly warnings: readonly ManualWarning[];
};

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");
const byLine = (problems: readonly Problem[]): readonly Problem[] => problems.toSorted((a, b) => a.line - b.line);

/**
 * Takes a hand-written message apart and judges its records one by one (the server would reject all for one bad one).
 * Where the framing is broken so that records cannot be known, the whole file is refused. Never throws.
 * @param now epoch seconds; Infinity leaves out the rules about the future
 */
export function readManualFile(text: string, now: number): ManualFile {
  const tooLarge = sizeProblem(text);
  const message = parseMessage(tooLarge === undefined ? text : "", MOST_RECORDS);
  const header = message.header ?? "";
  const file = { header, hash: sha256(text.replaceAll("\r\n", "\n")) };
  const whole = tooLarge === undefined ? wholeFileProblems(text, message) : [tooLarge];
  const [first] = whole;
  if (first !== undefined) {
    const refused = [{ line: first.line, problems: whole }];
    return { ...file, records: [], repeated: [], refused, moreRefused: 0, warnings: [] };
  }
  const seen = new Map<string, ManualRecord>();
  const repeated: ManualRecord[] = [];
  const refused: RefusedRecord[] = [];
  let moreRefused = 0;
  const refuse = (record: RefusedRecord): void => {
    if (refused.length < MOST_PROBLEMS) refused.push(record);
    else moreRefused += 1;
  };
  const warnings: ManualWarning[] = [];
  for (const parsed of message.records) {
    const judged = judge(parsed, header, [...parsed.problems, ...recordProblems(parsed, now)]);
    if ("problems" in judged) {
      refuse(judged);
      continue;
    }
    const before = seen.get(judged.key);
    if (before === undefined) {
      seen.set(judged.key, judged);
      append(warnings, warningsOf(parsed));
    } else if (before.content === judged.content) {
      repeated.push(judged);
    } else {
      const reason = `the record has the same APEL key as that of line ${before.line} and would replace it: ${quote(judged.key)}`;
      refuse({ line: judged.line, problems: [{ line: judged.line, rule: "record-duplicated", reason }] });
    }
  }
  return { ...file, records: [...seen.values()], repeated, refused, moreRefused, warnings };
}

function sizeProblem(text: string): Problem | undefined {
  const bytes = Buffer.byteLength(text);
  if (bytes <= LARGEST_FILE) return undefined;
  const reason = `the file has ${bytes} bytes, more than ${LARGEST_FILE}; split it at a record's end`;
  return { line: 1, rule: "too-large", reason };
}

/** What keeps the records from being distinguished, or from being looked at. */
function wholeFileProblems(text: string, message: ParsedMessage): readonly Problem[] {
  const problems = new ProblemList();
  if (message.recordCount > MOST_RECORDS) {
    const reason = `the file has ${message.recordCount} records, more than ${MOST_RECORDS}; split it at a record's end`;
    problems.add({ line: 1, rule: "too-many-records", reason });
  }
  problems.addAll(message.outsideRecords);
  problems.addAll(laterHeaders(text, message));
  return problems.list();
}

/** Two messages in one file: the second one's records would be read under the first one's header. */
function* laterHeaders(text: string, message: ParsedMessage): Generator<Problem> {
  if (message.kind === undefined) return;
  let headers = 0;
  for (const [index, line] of text.split("\n").entries()) {
    if (!/^\s*APEL-[a-z-]*message\s*:/i.test(line.slice(0, LONGEST_LINE))) continue;
    headers += 1;
    if (headers === 1) continue;
    const reason = "a second header; a file is one message, split it at this line";
    yield { line: index + 1, rule: "key-unknown", reason };
  }
}

function judge(parsed: ParsedRecord, header: string, problems: readonly Problem[]): ManualRecord | RefusedRecord {
  const { line } = parsed;
  if (problems.length > 0) return { line, problems: byLine(problems) };
  // The fields and not the typed record: it leaves some behind (Queue, FQAN, LocalUserId, InfrastructureDescription).
  const lines = [...parsed.fields].map(([name, { value }]) => `${name}: ${value}`.trimEnd());
  const text = [...lines, "%%", ""].join("\n");
  if (header.length + 1 + text.length > MAX_BYTES) {
    const reason = `the record has ${text.length} bytes, more than a message's ${MAX_BYTES}`;
    return { line, problems: [{ line, rule: "too-large", reason }] };
  }
  try {
    const record = fromFields(parsed);
    const content = sha256([header, ...lines.toSorted()].join("\n"));
    return { line, unit: unitOf(record), key: apelKey(record), record, content, text };
  } catch (thrown) {
    if (!(thrown instanceof GridmeterError)) throw thrown;
    return { line, problems: [{ line, rule: "int64", reason: thrown.message }] };
  }
}

function warningsOf(parsed: ParsedRecord): readonly ManualWarning[] {
  const warnings: ManualWarning[] = [];
  const { line } = parsed;
  if (onlyForGratia(parsed)) {
    const reason = "a job without a service level: only Gratia takes it, APEL rejects it";
    warnings.push({ line, rule: "service-level-absent", reason });
  }
  if (isNull(parsed.fields.get("SubmitHost")?.value)) {
    const reason = "no SubmitHost: the record counts beside those of every submit host, and holds up no automatic run";
    warnings.push({ line, rule: "submit-host-absent", reason });
  }
  return warnings;
}
