import { type ParsedRecord, type RawField } from "./record.ts";
import { type RecordKind } from "./fields.ts";
import { LAYOUTS, type Layout } from "./fields.ts";
import { type Problem, ProblemList, type Rule, oddCharacter, quote } from "./values.ts";

/** What is in a message. `kind` is undefined and `records` empty if the header is not a known one. */
export type ParsedMessage = {
  readonly header: string | undefined;
  readonly kind: RecordKind | undefined;
  readonly records: readonly ParsedRecord[];
  /** how many there are, those beyond the wanted ones included */
  readonly recordCount: number;
  /** all that is wrong with the lines, whichever record they belong to */
  readonly problems: readonly Problem[];
  /** those of lines that belong to no record */
  readonly outsideRecords: readonly Problem[];
};

/** No line of a good record is half as long: a name of some letters, and a value of at most 255. */
export const LONGEST_LINE = 1024;

/** APEL reads this header as a normalised summary, whatever the records hold. */
const TRAP = "APEL-summary-job-message: v0.3";

function headerProblem(header: string, line: number): Problem {
  if (header === TRAP) {
    return {
      line,
      rule: "header-normalised-trap",
      reason: `${quote(header)} means a normalised summary at APEL; write v0.2 or v0.4`,
    };
  }
  const known = LAYOUTS.map((layout) => layout.header).join(", ");
  return { line, rule: "header-unknown", reason: `${quote(header)} is no known header; known are ${known}` };
}

/** Cuts the lines after the header into records; blank lines are fine around `%%`, not inside a record. */
class RecordReader {
  readonly records: ParsedRecord[] = [];
  recordCount = 0;
  readonly problems = new ProblemList();
  readonly outsideRecords = new ProblemList();
  readonly #layout: Layout;
  readonly #mostRecords: number;
  #fields = new Map<string, RawField>();
  #start: number | undefined;
  #own = new ProblemList();
  #blank: number | undefined;

  constructor(layout: Layout, mostRecords: number) {
    this.#layout = layout;
    this.#mostRecords = mostRecords;
  }

  /** @param whole the line with the spaces around it */
  read(whole: string, line: number): void {
    const content = whole.trim();
    if (content !== "" && content !== "%%") this.#open(line);
    const odd = oddProblem(whole, line);
    if (odd !== undefined) this.#note(odd.line, odd.rule, odd.reason);
    if (content === "") this.#blank ??= line;
    else if (content === "%%") this.#close();
    else this.#take(content, line);
  }

  /** APEL: records are ended by `%%`; without the last one the file may be cut short. */
  end(line: number): void {
    if (this.#start !== undefined)
      this.#note(line, "record-not-ended", `the record of line ${this.#start} has no "%%" after it`);
    this.#close();
  }

  #note(line: number, rule: Rule, reason: string): void {
    const problem = { line, rule, reason };
    this.problems.add(problem);
    (this.#start === undefined ? this.outsideRecords : this.#own).add(problem);
  }

  #close(): void {
    if (this.#start !== undefined) {
      this.recordCount += 1;
      if (this.recordCount <= this.#mostRecords) {
        const record = { line: this.#start, layout: this.#layout, fields: this.#fields };
        this.records.push({ ...record, problems: this.#own.list() });
      }
      this.#own = new ProblemList();
    }
    this.#fields = new Map();
    this.#start = undefined;
    this.#blank = undefined;
  }

  #open(line: number): void {
    if (this.#start !== undefined && this.#blank !== undefined)
      this.#note(this.#blank, "blank-line", "a blank line is inside a record");
    this.#start ??= line;
    this.#blank = undefined;
  }

  #take(content: string, line: number): void {
    if (content.length > LONGEST_LINE && !this.#isIgnored(content)) {
      const reason = `${quote(content)} has ${content.length} characters; no line of a record is longer than ${LONGEST_LINE}`;
      this.#note(line, "line-length", reason);
      return;
    }
    if (content.includes("%%"))
      this.#note(line, "separator-in-value", `"%%" must stand alone in its line, not in ${quote(content)}`);
    const colon = content.indexOf(":");
    if (colon === -1) {
      this.#note(line, "no-colon", `${quote(content)} is not "Key: value"`);
      return;
    }
    const key = content.slice(0, colon).trim();
    if (!this.#isKnown(key, line)) return;
    if (this.#fields.has(key))
      this.#note(line, "key-duplicated", `${quote(key)} occurs twice in one record; APEL keeps the last only`);
    this.#fields.set(key, { line, value: content.slice(colon + 1).trim() });
  }

  /** What the server throws away may have any length. */
  #isIgnored(content: string): boolean {
    const start = content.slice(0, LONGEST_LINE);
    return this.#layout.fields.get(start.slice(0, start.indexOf(":")).trim())?.type === "ignored";
  }

  #isKnown(key: string, line: number): boolean {
    if (this.#layout.fields.has(key)) return true;
    if (key === "ServiceLevelType" && this.#layout.version === "0.4" && this.#layout.kind !== "sync") {
      const reason = "v0.4 names the benchmark in its dict; a ServiceLevelType line would silently override it";
      this.#note(line, "service-level-type-line", reason);
    } else {
      this.#note(line, "key-unknown", `${quote(key)} is no key of ${quote(this.#layout.header)}`);
    }
    return false;
  }
}

function oddProblem(whole: string, line: number): Problem | undefined {
  const odd = oddCharacter(whole);
  return odd && { line, rule: odd.rule, reason: `${odd.reason} in ${quote(whole)}` };
}

/** The whole message is refused for its header, or for want of one. */
function headless(header: string | undefined, lines: readonly string[], problem: Problem): ParsedMessage {
  const problems = new ProblemList();
  problems.add(problem);
  for (const [index, line] of lines.entries()) {
    const odd = oddProblem(line, index + 1);
    if (odd !== undefined) problems.add(odd);
  }
  const found = problems.list();
  return { header, kind: undefined, records: [], recordCount: 0, problems: found, outsideRecords: found };
}

/**
 * Takes apart a message that we, KAPEL or a human wrote. Never throws: what the server would refuse, or would read as
 * something else than it says, is among `problems`. Values are judged by `checkMessage`, not here. CRLF is read as LF,
 * as the server does.
 * @param mostRecords so many records are given, the others are only counted
 */
export function parseMessage(text: string, mostRecords = Infinity): ParsedMessage {
  const lines = text.split("\n").map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line));
  const first = lines.findIndex((line) => line.trim() !== "");
  const header = lines[first];
  if (header === undefined) {
    const reason = "the message is empty, which stops APEL's central loader";
    return headless(header, lines, { line: 1, rule: "empty-message", reason });
  }
  const layout = LAYOUTS.find((known) => known.header === header);
  if (layout === undefined) return headless(header, lines, headerProblem(header, first + 1));
  const reader = new RecordReader(layout, mostRecords);
  // The header is plain ASCII, or it would not be a known one; the lines above it are blank.
  for (const [index, line] of lines.entries()) if (index !== first) reader.read(line, index + 1);
  reader.end(lines.length);
  const { records, recordCount, problems, outsideRecords } = reader;
  if (recordCount === 0) {
    const reason = `no record follows the header ${quote(header)}`;
    for (const list of [problems, outsideRecords]) list.add({ line: first + 1, rule: "no-records", reason });
  }
  return {
    header,
    kind: layout.kind,
    records,
    recordCount,
    problems: problems.list(),
    outsideRecords: outsideRecords.list(),
  };
}
