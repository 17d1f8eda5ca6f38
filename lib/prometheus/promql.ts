/**
 * A text as a PromQL string: double-quoted, so that no label value can end it. Backslash, quote and line break are
 * escaped; other control characters have Go's escapes, which PromQL shares.
 */
export function quote(text: string): string {
  let out = "";
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0;
    if (char === "\\" || char === '"') out += `\\${char}`;
    else if (char === "\n") out += "\\n";
    else if (code < 0x20 || code === 0x7f) out += `\\x${code.toString(16).padStart(2, "0")}`;
    else out += char;
  }
  return `"${out}"`;
}

/** A selector out of matchers such as `a="b"`; empty ones are left out. */
export function selector(metric: string, matchers: readonly string[]): string {
  return `${metric}{${matchers.filter((matcher) => matcher !== "").join(",")}}`;
}

/** `fn` over the last `seconds` of each selector, all of them together. Selectors are disjoint, so `or` adds nothing up. */
export function overTime(
  fn: "max_over_time" | "last_over_time",
  selectors: readonly string[],
  seconds: number,
): string {
  return selectors.map((each) => `${fn}(${each}[${seconds}s])`).join(" or ");
}
