import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { BatchSize } from "../../../lib/accounting/model/split.ts";

/** Sizes that have learnt: 16 was refused, 8 is answered. */
function learnt(): BatchSize {
  const sizes = new BatchSize(1);
  sizes.answered(1);
  expect(sizes.refused(16, 1)).toBe(8);
  sizes.answered(8);
  return sizes;
}

/** How many answers it takes until more is asked. */
function answersUntilMore(sizes: BatchSize): number {
  const { most } = sizes;
  for (let answers = 1; ; answers += 1) {
    sizes.answered(most);
    if (sizes.most > most) return answers;
  }
}

describe("what was answered before", () => {
  test("may be refused by chance, in all its parts as well: no less is asked afterwards", () => {
    const sizes = learnt();
    expect(sizes.refused(8, 1)).toBe(4);
    expect(sizes.refused(4, 2)).toBe(2);
    expect(sizes.refused(2, 3)).toBe(1);
    sizes.answered(1);
    expect(sizes.most).toBe(8);
  });

  test("refused again before it was answered, that is believed", () => {
    const sizes = learnt();
    sizes.refused(8, 1);
    sizes.answered(4);
    sizes.refused(8, 1);
    expect(sizes.most).toBe(4);
  });

  test("answered again, the refusal is forgotten", () => {
    const sizes = learnt();
    for (let time = 0; time < 5; time += 1) {
      sizes.refused(8, 1);
      sizes.answered(4);
      sizes.answered(8);
      expect(sizes.most).toBeGreaterThanOrEqual(8);
    }
  });
});

describe("more is tried", () => {
  test("soon after a size is refused for the first time, and less often each time that more was tried in vain", () => {
    const sizes = new BatchSize(1);
    sizes.answered(1);
    sizes.refused(32, 1);
    sizes.answered(16);
    // Smaller than any that was refused before.
    sizes.refused(16, 1);
    sizes.answered(8);
    sizes.refused(16, 1);
    expect(sizes.most).toBe(8);
    const waits: number[] = [];
    for (let time = 0; time < 5; time += 1) {
      waits.push(answersUntilMore(sizes));
      sizes.refused(16, 1);
    }
    expect(waits).toEqual([2, 4, 8, 16, 16]);
  });

  test("as soon as at first once what was refused is answered", () => {
    const sizes = learnt();
    for (let time = 0; time < 3; time += 1) {
      answersUntilMore(sizes);
      sizes.refused(16, 1);
    }
    answersUntilMore(sizes);
    sizes.answered(16);
    sizes.refused(32, 1);
    expect(answersUntilMore(sizes)).toBeLessThanOrEqual(2);
  });
});

test("whole numbers, below 1 powers of 1/2, never less than the smallest, and smaller until then", () => {
  const smallest = fc.constantFrom(1, 1 / 2, 1 / 256);
  fc.assert(
    fc.property(smallest, fc.integer({ min: 1, max: 10_000 }), fc.boolean(), (least, first, known) => {
      const sizes = new BatchSize(least);
      if (known) sizes.answered(least);
      let size = first;
      for (let inARow = 1; size > least; inARow += 1) {
        const next = sizes.refused(size, inARow);
        expect(next).toBeLessThan(size);
        expect(next).toBeGreaterThanOrEqual(least);
        expect(Number.isInteger(next >= 1 ? next : Math.log2(next))).toBe(true);
        expect(sizes.most).toBe(next);
        size = next;
      }
      expect(sizes.refused(least, 9)).toBe(least);
    }),
  );
});
