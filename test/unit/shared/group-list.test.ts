import { array, assert, constant, dictionary, integer, jsonValue, oneof, property, record, string } from "fast-check";
import { describe, expect, test } from "vitest";
import { type Group, GroupList, NoList } from "../../../lib/shared/pushgateway-groups.ts";

/** What is found in a text that arrives in pieces of these sizes, the last of them again and again. */
function read(text: string, sizes: readonly number[] = [1 << 16]): readonly Group[] {
  const found: Group[] = [];
  const list = new GroupList((group) => found.push(group));
  for (let at = 0, piece = 0; at < text.length; piece += 1) {
    const size = sizes[Math.min(piece, sizes.length - 1)]!;
    list.write(text.slice(at, at + size));
    at += size;
  }
  list.end();
  return found;
}

const group = (probe: string, more = "") =>
  `{${more}"labels":{"job":"a","probe":"${probe}"},"push_time_seconds":{"metrics":[{"value":"1e9"}]}}`;
const list = (...groups: readonly string[]) => `{"status":"success","data":[${groups.join(",")}]}`;
const probes = (found: readonly Group[]) => found.map(({ grouping }) => grouping["probe"]);

describe("a list of groups", () => {
  test("any groups with any metrics are found, wherever the pieces end, and nothing but them", () => {
    // The gateway takes no label whose name begins so.
    const name = string({ unit: "binary" }).filter((text) => !text.startsWith("__"));
    const labels = dictionary(name, string({ unit: "binary" }), { noNullPrototype: true });
    const metric = oneof(jsonValue(), constant({ labels: { labels: { push_time_seconds: ["}]"] } } }));
    const one = record({ labels, time: integer({ min: 0 }), more: dictionary(string(), metric) });
    const sizes = array(integer({ min: 1, max: 60 }), { minLength: 1 });
    const spaced = integer({ min: 0, max: 2 });
    assert(
      property(array(one, { maxLength: 5 }), sizes, spaced, (groups, pieces, indent) => {
        const data = groups.map(({ more, labels: grouping, time }) => ({
          ...more,
          labels: grouping,
          push_time_seconds: { metrics: [{ value: String(time) }] },
        }));
        const found = read(JSON.stringify({ status: "success", data }, null, indent), pieces);
        expect(found).toEqual(groups.map(({ labels: grouping, time }) => ({ grouping, pushedAt: time })));
      }),
      { numRuns: 500 },
    );
  });

  test("cut off anywhere, it is none", () => {
    const text = list(group("x", '"m":{"help":"}]} \\" \\\\","metrics":[{"labels":{"a":"é"}}]},'), group("y"));
    expect(probes(read(text))).toEqual(["x", "y"]);
    for (let end = 0; end < text.length; end += 1)
      expect(() => read(text.slice(0, end), [7]), String(end)).toThrow(NoList);
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
    ["groups without a comma", list(group("x") + group("y"))],
    ["brackets that do not match", '{"status":"success","data":[}]'],
    ["too much", `${list()}{}`],
    ["a word after it", `${list()} x`],
    ["a comma after it", `${list()},`],
    ["brackets without end", "[".repeat(1e6)],
    ["braces without end", '{"a":'.repeat(1e6)],
  ])("%s is none", (_, text) => {
    expect(() => read(text)).toThrow(NoList);
  });

  test("a group that never ends is refused before it takes much memory", () => {
    const endless = new GroupList(() => undefined);
    endless.write('{"status":"success","data":[{"a":"');
    const write = () => {
      for (let megabytes = 0; megabytes < 20; megabytes += 1) endless.write("x".repeat(2 ** 20));
    };
    expect(write).toThrow("a group is longer than 16777216 characters");
  });

  test("a metric that has the name of a group's key hides it, unless the time has it too", () => {
    const odd = (labels: string) =>
      `{"labels":{"metrics":[{"value":"1"}]},"push_time_seconds":{"metrics":[{"value":"5","labels":${labels}}]}}`;
    const found = read(list(odd('{"job":"a","instance":"1"}'), odd('{"job":"a","instance":""}'), group("x")));
    expect(found).toEqual([
      { grouping: { job: "a", instance: "1" }, pushedAt: 5 },
      { grouping: { job: "a", probe: "x" }, pushedAt: 1e9 },
    ]);
  });
});
