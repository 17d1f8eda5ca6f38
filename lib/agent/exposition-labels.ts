import { encodeLabels, escapeValue } from "./exposition.ts";
import type { Labels, Metric } from "./types.ts";

const LABEL = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/;

/** `shape`: the names, equal for equal names in the same order. `text`: undefined if a name is no label name. */
type Known = { readonly shape: string; readonly text: string | undefined };

/** Labels as text. Many metrics of a container or GPU share one object of labels, and most objects have the same names. */
export class LabelTexts {
  readonly #known = new Map<Labels, Known>();
  readonly #valid = new Map<string, boolean>();

  /**
   * The labels of each sample as they are written, in the samples' order; undefined where the sample is left out: its value is no
   * finite number, a name is no label name, or an earlier sample is the same series.
   */
  distinct(samples: Metric["samples"]): readonly (string | undefined)[] {
    const known = samples.map(({ labels }) => this.#of(labels));
    // With the same names in the same order, series are equal if their texts are.
    const alike = known.every(({ shape }) => shape === known[0]?.shape);
    const seen = new Set<string>();
    return samples.map(({ labels, value }, index) => {
      const text = known[index]?.text;
      if (text === undefined || !Number.isFinite(value)) return undefined;
      const key = alike ? text : seriesKey(labels);
      if (seen.has(key)) return undefined;
      seen.add(key);
      return text;
    });
  }

  #of(labels: Labels): Known {
    const before = this.#known.get(labels);
    if (before !== undefined) return before;
    const names = namesOf(labels);
    // With their number, since a name that is none may hold a comma.
    const shape = `${names.length}:${names.join(",")}`;
    const known = { shape, text: this.#areValid(names, shape) ? encodeLabels(labels) : undefined };
    this.#known.set(labels, known);
    return known;
  }

  #areValid(names: readonly string[], shape: string): boolean {
    const before = this.#valid.get(shape);
    if (before !== undefined) return before;
    const valid = names.every((name) => LABEL.test(name));
    this.#valid.set(shape, valid);
    return valid;
  }
}

/** The label `probe` is the publisher's. */
const namesOf = (labels: Labels): readonly string[] => Object.keys(labels).filter((name) => name !== "probe");

/** Equal for equal series in whatever order their labels are; an empty label is none. */
function seriesKey(labels: Labels): string {
  return namesOf(labels)
    .filter((name) => labels[name] !== "")
    .toSorted()
    .map((name) => `${name}="${escapeValue(labels[name] ?? "")}"`)
    .join(",");
}
