import { hasNoValue, parseNumber, type UnitName } from "./nvidia-smi-units.ts";

/** Rows and values that were there but broken. One for a whole document, shared by its readers. */
export type Tally = { rejected: number };

type Path = readonly [string, ...string[]];

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const childrenOf = (element: unknown, name: string): readonly unknown[] => {
  if (!isRecord(element) || !Object.hasOwn(element, name)) return [];
  const found = element[name];
  return Array.isArray(found) ? found : [found];
};

const textOf = (element: unknown): string => {
  const text = isRecord(element) ? element["#text"] : element;
  return typeof text === "string" ? text.trim() : "";
};

/**
 * Reads values of one XML element. A path goes from child to child by name, so that a MIG device's memory is never taken for
 * its GPU's. Where an element comes twice, the first one counts.
 */
export class Reader {
  readonly #element: unknown;
  readonly #tally: Tally;

  constructor(element: unknown, tally: Tally) {
    this.#element = element;
    this.#tally = tally;
  }

  /** All children of this name. */
  all(name: string): Reader[] {
    return childrenOf(this.#element, name).map((child) => new Reader(child, this.#tally));
  }

  /** The element at the path; undefined where there is none. */
  at(...path: Path): Reader | undefined {
    let element = this.#element;
    for (const name of path) {
      const [first] = childrenOf(element, name);
      if (first === undefined) return undefined;
      element = first;
    }
    return new Reader(element, this.#tally);
  }

  /** Names of the children, in the order of the document. */
  names(): string[] {
    return isRecord(this.#element) ? Object.keys(this.#element).filter((name) => name !== "#text") : [];
  }

  /** Whether the element has children or attributes, and not only text. */
  isNested(): boolean {
    return isRecord(this.#element);
  }

  /** The text as printed, `N/A` and the like included; undefined where the element is missing. */
  text(...path: Path): string | undefined {
    const found = this.at(...path);
    return found === undefined ? undefined : found.ownText();
  }

  /** The element's own text. */
  ownText(): string {
    return textOf(this.#element);
  }

  /** A text that names something; undefined for `N/A` and the like. */
  name(...path: Path): string | undefined {
    const text = this.text(...path);
    return text === undefined || hasNoValue(text) ? undefined : text;
  }

  /** A number in base units; undefined, and counted unless the tool says that there is none, for anything else. */
  number(unit: UnitName, ...path: Path): number | undefined {
    return this.#value(path, (text) => parseNumber(text, unit));
  }

  /** A whole number of 0 or more, as for indexes and process ids. */
  integer(...path: Path): number | undefined {
    return this.#value(path, (text) => {
      const value = parseNumber(text, "count");
      return Number.isSafeInteger(value) ? value : undefined;
    });
  }

  /** True for `yes`, false for `no`, undefined for anything else. */
  flag(yes: string, no: string, ...path: Path): boolean | undefined {
    return this.#value(path, (text) => (text === yes ? true : text === no ? false : undefined));
  }

  /** Any other closed set of texts. */
  choice<T>(parse: (text: string) => T | undefined, ...path: Path): T | undefined {
    return this.#value(path, parse);
  }

  /** Whether any text in the element, however deep, is this one. */
  says(text: string): boolean {
    const pending: unknown[] = [this.#element];
    for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
      if (typeof next === "string" && next.trim() === text) return true;
      // one by one: a spread of a million elements overflows the stack
      if (Array.isArray(next)) for (const item of next) pending.push(item);
      else if (isRecord(next)) for (const item of Object.values(next)) pending.push(item);
    }
    return false;
  }

  /** Counts this element as broken. */
  reject(): void {
    this.#tally.rejected += 1;
  }

  #value<T>(path: Path, parse: (text: string) => T | undefined): T | undefined {
    const text = this.text(...path);
    if (text === undefined || hasNoValue(text)) return undefined;
    const value = parse(text);
    if (value === undefined) this.reject();
    return value;
  }
}
