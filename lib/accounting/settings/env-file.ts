/** What an env file says, with its `${NAME}` expanded. */
export type EnvFile = {
  readonly values: ReadonlyMap<string, string>;
  /** names that some `${NAME}` looks up */
  readonly used: ReadonlySet<string>;
  /** which variable holds a `${name}` that is set nowhere and has no default; it was read as empty */
  readonly unset: readonly { readonly variable: string; readonly name: string }[];
  /** lines, from 1, that are no `NAME=value` and were left out */
  readonly unread: readonly number[];
};

type Environment = Readonly<Record<string, string | undefined>>;

const BLANKS = /\s*/y;
const NAME = /(?:export[^\S\r\n]+|(?!export[^\S\r\n]))(?:'([^']+)'|(?!')([^=#\s]+))[^\S\r\n]*/y;
const VALUE = /=([^\S\r\n]*)(?:'((?:\\'|[^'])*)'|"((?:\\"|[^"])*)"|(?!['"]|[^\S\r\n])([^\r\n]*))/y;
const END = /[^\S\r\n]*(?:#[^\r\n]*)?(?:\r\n|\n|\r|$)/y;
const REST = /[^\r\n]*(?:\r\n|\n|\r|$)/y;

const ESCAPES = new Map([
  ["a", "\u0007"],
  ["b", "\b"],
  ["f", "\f"],
  ["n", "\n"],
  ["r", "\r"],
  ["t", "\t"],
  ["v", "\v"],
]);

/**
 * Reads an env file as python-dotenv does, which is KAPEL's reader. A `#` is a comment only after a blank. A later line
 * wins. `${NAME}` and `${NAME:-default}` are expanded in all values, quoted ones too: from the environment, else from the
 * lines above, else the default, else as empty. `$NAME` stays. One thing differs: in `NAME= # text` the value is empty.
 */
export function readEnvFile(text: string, env: Environment): EnvFile {
  const values = new Map<string, string>();
  const used = new Set<string>();
  const unset = new Map<string, readonly string[]>();
  const { bindings, unread } = takeApart(text.replace(/^\uFEFF/, ""));
  for (const [variable, raw] of bindings) {
    const missing: string[] = [];
    const value = expanded(raw, (name, fallback) => {
      used.add(name);
      const found = env[name] ?? values.get(name) ?? fallback;
      if (found === undefined) missing.push(name);
      return found ?? "";
    });
    values.set(variable, value);
    unset.set(variable, missing);
  }
  return {
    values,
    used,
    unset: [...unset].flatMap(([variable, names]) => names.map((name) => ({ variable, name }))),
    unread,
  };
}

/** A text with each `${NAME}` and `${NAME:-default}` in it replaced. */
function expanded(text: string, valueOf: (name: string, fallback: string | undefined) => string): string {
  const parts: string[] = [];
  let done = 0;
  let [colon, brace] = [-1, -1];
  for (let at = text.indexOf("${"); at !== -1; at = text.indexOf("${", at)) {
    const start = at + 2;
    // Looked for again only once they are passed, so that each part of the text is read once.
    if (brace < start) brace = text.indexOf("}", start);
    if (brace === -1) break;
    if (colon < start) colon = indexOrEnd(text, ":", start);
    const hasDefault = colon < brace;
    at = start;
    if (hasDefault && text[colon + 1] !== "-") continue;
    const name = text.slice(start, hasDefault ? colon : brace);
    const value = valueOf(name, hasDefault ? text.slice(colon + 2, brace) : undefined);
    parts.push(text.slice(done, start - 2), value);
    done = brace + 1;
    at = done;
  }
  return parts.join("") + text.slice(done);
}

function indexOrEnd(text: string, sign: string, from: number): number {
  const found = text.indexOf(sign, from);
  return found === -1 ? text.length : found;
}

/** The lines' names and values in their order, not expanded. */
function takeApart(text: string): {
  readonly bindings: readonly (readonly [string, string])[];
  readonly unread: readonly number[];
} {
  const bindings: (readonly [string, string])[] = [];
  const unread: number[] = [];
  let at = 0;
  let [line, counted] = [1, 0];
  const lineAt = (place: number): number => {
    line += text.slice(counted, place).match(/\r\n|\n|\r/g)?.length ?? 0;
    counted = place;
    return line;
  };
  const take = (pattern: RegExp): RegExpExecArray | undefined => {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match === null) return undefined;
    at = pattern.lastIndex;
    return match;
  };
  while (take(BLANKS) !== undefined && at < text.length) {
    const start = at;
    if (take(END) !== undefined) continue;
    const name = take(NAME);
    const value = name === undefined ? undefined : take(VALUE);
    if (name !== undefined && value !== undefined && take(END) !== undefined) {
      bindings.push([name[1] ?? name[2] ?? "", valueOf(value)]);
    } else {
      unread.push(lineAt(start));
      take(REST);
    }
  }
  return { bindings, unread };
}

function valueOf([, blanks = "", single, double, bare = ""]: RegExpExecArray): string {
  if (single !== undefined) return single.replaceAll(/\\([\\'])/g, "$1");
  if (double !== undefined)
    return double.replaceAll(/\\([\\'"abfnrtv])/g, (_, letter: string) => ESCAPES.get(letter) ?? letter);
  if (blanks !== "" && bare.startsWith("#")) return "";
  return withoutComment(bare).trimEnd();
}

/** A comment begins with a `#` after a blank. */
function withoutComment(text: string): string {
  for (let at = text.indexOf("#", 1); at !== -1; at = text.indexOf("#", at + 1))
    if (/\s/.test(text.charAt(at - 1))) return text.slice(0, at);
  return text;
}
