/** What a message can get wrong, one name per rule of the APEL server (or of gridmeter, where the server loses data). */
export type Rule =
  | "empty-message"
  | "too-large"
  | "too-many-records"
  | "line-length"
  | "no-records"
  | "header-unknown"
  | "header-normalised-trap"
  | "not-ascii"
  | "control-character"
  | "line-break"
  | "separator-in-value"
  | "record-not-ended"
  | "blank-line"
  | "no-colon"
  | "key-unknown"
  | "key-duplicated"
  | "record-duplicated"
  | "mandatory-missing"
  | "integer-digits"
  | "int32"
  | "int64"
  | "time-limit"
  | "string-length"
  | "decimal"
  | "dict-syntax"
  | "dict-integer"
  | "benchmark-unknown"
  | "benchmark-mixture"
  | "month-range"
  | "month-in-future"
  | "end-time-outside-month"
  | "end-time-order"
  | "end-before-start"
  | "end-in-future"
  | "service-level-missing"
  | "service-level-half"
  | "service-level-type-line"
  | "more-problems";

/** One rule that a message breaks. `line` counts from 1; `reason` quotes the bad value and says what is accepted. */
export type Problem = {
  readonly line: number;
  readonly rule: Rule;
  readonly reason: string;
  /** of `more-problems`, which ends a long list: how many were found beyond those that are listed */
  readonly more?: number;
};

/** So many problems are listed. A text of 500 kB may hold a million, and nobody reads them. */
export const MOST_PROBLEMS = 50;

/** Problems as they are found: the first ones, and how many there are. */
export class ProblemList {
  readonly #first: Problem[] = [];
  #more = 0;
  #lastLine = 1;

  add(problem: Problem): void {
    this.#lastLine = problem.line;
    if (this.#first.length < MOST_PROBLEMS) this.#first.push(problem);
    else this.#more += problem.more ?? 1;
  }

  addAll(problems: Iterable<Problem>): void {
    for (const problem of problems) this.add(problem);
  }

  /** Those that are listed, by line; the last one says how many more there are. */
  list(): readonly Problem[] {
    const listed = this.#first.toSorted((a, b) => a.line - b.line);
    if (this.#more === 0) return listed;
    const reason = `${this.#more} more problems were found and are not listed`;
    return [...listed, { line: this.#lastLine, rule: "more-problems", reason, more: this.#more }];
  }
}

/** A value as it stands in messages to people: quoted, odd characters escaped, cut where it is long. */
export function quote(value: string): string {
  const long = 80;
  return JSON.stringify(value.length > long ? `${value.slice(0, long)}...` : value);
}

/** Problems as one text, at most the first few. */
export function problemText(problems: readonly Problem[]): string {
  const shown = 5;
  const lines = problems.slice(0, shown).map(({ line, rule, reason }) => `line ${line}: ${reason} (${rule})`);
  const others = problems.slice(shown).reduce((sum, { more = 1 }) => sum + more, 0);
  return [...lines, ...(others > 0 ? [`and ${others} more`] : [])].join("; ");
}
