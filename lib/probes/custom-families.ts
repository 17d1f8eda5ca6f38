const TYPES = ["counter", "gauge", "histogram", "summary", "untyped", "unknown"] as const;
export type FamilyType = (typeof TYPES)[number];

/** What comments say about the metrics of one name. */
export type Family = {
  readonly type: FamilyType;
  readonly help: string | undefined;
  /** declared with two types, or with one that there is not */
  readonly conflict: boolean;
};

const typeOf = (text: string): FamilyType | undefined => TYPES.find((type) => type === text);

/** No two parts of it can take the same blank, so that a line is read in one go. */
const COMMENT = /^#[ \t]{1,64}(TYPE|HELP)[ \t]{1,64}([a-zA-Z_:][a-zA-Z0-9_:]*)(?:[ \t]+([^ \t].*)?)?$/s;

/** More of a comment is not looked at. */
const LONGEST_COMMENT = 4096;

const unescape = (text: string): string =>
  text.replaceAll(/\\(n|\\)/g, (_, escaped: string) => (escaped === "n" ? " " : "\\"));

/** Reads `# TYPE name type` and `# HELP name text`; other comments say nothing. */
export const readComments = (lines: readonly string[]): ReadonlyMap<string, Family> => {
  const families = new Map<string, Family>();
  const declared = new Set<string>();
  for (const line of lines) {
    const [, keyword, name, text = ""] = COMMENT.exec(line.slice(0, LONGEST_COMMENT)) ?? [];
    if (name === undefined) continue;
    const family = families.get(name) ?? { type: "untyped", help: undefined, conflict: false };
    if (keyword === "HELP") {
      families.set(name, { ...family, help: family.help ?? unescape(text) });
      continue;
    }
    const type = typeOf(text.trim());
    const conflict = family.conflict || type === undefined || (declared.has(name) && family.type !== type);
    declared.add(name);
    families.set(name, { ...family, type: type ?? family.type, conflict });
  }
  return families;
};
