import * as fc from "fast-check";
import { expect, test } from "vitest";
import { jsonPieces } from "../../../bin/show/json.ts";

const textOf = (value: unknown): string => [...jsonPieces(value)].join("");

test("the pieces are what JSON.stringify gives", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(textOf(value)).toBe(JSON.stringify(value));
    }),
  );
  const odd = { a: undefined, b: [undefined, null], c: {}, d: [], e: Number.NaN, "ü\n": [{ f: undefined }] };
  expect(textOf(odd)).toBe(JSON.stringify(odd));
});

test("what can be gone through is an array, made element by element", () => {
  let made = 0;
  const value = {
    before: 1,
    texts: {
      *[Symbol.iterator]() {
        for (const text of ["one", "two"]) {
          made += 1;
          yield text;
        }
      },
    },
  };
  const pieces = jsonPieces(value);
  let read = "";
  while (!read.includes("one")) read += pieces.next().value ?? "";
  expect(made).toBe(1);
  for (const piece of pieces) read += piece;
  expect(read).toBe('{"before":1,"texts":["one","two"]}');
});
