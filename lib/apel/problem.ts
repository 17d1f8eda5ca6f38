/** What a message can get wrong, one name per rule of the APEL server (or of gridmeter, where the server loses data). */
export type Rule =
  | "empty-message"
  | "too-large"
  | "too-many-records"
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
  | "service-level-type-line";

/** One rule that a message breaks. `line` counts from 1; `reason` quotes the bad value and says what is accepted. */
export type Problem = { readonly line: number; readonly rule: Rule; readonly reason: string };

/** A value as it stands in messages to people: quoted, odd characters escaped, cut where it is long. */
export function quote(value: string): string {
  const long = 80;
  return JSON.stringify(value.length > long ? `${value.slice(0, long)}...` : value);
}

/** Problems as one text, at most the first few. */
export function problemText(problems: readonly Problem[]): string {
  const shown = 5;
  const lines = problems.slice(0, shown).map(({ line, rule, reason }) => `line ${line}: ${reason} (${rule})`);
  const more = problems.length > shown ? [`and ${problems.length - shown} more`] : [];
  return [...lines, ...more].join("; ");
}
