import { bad, good, type Parsed } from "./parsed.ts";

const MATCHER =
  /\s*(?<label>[a-zA-Z_]\w*)\s*(?<operator>=~|!~|!=|=)\s*(?:"(?<double>(?:[^"\\]|\\.)*)"|'(?<single>(?:[^'\\]|\\.)*)'|(?<plain>[^\s,"'{}]+))\s*(?:,|$)/y;
const ESCAPES: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t", "\\": "\\", '"': '"', "'": "'" };

// These decide which pods and series are meant; a matcher on them would contradict the queries' own.
const RESERVED = ["namespace", "__name__", "pod", "uid", "container"];

/**
 * Reads PROMETHEUS_LABELS, `cluster="a",region!="b"` (quotes and outer braces may be left out), into PromQL matchers.
 * They are sorted and written in one way, so that neither order nor quoting changes a fingerprint.
 */
export function parseMatchers(text: string): Parsed<readonly string[]> {
  const whole = text.trim().replace(/^\{(.*)\}$/s, "$1");
  const matchers = new Set<string>();
  for (let at = 0; whole.slice(at).trim() !== ""; at = MATCHER.lastIndex) {
    MATCHER.lastIndex = at;
    const groups = MATCHER.exec(whole)?.groups;
    if (groups === undefined) {
      return bad(
        `cannot be read from ${JSON.stringify(whole.slice(at, at + 40))} on. Write label="value" (or !=, =~, !~), comma-separated`,
      );
    }
    const { label = "", operator = "", double, single, plain = "" } = groups;
    if (RESERVED.includes(label))
      return bad(`has a matcher on ${label}, which the queries set themselves. Leave it out`);
    const value = unescaped(double ?? single ?? plain, plain !== "");
    if (value === undefined)
      return bad(`has an unknown escape in the value of ${label}. Known: \\\\ \\" \\' \\n \\r \\t`);
    matchers.add(`${label}${operator}${JSON.stringify(value)}`);
  }
  return good([...matchers].sort());
}

function unescaped(text: string, isPlain: boolean): string | undefined {
  if (isPlain) return text;
  let known = true;
  const value = text.replaceAll(/\\(.)/gs, (_, letter: string) => {
    const meant = ESCAPES[letter];
    known &&= meant !== undefined;
    return meant ?? "";
  });
  return known ? value : undefined;
}
