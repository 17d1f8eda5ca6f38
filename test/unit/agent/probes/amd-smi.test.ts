import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { amdSmi, parseAmdSmi, withCard } from "../../../../lib/agent/probes/amd-smi.ts";
import { ParseError } from "../../../../lib/agent/probes/common/parse.ts";

const fixture = (name: string) => readFileSync(new URL(`../../../fixtures/probes/${name}`, import.meta.url), "utf8");
const printed = (stdout: string, exitCode = 0) => ({ stdout, stderr: "", exitCode });
const read = (document: unknown) => parseAmdSmi(printed(JSON.stringify(document)));
const MIB = 1024 * 1024;

/** The samples of a metric as texts: the labels beside the GPU's own, and the value. */
const series = (stdout: string, name: string) =>
  amdSmi
    .parseSaved(printed(stdout), {})
    .metrics.filter((metric) => metric.name === name)
    .flatMap(({ samples }) =>
      samples.map(({ labels: { gpu, minor_number: _minor, uuid: _uuid, ...others }, value }) =>
        [gpu, ...Object.values(others), value].join(" "),
      ),
    );

describe("the values of ROCm 7", () => {
  const text = fixture("amd-smi-7-metric.json");
  it.each([
    ["gridmeter_gpu_seen", [" 2"]],
    ["gridmeter_gpu_utilization_ratio", ["0 0.83"]],
    ["gridmeter_gpu_memory_controller_utilization_ratio", ["0 0.12"]],
    ["gridmeter_gpu_memory_used_bytes", [`0 ${150_000 * MIB}`]],
    ["gridmeter_gpu_memory_total_bytes", [`0 ${196_592 * MIB}`]],
    ["gridmeter_gpu_temperature_celsius", ["0 junction 61", "0 memory 48"]],
    ["gridmeter_gpu_power_watts", ["0 512"]],
    ["gridmeter_gpu_fan_speed_ratio", ["1 0.204"]],
    ["gridmeter_gpu_clock_hertz", ["0 graphics 2098000000", "0 memory 1300000000"]],
    ["gridmeter_gpu_clock_max_hertz", ["0 graphics 2100000000"]],
    ["gridmeter_gpu_pcie_link_generation", ["0 5"]],
    ["gridmeter_gpu_pcie_link_width", ["0 16"]],
    ["gridmeter_gpu_pcie_replays_total", ["0 3"]],
    ["gridmeter_gpu_ecc_errors_total", ["0 corrected volatile 5", "0 uncorrected volatile 0"]],
  ])("%s", (name, expected) => {
    expect(series(text, name)).toEqual(expected);
  });

  it("counts what is neither a number nor N/A", () => {
    expect(parseAmdSmi(printed(text)).rejected).toBe(1);
  });
});

describe("the names and limits of ROCm 6, after a warning with a bracket", () => {
  const text = fixture("amd-smi-6-static.txt");
  it("are read", () => {
    const [gpu] = parseAmdSmi(printed(text)).value;
    expect(gpu).toMatchObject({
      index: 0,
      name: "AMD Instinct MI300X",
      uuid: "0x9A0B1C2D3E4F5061",
      pciBusId: "0000:05:00.0",
      driverVersion: "6.8.5",
      memoryTotalBytes: 196_592 * MIB,
      wattsLimit: 700,
      pcie: { maxGeneration: 5, maxWidth: 16 },
      utilization: undefined,
    });
  });
});

describe("values in every form", () => {
  const use = (value: unknown) => read([{ gpu: 0, usage: { gfx_activity: value, umc_activity: 1 } }]);
  it.each([
    [{ value: 42, unit: "%" }, 0.42, 0],
    [{ value: "42", unit: "%" }, 0.42, 0],
    [7, 0.07, 0],
    ["7", 0.07, 0],
    ["7 %", 0.07, 0],
    [{ value: 57, unit: "%" }, 0.57, 0],
    ["N/A", undefined, 0],
    ["[N/A]", undefined, 0],
    [null, undefined, 0],
    ["", undefined, 0],
    [{ value: "N/A", unit: "%" }, undefined, 0],
    [{ value: 101, unit: "%" }, undefined, 1],
    [{ value: -1, unit: "%" }, undefined, 1],
    [{ value: 5, unit: "W" }, undefined, 1],
    [{ unit: "%" }, undefined, 1],
    [["N/A"], undefined, 1],
    [true, undefined, 1],
    ["1e5", undefined, 1],
  ])("%j", (value, expected, rejected) => {
    const parsed = use(value);
    expect([parsed.value[0]?.utilization, parsed.rejected]).toEqual([expected, rejected]);
  });

  it("average power where there is no current one; degrees below zero", () => {
    const [gpu] = read([
      {
        gpu: "3",
        power: { socket_power: "N/A", average_socket_power: { value: 34, unit: "W" } },
        temperature: { edge: -3 },
      },
    ]).value;
    expect(gpu).toMatchObject({ index: 3, watts: 34 });
    expect(gpu?.temperatures[0]).toEqual({ sensor: "edge", celsius: -3 });
  });
});

describe("no data", () => {
  it.each([
    ["nothing", "", /printed no JSON with GPUs: ""/],
    ["an error", "AMDSMI_STATUS_INIT_ERROR", /INIT_ERROR/],
    ["no GPU", '{"gpu_data": []}', /no JSON with GPUs/],
    ["JSON about something else", '{"error": 3}', /no JSON with GPUs/],
    ["JSON that breaks off", fixture("amd-smi-7-metric.json").slice(0, 900), /no JSON with GPUs/],
    ["a new version's names", '[{"gpu": 0, "load": {"gfx": 5}}]', /no GPU of amd-smi has a known value: .*load/],
  ])("%s", (_what, stdout, says) => {
    expect(() => parseAmdSmi(printed(stdout))).toThrow(ParseError);
    expect(() => parseAmdSmi(printed(stdout))).toThrow(says);
  });

  it("an exit code alone is no failure, and is named where there is no JSON", () => {
    const text = fixture("amd-smi-7-metric.json");
    expect(parseAmdSmi(printed(text, 1))).toEqual(parseAmdSmi(printed(text)));
    expect(() => parseAmdSmi(printed("no", 234))).toThrow("exited with 234");
  });

  it("a GPU whose sections are all N/A is one without values, beside others", () => {
    const [, second] = read([
      { gpu: 0, usage: { gfx_activity: 1 } },
      { gpu: 1, usage: "N/A", power: "N/A" },
    ]).value;
    expect(second).toMatchObject({ index: 1, utilization: undefined });
    expect(read([{ gpu: 0, usage: "N/A" }]).value).toHaveLength(1);
  });
});

describe("long numbers and known texts are no broken values", () => {
  it.each([
    [{ value: 45.12345678901234, unit: "W" }, 45.1234567890123],
    [{ value: "45.12345678901234567890", unit: "W" }, 45.1234567890123],
    [{ value: 66_840, unit: "mW" }, 66.84],
    [{ value: 1e-7, unit: "W" }, 1e-7],
    ["Not available", undefined],
    ["N/A (Secondary die)", undefined],
  ])("%j", (power, watts) => {
    const { value, rejected } = read([{ gpu: 0, power: { socket_power: power } }]);
    expect([value[0]?.watts, rejected]).toEqual([watts, 0]);
  });
});

describe("the number of the card, by which containers are given GPUs", () => {
  const folder = mkdtempSync(join(tmpdir(), "gridmeter-cards-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  for (const file of ["renderD129", "card12"])
    mkdirSync(join(folder, "0000:05:00.0", "drm", file), { recursive: true });
  const cardOf = async (bdf: unknown) =>
    (await withCard(read([{ gpu: 0, bus: { bdf }, usage: { gfx_activity: 1 } }]).value[0]!, folder)).minorNumber;

  it("is the kernel's, by the address on the bus", async () => {
    expect(await cardOf("0000:05:00.0")).toBe(12);
    expect(await cardOf("0000:05:00.1")).toBeUndefined();
    expect(await cardOf("../0000:05:00.0")).toBeUndefined();
    expect(await cardOf("N/A")).toBeUndefined();
  });
});
