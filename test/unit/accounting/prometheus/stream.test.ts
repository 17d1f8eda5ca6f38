import { Readable } from "node:stream";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Sample } from "../../../../lib/accounting/prometheus/response.ts";
import { NotJson, streamVector } from "../../../../lib/accounting/prometheus/stream.ts";

type Row = { readonly metric: Record<string, string>; readonly value: [number, string] };
type Body = { readonly rows: readonly Row[]; readonly more?: object; readonly first?: object };

/** As Prometheus writes it. */
const bodyOf = ({ rows, more, first }: Body): string =>
  JSON.stringify({ ...first, status: "success", data: { resultType: "vector", result: rows }, ...more });

/** The samples that come out of a body that arrives in chunks of so many bytes. */
async function read(text: string, chunk = 1 << 16): Promise<readonly Sample[]> {
  const bytes = Buffer.from(text);
  const chunks = Array.from({ length: Math.ceil(bytes.length / chunk) }, (_, index) =>
    bytes.subarray(index * chunk, (index + 1) * chunk),
  );
  const samples: Sample[] = [];
  await streamVector(Readable.from(chunks, { objectMode: false }), "Prometheus", (sample) => samples.push(sample));
  return samples;
}

const samplesOf = (rows: readonly Row[]): Sample[] =>
  rows.map(({ metric, value }) => ({ labels: metric, value: Number(value[1]) }));

/** Enough rows for several batches, each with a text that looks like the end of a row and the beginning of the next. */
function many(count: number, text = `"},"value":[1,"2"]},{"metric":{"uid":"x`): Row[] {
  return Array.from({ length: count }, (_, index): Row => ({
    metric: { uid: `${index}-${"a".repeat(60)}`, text },
    value: [1_741_564_800.123, `${index}`],
  }));
}

describe("an answer that arrives in pieces", () => {
  test("has the same rows as one that is read whole, whatever its labels and wherever it is cut", async () => {
    const rows = many(12_000);
    const text = bodyOf({ rows });
    expect(text.length).toBeGreaterThan(1_500_000);
    for (const chunk of [1000, 65_536, text.length]) expect(await read(text, chunk)).toEqual(samplesOf(rows));
  });

  test("and with any texts", async () => {
    const text = fc.oneof(
      fc.string({ unit: "binary", maxLength: 40 }),
      fc.constantFrom(
        `,{"metric":`,
        `{"metric":{`,
        `]},"warnings":["x"]`,
        String.raw`\"},{\"metric\":`,
        `"result":[`,
        "☃é",
      ),
    );
    const row = fc.record({
      metric: fc.dictionary(text, text, { maxKeys: 3 }),
      value: fc.tuple(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer().map(String)),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(row, { maxLength: 20 }),
        fc.integer({ min: 1, max: 70_000 }),
        fc.boolean(),
        async (drawn, chunk, long) => {
          const rows: Row[] = JSON.parse(JSON.stringify(long ? [...many(3000), ...drawn, ...many(2000)] : drawn));
          expect(await read(bodyOf({ rows }), long ? chunk + 500 : chunk)).toEqual(samplesOf(rows));
        },
      ),
      { numRuns: 60 },
    );
  });

  test("may be written with spaces, which is read as a whole", async () => {
    const rows = many(5000);
    const text = JSON.stringify(JSON.parse(bodyOf({ rows })), undefined, 1);
    expect(await read(text)).toEqual(samplesOf(rows));
  });

  test("without rows it is none", async () => {
    expect(await read(bodyOf({ rows: [] }))).toEqual([]);
  });
});

describe("what is wrong with an answer is found, wherever it stands", () => {
  const rows = many(6000);
  const refusal = async (text: string): Promise<unknown> =>
    read(text).then(
      () => "taken",
      (error: unknown) => error,
    );

  test("cut anywhere it is no JSON", async () => {
    const text = bodyOf({ rows });
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: text.length - 1 }), async (length) => {
        expect(await refusal(text.slice(0, length))).toBeInstanceOf(NotJson);
      }),
      { numRuns: 60 },
    );
    // Between two rows, too.
    for (
      let at = text.indexOf(`,{"metric":`);
      at > 0 && at < text.length;
      at = text.indexOf(`,{"metric":`, at + 200_000)
    )
      expect(await refusal(text.slice(0, at))).toBeInstanceOf(NotJson);
  });

  test.each<[string, Body, string]>([
    ["a warning behind the rows", { rows, more: { warnings: ["store 7 is down"] } }, "prometheus_incomplete"],
    ["a warning before them", { rows, first: { warnings: ["store 7 is down"] } }, "prometheus_incomplete"],
    ["a partial answer", { rows, more: { isPartial: true } }, "prometheus_incomplete"],
    ["another status", { rows, more: { status: "error" } }, "prometheus_bad_answer"],
    ["a matrix", { rows, more: { data: { resultType: "matrix", result: rows } } }, "prometheus_bad_answer"],
  ])("%s", async (_name, body, code) => {
    expect(await refusal(bodyOf(body))).toMatchObject({ code });
  });

  test.each([
    ["a value that is no number", `"value":[1741564800.123,"3000"]`, `"value":[1741564800.123,"3,000"]`],
    ["a number where a text should be", `"value":[1741564800.123,"3000"]`, `"value":[1741564800.123,3000]`],
    ["a row without a value", `"value":[1741564800.123,"3000"]`, `"values":[]`],
    ["a label that is no text", `"uid":"3000-`, `"x":7,"uid":"3000-`],
  ])("%s, in the middle", async (_name, from, to) => {
    const text = bodyOf({ rows });
    expect(text).toContain(from);
    expect(await refusal(text.replace(from, to))).toMatchObject({ code: "prometheus_bad_answer" });
  });

  test("rubbish between two rows is no JSON", async () => {
    const text = bodyOf({ rows }).replace(`"3000"]},`, `"3000"]},x,`);
    expect(await refusal(text)).toBeInstanceOf(NotJson);
  });
});
