import * as fc from "fast-check";
import { expect, test } from "vitest";
import { Column, Parts, Uids } from "../../../lib/accounting/counting/columns.ts";

const valuesOf = (column: Column): Map<number, number> =>
  new Map(
    Array.from({ length: column.end }, (_, place) => [place, column.get(place)] as const).flatMap(([place, value]) =>
      value === undefined ? [] : [[place, value]],
    ),
  );

test("parts of pods add up as in a table of names, in whatever order and however often they come", () => {
  // Names as cAdvisor's: long, and alike but for a few characters.
  const name = fc
    .tuple(fc.nat(3), fc.constantFrom("", "a", "b", "ab", "ba", "é"))
    .map(([number, tail]) => `/kubepods.slice/kubepods-pod1_2_3.slice/cri-containerd-${number}${tail}.scope`);
  const row = fc.record({
    pod: fc.oneof(fc.nat(5), fc.nat(3000)),
    part: fc.oneof(name, fc.constant("")),
    value: fc.oneof({ weight: 9, arbitrary: fc.float({ noNaN: true }) }, { weight: 1, arbitrary: fc.constant(NaN) }),
  });
  fc.assert(
    fc.property(fc.array(row, { maxLength: 60 }), fc.infiniteStream(fc.nat()), (rows, order) => {
      const table = new Map<number, Map<string, number>>();
      for (const { pod, part, value } of rows) {
        const parts = table.get(pod) ?? new Map<string, number>();
        table.set(pod, parts.set(part, Math.max(parts.get(part) ?? -Infinity, value)));
      }
      const expected = [...table].map(([pod, parts]): [number, number] => [
        pod,
        [...parts.values()].sort((a, b) => a - b).reduce((sum, value) => sum + value, 0),
      ]);
      const shuffled = rows.map((each) => ({ each, at: order.next().value })).sort((a, b) => a.at - b.at);
      for (const taken of [rows, [...rows, ...rows], shuffled.map(({ each }) => each)]) {
        const parts = new Parts();
        for (const { pod, part, value } of taken) parts.raise(pod, part, value);
        expect(valuesOf(parts.sums())).toEqual(new Map(expected));
      }
    }),
    { numRuns: 300 },
  );
});

test("a hundred thousand names of containers are told apart", () => {
  const parts = new Parts();
  for (let at = 0; at < 2000; at += 1)
    for (let name = 0; name < 50; name += 1) parts.raise(at, `${"x".repeat(name % 7)}${at * 50 + name}`, 1);
  expect([...valuesOf(parts.sums()).values()]).toEqual(Array.from({ length: 2000 }, () => 50));
});

test("a column holds what it is given, and knows how many there are", () => {
  const column = new Column();
  column.set(5000, 2);
  column.raise(5000, 1);
  column.raise(7, -3);
  expect([column.size, column.get(5000), column.get(7), column.get(6), column.get(99_999)]).toEqual([
    2,
    2,
    -3,
    undefined,
    undefined,
  ]);
  column.raise(7, NaN);
  column.raise(7, 5);
  expect(column.get(7)).toBeNaN();
});

test("a uid that is no UTF-8, as JSON can write it, stays one of its own and moves no other", () => {
  const uids = new Uids();
  const asked = ["a\ud800", "x", "a\ud800", "b", "a\udc00", "c", "a\ud800"];
  expect(asked.map((uid) => uids.place(uid))).toEqual([0, 1, 0, 2, 3, 4, 0]);
  expect(new Map(uids)).toEqual(new Map(["a\ud800", "x", "b", "a\udc00", "c"].map((uid, place) => [uid, place])));
});

test("a likely place is only a hint", () => {
  const place = fc.record({ uid: fc.constantFrom("a", "b", "c", "d", "e"), likely: fc.integer({ min: -2, max: 7 }) });
  fc.assert(
    fc.property(fc.array(place), (asked) => {
      const [hinted, plain] = [new Uids(), new Uids()];
      for (const { uid, likely } of asked) expect(hinted.place(uid, likely)).toBe(plain.place(uid));
    }),
  );
});
