import { type Rule, quote } from "./problem.ts";

/** Where Python's splitlines, and so the APEL server, breaks a line. */
const LINE_BREAKS = new Set([0x0a, 0x0b, 0x0c, 0x0d, 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029]);

/** Nearly all there is, and quickly told: a month of single jobs has a hundred million characters. */
const PRINTABLE = /^[ -~]*$/;

type OddCharacter = {
  readonly rule: Rule & ("line-break" | "control-character" | "not-ascii");
  readonly reason: string;
};

/** The first character that may not stand inside a line of a message, or undefined. APEL and ssmsend: ASCII only. */
export function oddCharacter(text: string): OddCharacter | undefined {
  if (PRINTABLE.test(text)) return undefined;
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0;
    if (code >= 0x20 && code < 0x7f) continue;
    const name = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
    if (LINE_BREAKS.has(code)) return { rule: "line-break", reason: `a line break (${name}) stands inside a line` };
    if (code < 0x20 || code === 0x7f) return { rule: "control-character", reason: `a control character (${name})` };
    if (code > 0x7f) return { rule: "not-ascii", reason: `the character ${quote(char)} (${name}) is not ASCII` };
  }
  return undefined;
}

/** APEL: `none`, `null` and the empty string read as null, in any case of letters. */
export function isNull(value: string | undefined): boolean {
  return value === undefined || ["", "none", "null"].includes(value.toLowerCase());
}

/** Why a text cannot be the value of a line, whatever the field: the receiving side would read something else. */
export function textProblem(name: string, value: string, maxLength = 255): string | undefined {
  const odd = oddCharacter(value);
  if (odd !== undefined) return `${name} ${quote(value)}: ${odd.reason}; APEL takes printable ASCII in one line`;
  if (value.includes("%%")) return `${name} ${quote(value)} holds "%%", which ends a record; write it without`;
  if (value.length > maxLength) {
    return `${name} ${quote(value)} has ${value.length} characters; APEL takes at most ${maxLength}`;
  }
  if (value !== value.trim()) return `${name} ${quote(value)} begins or ends with a space, which APEL drops; remove it`;
  return undefined;
}

/**
 * Why a configured string (site, VO, host, infrastructure type) may not stand in a message, or undefined if it may.
 * @param maxLength in characters; APEL: 255, InfrastructureType 20
 */
export function valueProblem(name: string, value: string, maxLength = 255): string | undefined {
  if (isNull(value.trim())) return `${name} ${quote(value)} reads as null at APEL; give it a name`;
  return textProblem(name, value, maxLength);
}
