import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { MOST_SERIES, parseCustom } from "../../../../lib/agent/probes/custom.ts";
import { ParseError } from "../../../../lib/agent/probes/common/parse.ts";
import { exposition } from "../../../support/exposition.ts";
import { fixture, printed } from "../../../support/probe-fixtures.ts";

const { value, rejected } = parseCustom(printed(fixture("custom.prom")));
const metric = (name: string) => value.find((one) => one.name === name);
const read = (text: string) => parseCustom(printed(text));

describe("a custom command's metrics", () => {
  it("keeps labels, help and type", () => {
    expect(metric("lab_rooms")).toEqual({
      name: "lab_rooms",
      type: "gauge",
      help: 'Rooms with a "view" \\ more.',
      samples: [
        { labels: { floor: "1", name: 'a "b" \\ c\nd' }, value: 3 },
        { labels: { floor: "2" }, value: 4 },
      ],
    });
    expect(metric("lab_doors_total")).toMatchObject({ type: "counter", samples: [{ labels: {}, value: 1000 }] });
  });

  it("gives way to the agent's own labels", () => {
    expect(metric("lab_untyped")).toMatchObject({
      type: "gauge",
      samples: [{ labels: { exported_instance: "x", exported_job: "y", exported_probe: "z" }, value: -0.5 }],
    });
    expect(read('a{job="1",exported_job="2"} 1\nb 1')).toMatchObject({ rejected: 1, value: [{ name: "b" }] });
  });

  it("keeps a histogram's and a summary's series under their own names", () => {
    expect(metric("lab_wait_seconds_bucket")).toMatchObject({ type: "counter", samples: { length: 2 } });
    expect(metric("lab_wait_seconds_sum")?.samples).toEqual([{ labels: {}, value: 3.5 }]);
    expect(metric("lab_wait_seconds")).toBeUndefined();
    expect(metric("lab_size")).toMatchObject({ type: "gauge", samples: [{ labels: { quantile: "0.5" }, value: 7 }] });
    expect(metric("lab_size_count")?.type).toBe("counter");
  });

  it("leaves out, and counts, all that a Pushgateway would refuse or mix up", () => {
    expect(value.map(({ name }) => name)).toEqual([
      "lab_rooms",
      "lab_doors_total",
      "lab_untyped",
      "lab_wait_seconds_bucket",
      "lab_wait_seconds_sum",
      "lab_wait_seconds_count",
      "lab_size",
      "lab_size_sum",
      "lab_size_count",
    ]);
    // a second series, a histogram's bare name, NaN, 1 with two types, a time, infinity, 7 names, 2 labels, 2 broken lines
    expect(rejected).toBe(17);
  });

  it.each([
    ["a second series with its labels in another order", 'a{x="1",y="2"} 1\na{y="2",x="1"} 2', 1],
    ["an empty label, which is none", 'a{x=""} 1\na 2', 1],
    ["a bucket outside a histogram is a metric like any other", "# TYPE a gauge\na_bucket 1", 0],
    ["a type that there is not", "# TYPE a stateset\na 1\nb 1", 1],
    ["a repeated type", "# TYPE a gauge\n# TYPE a gauge\na 1", 0],
    ["a type that comes late", "a 1\n# TYPE a counter", 0],
    ["a name that starts with a digit", "1a 1\nb 1", 1],
    ["no space before the value", "a1\nb 1", 1],
    ["an exemplar", 'a 1 # {trace="x"} 1\nb 1', 1],
    ["a number that only JavaScript knows", "a 0x10\nb 1_0\nc 1", 2],
    ["no comma between labels", 'a{x="1" y="2"} 1\nb 1', 1],
    ["a label of half a character", 'a{x="\ud800"} 1\nb 1', 1],
    ["a long label", `a{x="${"v".repeat(2000)}"} 1\nb 1`, 1],
    ["carriage returns", "a 1\r\nb 2\r\n", 0],
    ["nothing", "", 0],
    ["comments alone", "# nothing today\n", 0],
  ])("%s", (_, text, count) => {
    expect(read(text).rejected).toBe(count);
  });

  it.each([
    ["no metrics at all", printed("connection refused\n")],
    ["a failure", printed("a 1\n", 1, "boom")],
    ["too many series", printed(Array.from({ length: MOST_SERIES + 1 }, (_, i) => `a{i="${i}"} 1`).join("\n"))],
  ])("%s are no data", (_, output) => {
    expect(() => parseCustom(output)).toThrow(ParseError);
  });

  it("is what Prometheus's own tool can read", () => {
    // promtool exits with 3 for advice on names, and with 1 for what it cannot parse
    const input = exposition(value.filter(({ name }) => !name.startsWith("lab_wait")));
    let said = "";
    try {
      execFileSync("/usr/bin/promtool", ["check", "metrics"], { input, stdio: "pipe" });
    } catch (error) {
      const failed = error as { status: number; stderr: Buffer };
      said = failed.status === 3 ? "" : failed.stderr.toString();
    }
    expect(said).toBe("");
  });
});
