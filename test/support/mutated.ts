import * as fc from "fast-check";

const token = fc.oneof(
  fc.constantFrom(
    ...Array.from("<>{}[]:,/%\"' \n\t\0-.=#|()\\"),
    "--",
    "N/A",
    "0",
    "-1",
    "1e400",
    "1e+03kB",
    "99999999999999999999",
    "NaN",
    "null",
    "true",
    "[]",
    "{}",
    "->",
    "=>",
    '"__proto__":{"Id":"x"},',
    '"ID":"",',
    "(ESTABLISHED)",
    "# TYPE a counter\n",
    "a{",
    '\\"',
    "\ud800",
    "\u{1F600}",
    "\u001b[2J",
    "[".repeat(60),
    " ".repeat(60),
    "\\".repeat(60),
    "0".repeat(60),
    "a=".repeat(30),
    "D 1 1 x\n",
  ),
  fc.string({ maxLength: 12, unit: "binary" }),
);

const edit = fc.record({
  kind: fc.constantFrom("insert", "insert", "replace", "delete", "repeat", "cut"),
  // anywhere: else mostly at the start, where an edit costs the whole output
  at: fc.noBias(fc.double({ min: 0, max: 1, noNaN: true })),
  length: fc.integer({ min: 1, max: 60 }),
  text: token,
});

/** Outputs with a few changes. */
export const mutated = (seeds: readonly string[]) =>
  fc.tuple(fc.constantFrom(...seeds), fc.array(edit, { minLength: 1, maxLength: 5 })).map(([seed, edits]) => {
    let text = seed;
    for (const { kind, at, length, text: added } of edits) {
      const place = Math.floor(at * text.length);
      const [before, after] = [text.slice(0, place), text.slice(place)];
      if (kind === "insert") text = before + added + after;
      else if (kind === "replace") text = before + added + after.slice(added.length);
      else if (kind === "delete") text = before + after.slice(length);
      else if (kind === "repeat") text = before + after.slice(0, length).repeat(2) + after.slice(length);
      else if (length > 50) text = before;
    }
    return text;
  });

/** Outputs of nothing in particular. */
export const noise = fc.array(token, { maxLength: 30 }).map((parts) => parts.join(""));
