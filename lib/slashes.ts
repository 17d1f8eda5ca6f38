/** A text without the slashes at its end. A pattern like `/+$` takes the square of their number where another sign follows. */
export function withoutEndSlashes(text: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === "/") end -= 1;
  return text.slice(0, end);
}

/** A text without the slashes at both its ends. */
export function withoutSlashes(text: string): string {
  let start = 0;
  while (text[start] === "/") start += 1;
  return withoutEndSlashes(text.slice(start));
}
