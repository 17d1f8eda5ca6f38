import type { Labels } from "../agent/types.ts";

export type Sample = { readonly name: string; readonly labels: Labels; readonly value: number };

const NAME = /[a-zA-Z_:][a-zA-Z0-9_:]*/y;
const LABEL = /[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\[\\"n])*)"[ \t]*(,?)/y;
const CLOSE = /[ \t]*\}/y;
/** A finite number and nothing behind it: no time, no exemplar. */
const VALUE = /[ \t]*([+-]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][+-]?\d{1,9})?)[ \t]{0,64}$/y;

/** A longer line is no sample: some dozens of labels of the longest values. */
const LONGEST_LINE = 64 * 1024;

/** Label values longer than this are no names of anything. */
const LONGEST_VALUE = 1024;

const match = (pattern: RegExp, text: string, from: number): RegExpExecArray | undefined => {
  pattern.lastIndex = from;
  return pattern.exec(text) ?? undefined;
};

const unescape = (text: string): string =>
  text.replaceAll(/\\([\\"n])/g, (_, escaped: string) => (escaped === "n" ? "\n" : escaped));

const isLabel = (name: string, value: string, labels: ReadonlyMap<string, string>): boolean =>
  // names with two underscores are Prometheus's own
  !name.startsWith("__") && !labels.has(name) && value.length <= LONGEST_VALUE && !/\p{Cs}/u.test(value);

/** The labels from behind the brace, and where the value starts; undefined where they are broken. */
const readLabels = (text: string, from: number): { labels: Labels; end: number } | undefined => {
  const labels = new Map<string, string>();
  let end = from;
  for (let comma = true; comma;) {
    const found = match(LABEL, text, end);
    if (found === undefined) break;
    const [whole, name = "", escaped = "", separator] = found;
    const value = unescape(escaped);
    if (!isLabel(name, value, labels)) return undefined;
    // an empty label is the same as none, and would make two series of one
    if (value !== "") labels.set(name, value);
    end += whole.length;
    comma = separator === ",";
  }
  const close = match(CLOSE, text, end);
  return close === undefined ? undefined : { labels: Object.fromEntries(labels), end: end + close[0].length };
};

/** Reads `name{label="value"} 1.5`; undefined for anything else. */
export const readSample = (line: string): Sample | undefined => {
  if (line.length > LONGEST_LINE) return undefined;
  const name = match(NAME, line, 0)?.[0];
  if (name === undefined) return undefined;
  const start = name.length + (/^[ \t]*/.exec(line.slice(name.length))?.[0].length ?? 0);
  const found = line[start] === "{" ? readLabels(line, start + 1) : { labels: {}, end: name.length };
  if (found === undefined) return undefined;
  // without labels, a space has to part name and value
  if (found.end === name.length && start === name.length) return undefined;
  const value = Number(match(VALUE, line, found.end)?.[1] ?? Number.NaN);
  return Number.isFinite(value) ? { name, labels: found.labels, value } : undefined;
};
