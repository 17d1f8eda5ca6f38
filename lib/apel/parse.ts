import { LAYOUTS, type Layout } from "./layout.ts";
import { type Problem, quote } from "./problem.ts";
import type { RecordKind } from "./records.ts";
import { oddCharacter } from "./text.ts";

/** A value as it stands in the message, without the spaces around it. `line` counts from 1. */
export type RawField = { readonly line: number; readonly value: string };

/** One record, taken apart but not judged. Of a key that stands twice the last value is kept, as the server does. */
export type ParsedRecord = {
  readonly line: number;
  readonly layout: Layout;
  readonly fields: ReadonlyMap<string, RawField>;
};

/** What stands in a message. `kind` is undefined and `records` empty if the header is not a known one. */
export type ParsedMessage = {
  readonly header: string | undefined;
  readonly kind: RecordKind | undefined;
  readonly records: readonly ParsedRecord[];
  readonly problems: readonly Problem[];
};

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
  readonly problems: Problem[] = [];
  readonly #layout: Layout;
  #fields = new Map<string, RawField>();
  #start: number | undefined;
  #blank: number | undefined;

  constructor(layout: Layout) {
    this.#layout = layout;
  }

  read(content: string, line: number): void {
    if (content === "") {
      this.#blank ??= line;
    } else if (content === "%%") {
      this.close();
    } else {
      this.#open(line);
      this.#take(content, line);
    }
  }

  close(): void {
    if (this.#start !== undefined) {
      this.records.push({ line: this.#start, layout: this.#layout, fields: this.#fields });
    }
    this.#fields = new Map();
    this.#start = undefined;
    this.#blank = undefined;
  }

  /** APEL: records are ended by `%%`; without the last one the file may be cut short. */
  end(line: number): void {
    if (this.#start !== undefined) {
      this.problems.push({
        line,
        rule: "record-not-ended",
        reason: `the record of line ${this.#start} has no "%%" after it`,
      });
    }
    this.close();
  }

  #open(line: number): void {
    if (this.#start !== undefined && this.#blank !== undefined) {
      this.problems.push({ line: this.#blank, rule: "blank-line", reason: "a blank line stands inside a record" });
    }
    this.#start ??= line;
    this.#blank = undefined;
  }

  #take(content: string, line: number): void {
    if (content.includes("%%")) {
      this.problems.push({
        line,
        rule: "separator-in-value",
        reason: `"%%" must stand alone in its line, not in ${quote(content)}`,
      });
    }
    const colon = content.indexOf(":");
    if (colon === -1) {
      this.problems.push({ line, rule: "no-colon", reason: `${quote(content)} is not "Key: value"` });
      return;
    }
    const key = content.slice(0, colon).trim();
    if (this.#fields.has(key)) {
      this.problems.push({
        line,
        rule: "key-duplicated",
        reason: `${quote(key)} stands twice in one record; APEL keeps the last only`,
      });
    }
    this.#checkKey(key, line);
    this.#fields.set(key, { line, value: content.slice(colon + 1).trim() });
  }

  #checkKey(key: string, line: number): void {
    if (this.#layout.fields.has(key)) return;
    if (key === "ServiceLevelType" && this.#layout.version === "0.4" && this.#layout.kind !== "sync") {
      const reason = "v0.4 names the benchmark in its dict; a ServiceLevelType line would silently override it";
      this.problems.push({ line, rule: "service-level-type-line", reason });
      return;
    }
    this.problems.push({
      line,
      rule: "key-unknown",
      reason: `${quote(key)} is no key of ${quote(this.#layout.header)}`,
    });
  }
}

/**
 * Takes apart a message that we, KAPEL or a human wrote. Never throws: what the server would refuse, or would read as
 * something else than it says, is among `problems`. Values are judged by `checkMessage`, not here. CRLF is read as LF,
 * as the server does.
 */
export function parseMessage(text: string): ParsedMessage {
  const lines = text.split("\n").map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line));
  const problems: Problem[] = [];
  lines.forEach((line, index) => {
    const odd = oddCharacter(line);
    if (odd !== undefined)
      problems.push({ line: index + 1, rule: odd.rule, reason: `${odd.reason} in ${quote(line)}` });
  });
  const first = lines.findIndex((line) => line.trim() !== "");
  const header = lines[first];
  if (header === undefined) {
    problems.push({
      line: 1,
      rule: "empty-message",
      reason: "the message is empty, which stops APEL's central loader",
    });
    return { header, kind: undefined, records: [], problems };
  }
  const layout = LAYOUTS.find((known) => known.header === header);
  if (layout === undefined) {
    return { header, kind: undefined, records: [], problems: [...problems, headerProblem(header, first + 1)] };
  }
  const reader = new RecordReader(layout);
  lines.slice(first + 1).forEach((line, index) => reader.read(line.trim(), first + 2 + index));
  reader.end(lines.length);
  problems.push(...reader.problems);
  if (reader.records.length === 0) {
    problems.push({ line: first + 1, rule: "no-records", reason: `no record follows the header ${quote(header)}` });
  }
  return { header, kind: layout.kind, records: reader.records, problems };
}
