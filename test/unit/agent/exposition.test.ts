import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Known, type Laid, type Metric, agree, encode, render } from "../../../lib/shared/exposition.ts";
import { knownMetric, knownWithOpenPai } from "../../../lib/agent/agent.ts";
import { parseCustom } from "../../../lib/agent/probes/custom.ts";
import { gauge } from "../../support/agent-parts.ts";
import { printed } from "../../support/probe-fixtures.ts";

const nothing = (): Known | undefined => undefined;
const shown = (data: readonly (readonly [string, readonly Metric[]])[], catalogue = nothing): string =>
  render([...agree(data, catalogue).blocks.values()].flat());

describe("the text", () => {
  test("has the probe on every series, escapes, and each kind of number", () => {
    const labels = { path: 'C:\\dir "x"\nend', empty: "", probe: "of somebody else", unicode: "Kölner ☃ 🖥" };
    const metric: Metric = {
      name: "a",
      help: "one \\ two\nthree",
      type: "gauge",
      samples: [{ labels, value: 1.5e21 }],
    };
    expect(render([encode('p"', metric), encode("q", { ...gauge("b", -0.25), type: "counter" })])).toBe(
      [
        "# HELP a one \\\\ two\\nthree",
        "# TYPE a gauge",
        'a{probe="p\\"",path="C:\\\\dir \\"x\\"\\nend",empty="",unicode="Kölner ☃ 🖥"} 1.5e+21',
        "# HELP b The b.",
        "# TYPE b counter",
        'b{probe="q"} -0.25',
        "",
      ].join("\n"),
    );
  });

  test("has the parts of a histogram under one header", () => {
    const samples = [
      { labels: { command: "ps", le: "1" }, value: 2, suffix: "_bucket" as const },
      { labels: { command: "ps", le: "+Inf" }, value: 3, suffix: "_bucket" as const },
      { labels: { command: "ps" }, value: 61.5, suffix: "_sum" as const },
      { labels: { command: "ps" }, value: 3, suffix: "_count" as const },
    ];
    expect(render([encode("ps", { name: "d", help: "h", type: "histogram", samples })])).toBe(
      [
        "# HELP d h",
        "# TYPE d histogram",
        'd_bucket{probe="ps",command="ps",le="1"} 2',
        'd_bucket{probe="ps",command="ps",le="+Inf"} 3',
        'd_sum{probe="ps",command="ps"} 61.5',
        'd_count{probe="ps",command="ps"} 3',
        "",
      ].join("\n"),
    );
  });

  test("brings the series of one name of all probes together under one header", () => {
    const text = shown([
      ["one", [gauge("a", 1), gauge("b", 2)]],
      ["two", [gauge("c", 3), gauge("a", 4)]],
    ]);
    expect(text.match(/^# TYPE .*$/gm)).toEqual(["# TYPE a gauge", "# TYPE b gauge", "# TYPE c gauge"]);
    expect(text).toContain('a{probe="one"} 1\na{probe="two"} 4\n');
  });

  test("has nothing of a name without samples", () => {
    expect(shown([["one", [{ ...gauge("a", 1), samples: [] }]]])).toBe("");
  });
});

describe("what is published together", () => {
  test("of equal series the first stays and the others are counted, whatever order their labels are in", () => {
    const metric = (value: number, labels: Record<string, string>): Metric => gauge("a", value, labels);
    const { blocks, dropped } = agree(
      [
        [
          "one",
          [
            metric(1, { x: "1", y: "2" }),
            metric(2, { y: "2", x: "1" }),
            metric(3, { x: "1", y: "2", z: "" }),
            metric(4, { x: "1" }),
            metric(5, { x: "1", probe: "two" }),
            metric(6, { x: "\ud800" }),
            metric(7, { x: "\udfff" }),
          ],
        ],
        ["two", [metric(8, { x: "1" })]],
      ],
      nothing,
    );
    expect(render(blocks.get("one") ?? []).match(/ \d$/gm)).toEqual([" 1", " 4", " 6"]);
    expect(render(blocks.get("two") ?? []).match(/ \d$/gm)).toEqual([" 8"]);
    expect([...dropped]).toEqual([["one", 4]]);
  });

  test("values that are no finite number and names that are none are left out and counted", () => {
    const { blocks, dropped } = agree(
      [
        [
          "one",
          [
            gauge("a", NaN),
            gauge("b", Infinity),
            gauge("no name", 1),
            gauge("c", 1, { "no-label": "x" }),
            gauge("d", 1, { __reserved: "x" }),
            gauge("f", 1, { a: "x", b: "y" }),
            gauge("f", 1, { "a,b": "x" }),
            gauge("e", 0),
          ],
        ],
      ],
      nothing,
    );
    expect(render(blocks.get("one") ?? [])).toBe(
      '# HELP f The f.\n# TYPE f gauge\nf{probe="one",a="x",b="y"} 1\n# HELP e The e.\n# TYPE e gauge\ne{probe="one"} 0\n',
    );
    expect(dropped.get("one")).toBe(6);
  });

  test("a name has the type of the probe that has it first; another help text gives way", () => {
    const counter: Metric = { ...gauge("a", 2), type: "counter", help: "Another." };
    const { blocks, dropped } = agree(
      [
        ["one", [gauge("a", 1)]],
        ["two", [counter, gauge("b", 1)]],
        ["three", [{ ...gauge("a", 3), help: "A third." }]],
      ],
      nothing,
    );
    const text = render([...blocks.values()].flat());
    expect(text).toContain('# HELP a The a.\n# TYPE a gauge\na{probe="one"} 1\na{probe="three"} 3\n');
    expect([...dropped]).toEqual([["two", 1]]);
  });

  test("the catalogue's type and help win", () => {
    const wrong: Metric = { ...gauge("gridmeter_gpu_pcie_replays_total", 1), help: "Something else." };
    const { blocks, dropped } = agree([["one", [wrong]]], knownMetric);
    expect(render([...blocks.values()].flat())).toBe(
      "# HELP gridmeter_gpu_pcie_replays_total PCIe packets sent again.\n" +
        '# TYPE gridmeter_gpu_pcie_replays_total counter\ngridmeter_gpu_pcie_replays_total{probe="one"} 1\n',
    );
    expect(dropped.size).toBe(0);
  });

  test("a custom command does not decide the type of OpenPAI's names where they are published too", () => {
    const first: Metric = { ...gauge("gpu_utilization", 1), type: "counter" };
    const typeIn = (catalogue: typeof knownMetric) =>
      /# TYPE gpu_utilization (\w+)/.exec(
        render([...agree([["mine", [first]]], catalogue).blocks.values()].flat()),
      )?.[1];
    expect([typeIn(knownWithOpenPai), typeIn(knownMetric)]).toEqual(["gauge", "counter"]);
  });

  test("a metric that is laid out once takes on the type and help of another first probe", () => {
    const laid: Laid = new WeakMap();
    const metric = gauge("a", 1);
    const typeIn = (known: Known | undefined) => {
      const { blocks } = agree([["one", [metric]]], () => known, laid);
      return render(blocks.get("one") ?? []);
    };
    expect(typeIn(undefined)).toBe('# HELP a The a.\n# TYPE a gauge\na{probe="one"} 1\n');
    const now = typeIn({ type: "counter", help: "Now known." });
    expect(now).toBe('# HELP a Now known.\n# TYPE a counter\na{probe="one"} 1\n');
  });

  test("whatever labels and values there are, another reader reads what was written", () => {
    const name = fc.constantFrom("a", "b_total", "c:d");
    const value = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.constantFrom("", "\\", '"', "\n", "\\n", "\ud83d", 'a="b"'),
    );
    const metric = fc.record({
      name,
      help: fc.string({ unit: "binary" }),
      type: fc.constantFrom("gauge" as const, "counter" as const),
      samples: fc.array(
        fc.record({
          labels: fc.dictionary(fc.constantFrom("x", "y", "zz", "_"), value),
          value: fc.double(),
        }),
        { maxLength: 8 },
      ),
    });
    const data = fc.array(fc.tuple(fc.constantFrom("one", "two", "three"), fc.array(metric, { maxLength: 4 })), {
      maxLength: 3,
    });
    fc.assert(
      fc.property(data, (given) => {
        const groups = [...new Map(given)];
        const { blocks, dropped } = agree(groups, nothing);
        const all = [...blocks.values()].flat();
        const read = parseCustom(printed(render(all)));
        const written = all.reduce((sum, { series }) => sum + series, 0);
        expect(read.rejected).toBe(0);
        expect(read.value.reduce((sum, { samples }) => sum + samples.length, 0)).toBe(written);
        const total = groups.flatMap(([, metrics]) => metrics).reduce((sum, { samples }) => sum + samples.length, 0);
        expect(written + [...dropped.values()].reduce((sum, count) => sum + count, 0)).toBe(total);
      }),
      { numRuns: 400 },
    );
  });
});
