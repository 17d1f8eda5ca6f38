import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Sample, labelHandler, sampleHandler } from "../../../../lib/accounting/prometheus/response.ts";

type Taken = readonly (readonly [text: string, value: number])[];
type Outcome = { readonly isJson: boolean; readonly taken: Taken } | { readonly code: unknown };

/** What comes of a text of rows: its rows, that it is no JSON (some rows may be taken then), or an error. */
function outcome(use: (taken: [string, number][]) => boolean): Outcome {
  const taken: [string, number][] = [];
  try {
    const isJson = use(taken);
    return { isJson, taken: isJson ? taken : [] };
  } catch (error) {
    return { code: error instanceof Error && "code" in error ? error.code : error };
  }
}

const byLabel = (rows: string, label = "uid"): Outcome =>
  outcome((taken) => labelHandler("Prometheus", label, (text, value) => taken.push([text, value])).text(rows));
const asJson = (rows: string, label = "uid"): Outcome =>
  outcome((taken) =>
    sampleHandler("Prometheus", ({ labels, value }: Sample) => taken.push([labels[label] ?? "", value])).text(rows),
  );

const row = (uid: string, value: string, time = "1741564800.123"): string =>
  `{"metric":{"uid":${JSON.stringify(uid)}},"value":[${time},"${value}"]}`;
const plain = Array.from({ length: 30 }, (_, index) => row(`0a1b2c3d-${index}`, `${index + 0.25}`)).join(",");

const text = fc.oneof(
  fc.uuid(),
  fc.string({ unit: "binary", maxLength: 8 }),
  fc.constantFrom('"', "\\", "}]", "é", ""),
);
const value = fc.oneof(
  fc.nat().map(String),
  fc.double().map(String),
  fc.constantFrom("NaN", "+Inf", "-Inf", "-1", "1.7e+09", "1e999", "1.2.3", "."),
);
const time = fc.oneof(fc.nat().map(String), fc.constantFrom("0", "1741564800.123", "01", "1.", "1e3", "-1", '"1"'));
const anyRow = fc.oneof(
  { weight: 6, arbitrary: fc.tuple(text, value, time).map((parts) => row(...parts)) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      '{"metric":{},"value":[1,"2"]}',
      '{"metric":{"uid":"a","pod":"b"},"value":[1,"2"]}',
      '{"metric":{"pod":"b"},"value":[1,"2"]}',
      '{"value":[1,"2"],"metric":{"uid":"a"}}',
      '{ "metric":{"uid":"a"},"value":[1,"2"]}',
      '{"metric":{"uid":7},"value":[1,"2"]}',
      '{"metric":{"uid":"a"},"values":[]}',
      "null",
      "",
    ),
  },
);

describe("rows of one label are taken as if they were read as JSON", () => {
  test("where Prometheus wrote them", () => {
    expect(byLabel(plain)).toEqual(asJson(plain));
    expect(byLabel(plain)).toMatchObject({ isJson: true, taken: { length: 30, 3: ["0a1b2c3d-3", 3.25] } });
  });

  test("whatever their texts and values are", () => {
    fc.assert(
      fc.property(fc.array(anyRow, { maxLength: 12 }), (rows) => {
        expect(byLabel(rows.join(","))).toEqual(asJson(rows.join(",")));
      }),
      { numRuns: 2000 },
    );
  });

  test("and with a character changed, left out or put in", () => {
    const character = fc.oneof(
      fc.constantFrom(...`,{}[]":\\ 0.eE+-u`.split(""), "\n", "\u0000", "é"),
      fc.string({ unit: "binary", minLength: 1, maxLength: 1 }),
    );
    fc.assert(
      fc.property(fc.nat(plain.length), fc.nat(1), fc.option(character, { nil: "" }), (at, cut, put) => {
        const changed = plain.slice(0, at) + put + plain.slice(at + cut);
        expect(byLabel(changed)).toEqual(asJson(changed));
      }),
      { numRuns: 3000 },
    );
  });

  test("under another label", () => {
    const rows = row("a", "1").replaceAll("uid", "exported_uid");
    expect(byLabel(`${rows},${rows}`, "exported_uid")).toMatchObject({
      taken: [
        ["a", 1],
        ["a", 1],
      ],
    });
    expect(byLabel(rows)).toMatchObject({ taken: [["", 1]] });
  });
});
