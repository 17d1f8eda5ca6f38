import { readFileSync } from "node:fs";
import { describe, expect, it, test } from "vitest";
import { ParseError } from "../../../../lib/agent/probes/common/parse.ts";
import { parseRocmSmi } from "../../../../lib/agent/probes/rocm-smi.ts";

const fixture = (name: string) => readFileSync(new URL(`../../../fixtures/probes/${name}`, import.meta.url), "utf8");
const parse = (stdout: string, exitCode = 0) => parseRocmSmi({ stdout, stderr: "", exitCode });
const one = (card: object) =>
  parse(JSON.stringify({ card0: { "PCI Bus": "0000:07:00.0", "GPU use (%)": "0", ...card } }));

describe("ROCm 3", () => {
  const { value, rejected } = parse(fixture("rocm-smi-3-keys.json"));

  it("has cards by number, whatever their order", () => {
    expect(value.gpus.map(({ index, minorNumber, pciBusId }) => [index, minorNumber, pciBusId])).toEqual([
      [0, 1, "0000:03:00.0"],
      [1, 2, "0000:06:00.0"],
    ]);
  });

  it("reads its old keys in base units", () => {
    expect(value.gpus[1]).toMatchObject({
      uuid: "7c00000000000002",
      series: "Vega 99",
      utilization: 0.07,
      memoryUtilization: 0.03,
      memoryUsedBytes: 19095552,
      memoryTotalBytes: 17163091968,
      temperatures: [
        { sensor: "edge", celsius: 25 },
        { sensor: "memory", celsius: 32 },
      ],
      power: { key: "Average Graphics Package Power (W)", text: "24.0", watts: 24 },
      powerLimit: 250,
      fanSpeed: 0.2,
      clocks: { graphics: 808e6, memory: 350e6, soc: undefined, fabric: undefined },
      pcie: { generation: undefined, width: undefined, replays: 0 },
    });
  });

  it("loses a broken value only", () => {
    expect(value.gpus[0]?.temperatures).toEqual([{ sensor: "edge", celsius: 31 }]);
    expect(rejected).toBe(1);
  });

  it("knows processes of the node, by id alone", () => {
    expect(value.driverVersion).toBe("5.3.0-26-generic");
    expect(value.processes).toEqual([
      { pid: 17, usedBytes: undefined },
      { pid: 4711, usedBytes: undefined },
    ]);
  });
});

describe("ROCm 6", () => {
  const { value, rejected } = parse(fixture("rocm-smi-6-dies.txt"));
  const [first, second] = value.gpus;

  it("is found behind a warning with braces, and before another line", () => {
    expect(value.driverVersion).toBe("6.2.4");
    expect(value.gpus).toHaveLength(2);
  });

  it("takes the power from the key that has it", () => {
    expect(first?.power).toEqual({ key: "Current Socket Graphics Package Power (W)", text: "92.5", watts: 92.5 });
  });

  it("gives the second die no power, and no broken value either", () => {
    expect(second?.power).toEqual({
      key: "Average Graphics Package Power (W)",
      text: "N/A (Secondary die)",
      watts: undefined,
    });
  });

  it("takes a value printed twice where both agree", () => {
    expect(first).toMatchObject({ utilization: 0.5, memoryUtilization: undefined, memoryTotalBytes: 68702699520 });
  });

  it("reads the link of PCIe", () => {
    expect(first?.pcie).toEqual({ generation: 4, width: 16, replays: undefined });
  });

  it("counts an absurd percentage, two values that disagree, and a card that is a word", () => {
    expect(second?.utilization).toBeUndefined();
    expect([rejected, value.cardCount]).toEqual([3, 3]);
  });

  it("knows the processes' memory, whatever commas are in their names", () => {
    expect(value.processes).toEqual([{ pid: 104225, usedBytes: 4096 }]);
  });
});

describe("values", () => {
  it.each(["N/A", "n/a", "Not supported", "", "None", "Unsupported"])("%j is none", (text) => {
    const { value, rejected } = one({ "GPU use (%)": text, "Unique ID": text });
    expect([value.gpus[0]?.utilization, value.gpus[0]?.uuid, rejected]).toEqual([undefined, undefined, 0]);
  });

  it.each(["-1", "1e2", "0x10", "12 %", "NaN", "9".repeat(400)])("%j is broken", (text) => {
    const { value, rejected } = one({ "GPU use (%)": text });
    expect([value.gpus[0]?.utilization, rejected]).toEqual([undefined, 1]);
  });
});

describe("no data", () => {
  it.each([
    ["no JSON", "WARNING: No JSON data to report\n", /no JSON object: "WARNING: No JSON data/],
    ["nothing", "", /no JSON object: ""/],
    ["JSON that breaks off", '{"card0": {"GPU use (%)": "0"', /no JSON object/],
    ["a list", "[1, 2]", /no JSON object/],
    ["no cards", '{"system": {}}', /has no card/],
    [
      "cards of a version that nobody knows",
      '{"card0": {"gfx busy": "5"}}',
      /no card of rocm-smi has a known key: .*gfx busy/,
    ],
    ["cards that are words", '{"card0": "Not supported"}', /known key/],
  ])("%s", (_what, stdout, says) => {
    expect(() => parse(stdout)).toThrow(ParseError);
    expect(() => parse(stdout)).toThrow(says);
  });

  it("when rocm-smi failed without a complete report", () => {
    const report = fixture("rocm-smi-3-keys.json");
    expect(() => parse(report.slice(0, -20), 2)).toThrow(/exited with 2/);
    expect(parse(report, 2)).toEqual(parse(report));
  });
});

test("long decimals are numbers, without the noise of floating point", () => {
  const card = { "GPU use (%)": `1.1${"0".repeat(20)}`, "Temperature (Sensor edge) (C)": "31.00000000000000001" };
  const { value, rejected } = parse(JSON.stringify({ card0: card }));
  expect(rejected).toBe(0);
  expect(value.gpus[0]).toMatchObject({ utilization: 0.011, temperatures: [{ sensor: "edge", celsius: 31 }] });
});
