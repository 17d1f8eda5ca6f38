/** A list in parts of `size` elements, the last one with what is left. */
export function chunks<T>(list: readonly T[], size: number): readonly (readonly T[])[] {
  return Array.from({ length: Math.ceil(list.length / size) }, (_, index) =>
    list.slice(index * size, (index + 1) * size),
  );
}

/*
 * For lists whose length somebody else decides. As arguments of a function (`push(...many)`, `Math.max(...many)`) a hundred
 * thousand of them overflow the stack.
 */

/** Adds all of them to the list. */
export function append<T>(list: T[], others: Iterable<T>): void {
  for (const other of others) list.push(other);
}

/** The least number; Infinity of none. */
export function least(numbers: Iterable<number>): number {
  let found = Infinity;
  for (const number of numbers) found = Math.min(found, number);
  return found;
}

/** The greatest number; -Infinity of none. */
export function greatest(numbers: Iterable<number>): number {
  let found = -Infinity;
  for (const number of numbers) found = Math.max(found, number);
  return found;
}
