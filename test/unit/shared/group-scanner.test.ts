import { array, assert, constant, dictionary, integer, jsonValue, oneof, property, record, string } from "fast-check";
import { describe, expect, test } from "vitest";
import { GroupScanner, NoList } from "../../../lib/shared/pushgateway-groups.ts";

type Found = { readonly labels: unknown; readonly push_time_seconds: unknown };

/** What the scanner finds in a text that arrives in pieces of these sizes, the last of them again and again. */
function scan(text: string | Buffer, sizes: readonly number[] = [1 << 16]): Found[] {
  const found: Found[] = [];
  const scanner = new GroupScanner(({ labels, push_time_seconds: time }) => {
    found.push({ labels: JSON.parse(labels ?? "null"), push_time_seconds: JSON.parse(time ?? "null") });
  });
  const bytes = Buffer.from(text);
  for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
    const size = sizes[Math.min(turn, sizes.length - 1)]!;
    // A piece whose memory is used for something else afterwards, as a socket's is.
    const piece = Uint8Array.prototype.slice.call(bytes, at, at + size);
    scanner.write(piece);
    piece.fill(0x7a);
    at += size;
  }
  scanner.end();
  return found;
}

const group = (probe: string, more = "") =>
  `{${more}"labels":{"job":"a","probe":"${probe}"},"push_time_seconds":{"metrics":[{"value":"1e9"}]}}`;
const list = (...groups: readonly string[]) => `{"status":"success","data":[${groups.join(",")}]}`;
const probes = (found: readonly Found[]) => found.map(({ labels }) => (labels as { probe: string }).probe);

describe("a list of groups", () => {
  test("any groups with any metrics are found, wherever the pieces end, and nothing but them", () => {
    const labels = dictionary(string({ unit: "binary" }), string({ unit: "binary" }));
    const time = record({ metrics: array(record({ value: string(), labels })) });
    const metric = oneof(jsonValue(), time, constant({ labels: { labels: { push_time_seconds: ["}]"] } } }));
    const one = record({ labels, push_time_seconds: time, more: dictionary(string(), metric) });
    const sizes = array(integer({ min: 1, max: 60 }), { minLength: 1 });
    const spaced = integer({ min: 0, max: 2 });
    assert(
      property(array(one, { maxLength: 5 }), sizes, spaced, jsonValue(), (groups, pieces, indent, other) => {
        const data = groups.map(({ more, ...own }) => ({ ...more, ...own }));
        const text = JSON.stringify({ other, status: "success", data, after: other }, null, indent);
        expect(scan(text, pieces)).toEqual(
          groups.map(({ labels: l, push_time_seconds: t }) => ({ labels: l, push_time_seconds: t })),
        );
      }),
      { numRuns: 500 },
    );
  });

  test("cut off anywhere, it is none", () => {
    const text = list(group("x", '"m":{"help":"}]} \\" \\\\","metrics":[{"labels":{"a":"é"}}]},'), group("y"));
    expect(probes(scan(text))).toEqual(["x", "y"]);
    const bytes = Buffer.from(text);
    for (let end = 0; end < bytes.length; end += 1)
      expect(() => scan(bytes.subarray(0, end), [7]), String(end)).toThrow(NoList);
  });

  test.each([
    ["no JSON", "<html>"],
    ["nothing", ""],
    ["an array", "[]"],
    ["another object", '{"status":"success"}'],
    ["an error", '{"status":"error","data":[]}'],
    ["no list", '{"status":"success","data":{}}'],
    ["words", '{"status":"success","data":["a"]}'],
    ["numbers", '{"status":"success","data":[1]}'],
    ["lists", '{"status":"success","data":[[]]}'],
    ["two lists", '{"status":"success","data":[],"data":[]}'],
    ["brackets that do not match", '{"status":"success","data":[}]'],
    ["too much", `${list()}{}`],
    ["a word after it", `${list()} x`],
    ["a comma after it", `${list()},`],
    ["brackets without end", "[".repeat(1e6)],
    ["braces without end", '{"a":'.repeat(1e6)],
  ])("%s is none", (_, text) => {
    expect(() => scan(text)).toThrow(NoList);
  });

  test("a metric that has the name of what is looked for, and is huge, is not kept", () => {
    const metrics = `[${Array.from({ length: 10_000 }, (_, n) => `{"labels":{"n":"${n}"},"value":"1"}`).join(",")}]`;
    const text = list(`{"labels":{"metrics":${metrics}},"push_time_seconds":{"metrics":[]}}`, group("x"));
    const found: unknown[] = [];
    const scanner = new GroupScanner((members) => found.push(members));
    for (let at = 0; at < text.length; at += 1000) scanner.write(Buffer.from(text.slice(at, at + 1000)));
    scanner.end();
    expect(found).toEqual([
      { labels: "", push_time_seconds: '{"metrics":[]}' },
      { labels: '{"job":"a","probe":"x"}', push_time_seconds: '{"metrics":[{"value":"1e9"}]}' },
    ]);
  });
});
