import * as fc from "fast-check";
import { expect, test } from "vitest";
import { checkedKey, readSegment, safeSegment } from "../../../../lib/accounting/store/store.ts";

test("any text becomes a segment that every store can hold, and is read back", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.string({ unit: "grapheme" })), (text) => {
      const segment = safeSegment(text);
      expect(checkedKey(`a/${segment}/b`)).toBe(`a/${segment}/b`);
      expect(readSegment(segment)).toBe(text);
    }),
  );
});

test.each(["a b", "=zz", "=2f", ".a", "=41", "é", ""])("%j was not made by safeSegment", (segment) => {
  expect(readSegment(segment)).toBeUndefined();
});
