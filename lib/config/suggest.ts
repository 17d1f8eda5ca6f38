function bare(text: string): string {
  return text.toUpperCase().replaceAll(/[^A-Z0-9]/g, "");
}

/** Levenshtein's distance: how many letters must be put in, taken out or changed. */
function distance(left: string, right: string): number {
  let row = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (const [i, letter] of left.split("").entries()) {
    const next = [i + 1];
    for (const [j, other] of right.split("").entries()) {
      const replaced = (row[j] ?? 0) + (letter === other ? 0 : 1);
      next.push(Math.min(replaced, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
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
