import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { hasNoValue, parsePercent, parseSize } from "../../../../lib/agent/probes/common/docker.ts";

describe("docker's sizes", () => {
  it.each([
    ["0B", 0],
    ["578B", 578],
    ["1.77MB", 1_770_000],
    // go-units#44: 999,999 B
    ["1e+03kB", 1_000_000],
    ["3PB", 3e15],
    ["18.68MiB", 18.68 * 1024 * 1024],
    ["3.702GiB", 3.702 * 2 ** 30],
    ["1 kB", 1000],
    [" 2KiB ", 2048],
  ])("%s", (text, bytes) => {
    expect(parseSize(text)).toBeCloseTo(bytes, 4);
  });

  it.each([
    "",
    "--",
    "N/A",
    "1",
    "B",
    "-1B",
    "1,5MB",
    "1e999kB",
    "1QB",
    "1.2.3MB",
    "0x10B",
    "constructorB",
    "1 k B",
    "NaNB",
  ])("%j is no size", (text) => {
    expect(parseSize(text)).toBeUndefined();
  });

  it("tells no value from a broken one", () => {
    expect(["--", " N/A ", ""].every(hasNoValue)).toBe(true);
    expect(["0B", "broken", "0"].some(hasNoValue)).toBe(false);
  });

  it("reads percentages, above 100 too", () => {
    expect([parsePercent("204.20%"), parsePercent("0.00%"), parsePercent("5"), parsePercent("--")]).toEqual([
      2.042,
      0,
      undefined,
      undefined,
    ]);
  });

  it("reads back what is printed with three digits, to within their rounding", () => {
    fc.assert(
      fc.property(
        fc.double({ min: 1, max: 999, noNaN: true }),
        fc.constantFrom("B", "kB", "MB", "GB"),
        (value, unit) => {
          const factor = { B: 1, kB: 1e3, MB: 1e6, GB: 1e9 }[unit];
          expect(parseSize(`${value.toPrecision(3)}${unit}`)! / factor / value).toBeCloseTo(1, 2);
        },
      ),
    );
  });
});
