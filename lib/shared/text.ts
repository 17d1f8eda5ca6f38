import { z } from "zod";

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

/** The text as JSON; undefined, which no JSON is, where it is none. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Characters of one line: longer than any of our own texts, and short enough for a screen and a log. */
export const LONGEST_LINE = 10_000;

/**
 * The text with every odd character written as JSON writes it (`\n`, `\u001b`). JSON stays JSON of the same value, since such
 * characters are only within its strings.
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

/** Characters of one text of a page; names are far shorter. */
const LONGEST_HTML = 1000;

/** A text from anywhere as text or attribute of HTML: nothing in it is markup, and all of it can be seen. */
export function htmlText(text: string): string {
  return plainText(text, LONGEST_HTML)
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll("'", "&#39;");
}

function cut(text: string, longest: number): string {
  return text.length <= longest ? text : `${text.slice(0, Math.max(0, longest - 3))}...`;
}

/** Lines that are distinguished on purpose, each a plain text. */
export function plainLines(lines: readonly string[]): string {
  return lines.map((line) => `${plainText(line)}\n`).join("");
}

/** What of an Authorization header must never be shown: the header, what follows its scheme, and of Basic the password in it. */
export function secretsOfHeader(header: string | undefined): readonly string[] {
  if (header === undefined) return [];
  const credential = header.trim().replace(/^\S+\s+/, "");
  const basic = /^basic\s/i.test(header.trim()) ? Buffer.from(credential, "base64").toString("utf8") : "";
  const at = basic.indexOf(":");
  const [user, password] = at < 0 ? [basic, ""] : [basic.slice(0, at), basic.slice(at + 1)];
  // Without a password the user is the token, as some services have it.
  return [header, credential, basic, password === "" ? user : password];
}

/** The same of an address: user and password together, the password, and the query string, which may hold a token. */
export function secretsOfAddress(url: URL): readonly string[] {
  const [user, password] = [decoded(url.username), decoded(url.password)];
  if (user === "" && password === "") return [url.search.slice(1)];
  const raw = url.password === "" ? url.username : url.password;
  const basic = Buffer.from(`${user}:${password}`, "utf8").toString("base64");
  return [...secretsOfHeader(`Basic ${basic}`), raw, url.search.slice(1)];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * Takes secrets out of a text, in each form in which a server, a proxy or a library echoes them: as they are, percent-encoded,
 * within JSON or HTML, and in base64.
 */
export function hiderOf(secrets: readonly string[]): (text: string) => string {
  // The longest first, so that no part of one is left over where a shorter one is its beginning.
  const longestFirst = secrets.filter((secret) => secret !== "").toSorted((a, b) => b.length - a.length);
  const patterns = new Set(longestFirst.flatMap(textsOf).map(patternOf));
  if (patterns.size === 0) return (text) => text;
  const pattern = new RegExp([...patterns].join("|"), "gu");
  return (text) => text.replace(pattern, "***");
}

/** The secret, the same within a text of JSON or Go, and its base64 without the padding, which may be there or not. */
function textsOf(secret: string): readonly string[] {
  const bytes = Buffer.from(secret, "utf8");
  const inBase64 = [bytes.toString("base64").replace(/={1,2}$/, ""), bytes.toString("base64url")];
  return [secret, JSON.stringify(secret).slice(1, -1), ...inBase64];
}

const ENTITIES: ReadonlyMap<string, string> = new Map([
  ["&", "&amp;"],
  ["<", "&lt;"],
  [">", "&gt;"],
  ['"', "&quot;"],
  ["'", "&apos;"],
]);

/**
 * Finds a text in whichever of its characters are encoded: programs differ in which they encode, and how. Letters and digits never
 * are. All forms of a character but itself begin with % & or \\, so that a search never has many ways to go.
 */
function patternOf(text: string): string {
  return text.replace(/[^A-Za-z0-9]/gu, (character) => `(?:${formsOf(character).join("|")})`);
}

function formsOf(character: string): readonly string[] {
  const percent = [...Buffer.from(character, "utf8")].map((byte) => `%${anyCase(byte.toString(16).padStart(2, "0"))}`);
  const units = character.split("").map((unit) => `\\\\u${anyCase(unit.charCodeAt(0).toString(16).padStart(4, "0"))}`);
  const code = character.codePointAt(0) ?? 0;
  const entity = ENTITIES.get(character);
  return [
    percent.join(""),
    units.join(""),
    `&#0?${code};`,
    `&#x0?${anyCase(code.toString(16))};`,
    ...(entity === undefined ? [] : [entity]),
    ...(character === " " ? ["\\+"] : []),
    /[\\^$.*+?()[\]{}|/]/.test(character) ? `\\${character}` : character,
  ];
}

function anyCase(hex: string): string {
  return hex.replace(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`);
}

/** Whether what is sent to an address can be read on its way: plain http to another machine. */
export function isInTheClear({ protocol, hostname }: URL): boolean {
  return protocol === "http:" && !/^(?:(?:.*\.)?localhost|127\.\d+\.\d+\.\d+|\[::1\])\.?$/.test(hostname);
}

/** Of a long list of faults the first ones say enough; of a text of a stranger's there may be a million. */
const MOST = 10;
const LONGEST = 1000;

/** What is wrong with a value's shape, on one line. */
export function shapeText({ issues }: z.ZodError): string {
  const text = z.prettifyError({ issues: issues.slice(0, MOST) });
  const more = issues.length > MOST ? ` and ${issues.length - MOST} more` : "";
  return text.slice(0, LONGEST).replaceAll(/\s+/g, " ") + more;
}

/** A text without this character at its end, however often. A pattern such as `x+$` needs a time that grows with the text's square. */
export const withoutEnd = (text: string, character: string): string => {
  let end = text.length;
  while (end > 0 && text[end - 1] === character) end -= 1;
  return text.slice(0, end);
};
