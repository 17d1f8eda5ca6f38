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
    const value = raw.replaceAll(/\$\{([^}:]*)(?::-([^}]*))?\}/g, (_, name: string, fallback: string | undefined) => {
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

/** The lines' names and values in their order, not expanded. */
function takeApart(text: string): {
  readonly bindings: readonly (readonly [string, string])[];
  readonly unread: readonly number[];
} {
  const bindings: (readonly [string, string])[] = [];
  const unread: number[] = [];
  let at = 0;
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
      unread.push(text.slice(0, start).split(/\r\n|\n|\r/).length);
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
  return bare.replace(/\s+#.*/, "").trimEnd();
}
