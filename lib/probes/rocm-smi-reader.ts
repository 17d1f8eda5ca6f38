import type { Section } from "./rocm-smi-json.ts";

const hasNoValue = (text: string): boolean => text === "" || /^(?:n\/a|none|unsupported|not supported)/i.test(text);

/** Reads the values of one card, and counts what it knows and what was broken. Keys are in lower case. */
export class CardReader {
  readonly #section: Section;
  #known = 0;
  #rejected = 0;

  constructor(section: Section) {
    this.#section = section;
  }

  /** Keys that were asked for and are there. */
  get known(): number {
    return this.#known;
  }

  /** Values that are there but no values: neither readable nor `N/A`. */
  get rejected(): number {
    return this.#rejected;
  }

  keys(): string[] {
    return [...this.#section.keys()];
  }

  /** Key and text as printed, `N/A` and the like included. */
  printed(key: string): { readonly key: string; readonly text: string } | undefined {
    return this.#section.get(key);
  }

  /** A text that names something; undefined for `N/A` and the like. */
  name(key: string): string | undefined {
    const text = this.printed(key)?.text ?? "";
    return hasNoValue(text) ? undefined : text;
  }

  /** The groups that the pattern finds in a value; none where the value is missing, `N/A` or broken. */
  match(pattern: RegExp, key: string): readonly string[] {
    const text = this.printed(key)?.text;
    if (text === undefined) return [];
    this.#known += 1;
    if (hasNoValue(text)) return [];
    const match = pattern.exec(text);
    if (match === null) this.#rejected += 1;
    return match?.slice(1) ?? [];
  }

  /** The first of the keys that holds a number of 0 or more. */
  number(...keys: readonly string[]): number | undefined {
    for (const key of keys) {
      const [digits] = this.match(/^(\d{1,15}(?:\.\d{1,9})?)$/, key);
      if (digits !== undefined) return Number(digits);
    }
    return undefined;
  }

  /** Percents as a ratio, 0 and up. */
  ratio(...keys: readonly string[]): number | undefined {
    const percent = this.number(...keys);
    return percent === undefined ? undefined : percent / 100;
  }

  /** Percents as a ratio from 0 to 1; more than all of the time is broken. */
  share(...keys: readonly string[]): number | undefined {
    const ratio = this.ratio(...keys);
    if (ratio === undefined || ratio <= 1) return ratio;
    this.#rejected += 1;
    return undefined;
  }
}
