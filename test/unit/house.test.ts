// The order of the rooms (docs/architecture.md): data flows one way, and who looks for something finds it by its name.
import { readFileSync, readdirSync } from "node:fs";
import { basename, dirname, join, normalize } from "node:path";
import { describe, expect, test } from "vitest";

/** The rooms of each half and what is below them, lowest first: a room imports itself and what stands before it, nothing else. */
const ORDER: readonly (readonly [place: string, below: readonly string[]])[] = [
  ["lib/shared", []],
  ["lib/accounting/model", ["lib/shared"]],
  ["lib/accounting/apel", ["lib/shared", "lib/accounting/model"]],
  ["lib/accounting/store", ["lib/shared", "lib/accounting/model"]],
  ["lib/accounting/delivery", ["lib/shared", "lib/accounting/model", "lib/accounting/apel", "lib/accounting/store"]],
  [
    "lib/accounting/sending",
    ["lib/shared", "lib/accounting/model", "lib/accounting/apel", "lib/accounting/store", "lib/accounting/delivery"],
  ],
  ["lib/accounting/counting", ["lib/shared", "lib/accounting/model", "lib/accounting/store"]],
  [
    "lib/accounting/publishing",
    [
      "lib/shared",
      "lib/accounting/model",
      "lib/accounting/apel",
      "lib/accounting/store",
      "lib/accounting/delivery",
      "lib/accounting/counting",
    ],
  ],
  [
    "lib/accounting/report",
    [
      "lib/shared",
      "lib/accounting/model",
      "lib/accounting/store",
      "lib/accounting/counting",
      "lib/accounting/publishing",
    ],
  ],
  ["lib/accounting/prometheus", ["lib/shared", "lib/accounting/model"]],
  [
    "lib/accounting/settings",
    ["lib/shared", "lib/accounting/model", "lib/accounting/apel", "lib/accounting/prometheus"],
  ],
  ["lib/accounting", ["lib/shared"]],
  ["lib/agent/command", ["lib/shared"]],
  ["lib/agent/probes", ["lib/shared", "lib/agent/command"]],
  ["lib/agent/metrics", ["lib/shared", "lib/agent/command", "lib/agent/probes"]],
  ["lib/agent/openpai", ["lib/shared", "lib/agent/probes", "lib/agent/metrics"]],
  ["lib/agent/demo", ["lib/shared", "lib/agent/probes"]],
  ["lib/agent", ["lib/shared"]],
  ["functions", ["lib/shared", "lib/accounting"]],
  ["bin", ["lib/shared", "lib/accounting", "lib/agent"]],
];

/** Pure: what is given to them is all that they know. Of the stores they know the interface, of the queue the outgoing objects. */
const PURE = ["lib/accounting/apel", "lib/accounting/counting", "lib/accounting/publishing", "lib/accounting/report"];
const OPEN_TO_PURE = [
  "lib/accounting/store/store.ts",
  "lib/accounting/store/json.ts",
  "lib/accounting/delivery/outgoing.ts",
];

const LONGEST_FILE = 400;

const files = ["lib", "functions", "bin"].flatMap((folder) =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => join(folder, name)),
);
/** By file, the files of this project that it imports, types too. */
const imports = new Map(
  files.map((file) => {
    const found = readFileSync(file, "utf8").matchAll(/(?:\bfrom |\bimport[ (])"(\.[^"]+)"/g);
    return [file, [...found].map(([, path = ""]) => normalize(join(dirname(file), path)))];
  }),
);

const isIn = (file: string, place: string): boolean => file.startsWith(`${place}/`);
/** The innermost place of `ORDER` that a file lies in. */
const placeOf = (file: string): string =>
  ORDER.map(([place]) => place)
    .filter((place) => isIn(file, place))
    .reduce((longest, place) => (place.length > longest.length ? place : longest), "");

describe("the rooms", () => {
  test("each file lies in one", () => {
    expect(files.length).toBeGreaterThan(100);
    expect(files.filter((file) => placeOf(file) === "")).toEqual([]);
  });

  test.each(ORDER)("%s imports nothing but what is below it", (place, below) => {
    const own = files.filter((file) => placeOf(file) === place);
    const upwards = own.flatMap((file) =>
      (imports.get(file) ?? [])
        .filter((path) => !isIn(path, place) && !below.some((other) => isIn(path, other)))
        .map((path) => `${file} -> ${path}`),
    );
    expect(upwards).toEqual([]);
  });

  test.each(PURE)(
    "%s knows no implementation of a store or queue, and neither clock nor environment nor socket",
    (place) => {
      const own = files.filter((file) => isIn(file, place));
      const known = own.flatMap((file) =>
        (imports.get(file) ?? [])
          .filter((path) => /accounting\/(?:store|delivery)\//.test(path) && !OPEN_TO_PURE.includes(path))
          .map((path) => `${file} -> ${path}`),
      );
      expect(known).toEqual([]);
      const worldly =
        /\bDate\.now\(|new Date\(\)|\bprocess\.|DateTime\.(?:now|utc)\(\)|from "(?:node:(?:fs|http|net|https)|axios)/;
      expect(own.filter((file) => worldly.test(readFileSync(file, "utf8")))).toEqual([]);
    },
  );
});

test("no file imports itself by way of others", () => {
  const done = new Set<string>();
  const circles: string[] = [];
  const visit = (file: string, path: readonly string[]): void => {
    const at = path.indexOf(file);
    if (at >= 0) circles.push([...path.slice(at), file].join(" -> "));
    if (at >= 0 || done.has(file)) return;
    for (const next of imports.get(file) ?? []) visit(next, [...path, file]);
    done.add(file);
  };
  for (const file of files) visit(file, []);
  expect(circles).toEqual([]);
});

test(`no file has more than ${LONGEST_FILE} lines`, () => {
  const long = files.map((file) => [file, readFileSync(file, "utf8").split("\n").length - 1] as const);
  expect(long.filter(([, lines]) => lines > LONGEST_FILE)).toEqual([]);
});

test("no file repeats its folder's name", () => {
  expect(files.filter((file) => basename(file).startsWith(`${basename(dirname(file))}-`))).toEqual([]);
});
