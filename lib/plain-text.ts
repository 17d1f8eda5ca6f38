/**
 * What a terminal obeys, a line breaks at, or an eye does not see: C0 and C1 control characters with ESC and the line breaks among
 * them, format characters (bidirectional controls, zero-width ones, tags), line and paragraph separators, halves of a surrogate pair,
 * and all that Unicode lets a program leave out when it shows a text.
 */
const ODD = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{DI}]/gu;
const SHORT: ReadonlyMap<string, string> = new Map([
  ["\n", "\\n"],
  ["\r", "\\r"],
  ["\t", "\\t"],
]);

/** Characters of one line: longer than any of our own texts, and short enough for a screen and a log. */
export const LONGEST_LINE = 10_000;

/**
 * The text with every odd character written as JSON writes it (`\n`, `\u001b`). JSON stays JSON of the same value, since such
 * characters stand only within its strings.
 */
export function visible(text: string): string {
  return text.replace(ODD, escaped);
}

function escaped(character: string): string {
  const units = character.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return SHORT.get(character) ?? units.join("");
}

/**
 * A text from anywhere as one line for people: nothing in it moves a cursor, turns the direction of writing, hides, or looks like a
 * line of ours, and it is cut at `longest` characters. Cut first, so that the work does not depend on what somebody else sent.
 */
export function plainText(text: string, longest = LONGEST_LINE): string {
  return cut(visible(cut(text, longest)), longest);
}

function cut(text: string, longest: number): string {
  return text.length <= longest ? text : `${text.slice(0, Math.max(0, longest - 3))}...`;
}

/** Lines that are told apart on purpose, each a plain text. */
export function plainLines(lines: readonly string[]): string {
  return lines.map((line) => `${plainText(line)}\n`).join("");
}
