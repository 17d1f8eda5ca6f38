function bare(text: string): string {
  return text.toUpperCase().replaceAll(/[^A-Z0-9]/g, "");
}

/** How many letters must be put in, taken out, changed, or swapped with the next one. */
function distance(left: string, right: string): number {
  let before: readonly number[] = [];
  let row: readonly number[] = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (const [i, letter] of left.split("").entries()) {
    const next = [i + 1];
    for (const [j, other] of right.split("").entries()) {
      const replaced = (row[j] ?? 0) + (letter === other ? 0 : 1);
      const isSwap = i > 0 && j > 0 && letter === right[j - 1] && left[i - 1] === other;
      const swapped = isSwap ? (before[j - 1] ?? 0) + 1 : replaced;
      next.push(Math.min(replaced, swapped, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    [before, row] = [row, next];
  }
  return row.at(-1) ?? 0;
}

/** `; did you mean X?` when one of the names is close to what was written (case and punctuation apart), else "". */
export function didYouMean(written: string, names: readonly string[]): string {
  const target = bare(written).slice(0, 60);
  const ranked = names
    .map((name) => ({ name, far: distance(target, bare(name)) }))
    .sort((left, right) => left.far - right.far);
  const [best] = ranked;
  return best !== undefined && best.far <= Math.max(1, Math.floor(best.name.length / 3))
    ? `; did you mean ${best.name}?`
    : "";
}

const wordsOf = (name: string): readonly string[] => name.toUpperCase().match(/[A-Z0-9]+/g) ?? [];

/** Slips of the pen that leave a word recognisable. VM is no misspelt VO, and JOB is none either. */
const slips = (word: string): number => (word.length < 4 ? 0 : word.length < 8 ? 1 : 2);

function isMisspelt(written: string, name: string): boolean {
  const [words, known] = [wordsOf(written), wordsOf(name)];
  const whole = known.join("");
  if (distance(words.join(""), whole) <= (whole.length < 8 ? 0 : 1)) return true;
  return (
    words.length === known.length && known.every((word, index) => distance(words[index] ?? "", word) <= slips(word))
  );
}

/**
 * The name that was surely meant, or undefined. Stricter than `didYouMean`, since what is misspelt is refused: each word
 * must be nearly right, or the whole but for where the words part. NODE_NAME is no SITE_NAME, POD_NAMESPACE no NAMESPACE.
 */
export function misspelt(written: string, names: readonly string[]): string | undefined {
  return written.length > 60 ? undefined : names.find((name) => isMisspelt(written, name));
}
