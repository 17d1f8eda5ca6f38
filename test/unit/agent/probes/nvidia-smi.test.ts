import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { nvidiaSmiMetrics, parseNvidiaSmi } from "../../../../lib/agent/probes/nvidia-smi.ts";
import { ParseError } from "../../../../lib/agent/probes/common/parse.ts";

const fixture = (name: string) => readFileSync(new URL(`../../../fixtures/probes/${name}`, import.meta.url), "utf8");
const parse = (stdout: string, exitCode = 0) => parseNvidiaSmi({ stdout, stderr: "", exitCode });
const MIB = 1024 * 1024;
const log = (gpu: string) => `<nvidia_smi_log><attached_gpus>1</attached_gpus><gpu>${gpu}</gpu></nvidia_smi_log>`;

describe("an old log: ECC by bits, throttle reasons, a DTD inside", () => {
  const { value, rejected } = parse(fixture("nvidia-smi-v8-bits.xml"));
  const [first, second] = value.gpus;

  it("says which driver, and that a GPU is missing", () => {
    expect(value).toMatchObject({ dtd: "v8", driverVersion: "367.48", cudaVersion: undefined });
    expect(value).toMatchObject({ attachedGpus: 3, gpuElements: 2 });
  });

  it("counts by index, apart from the minor number (openpai#3951)", () => {
    expect(value.gpus.map(({ index, minorNumber }) => [index, minorNumber])).toEqual([
      [0, 1],
      [1, 0],
    ]);
  });

  it("reads values in base units", () => {
    expect(first).toMatchObject({
      pciBusId: "0000:83:00.0",
      utilization: 0.37,
      memoryUtilization: 0.05,
      memoryUsedBytes: 587 * MIB,
      memoryTotalBytes: 11441 * MIB,
      temperature: 37,
      fanSpeed: 1.2,
      performanceState: 8,
      power: { draw: 26.2, limit: 149, source: "power_readings/power_draw", module: undefined },
      clocks: { graphics: 324e6, sm: 324e6, memory: 324e6, video: undefined },
      pcie: {
        generation: 1,
        maxGeneration: 3,
        width: 8,
        maxWidth: 16,
        transmit: 12_000,
        receive: 2_500_000,
        replays: 4,
      },
      engines: { encoder: 0.02, decoder: undefined },
    });
  });

  it("adds up errors, and leaves out what is N/A", () => {
    expect(first?.eccVolatile).toEqual({ style: "single_double", corrected: 3, uncorrected: 1 });
    expect(first?.eccAggregate).toEqual({ style: "single_double", corrected: 291, uncorrected: undefined });
    expect(first?.health).toMatchObject({ retiredSingleBit: 2, retiredDoubleBit: 5, retirementPending: true });
    expect(second?.eccVolatile).toBeUndefined();
  });

  it("keeps the driver's reasons to a closed set", () => {
    expect(first?.reasons).toEqual({
      tag: "clocks_throttle_reasons",
      states: [
        { reason: "gpu_idle", active: true },
        { reason: "sw_power_cap", active: false },
        { reason: "unknown", active: false },
        // two of later drivers' reasons, one of them active
        { reason: "other", active: true },
      ],
    });
  });

  it("never expands an entity", () => {
    expect(first?.name).toBe("Tesla Z80 &outside;");
  });

  it("lists processes whatever their names, and counts one without an id", () => {
    expect(first?.processes?.map(({ pid, usedBytes }) => [pid, usedBytes])).toEqual([[4711, 576 * MIB]]);
    expect(rejected).toBe(1);
  });

  it("tells an unknown list of processes from an empty one", () => {
    expect(second?.processes).toBeUndefined();
    expect(parse(log("<processes>\n</processes>")).value.gpus[0]?.processes).toEqual([]);
    expect(parse(log("<processes>Insufficient Permissions</processes>")).value.gpus[0]?.processes).toBeUndefined();
  });
});

describe("a log with MIG", () => {
  const { value, rejected } = parse(fixture("nvidia-smi-v12-mig.xml"));
  const [gpu] = value.gpus;

  it("keeps the memory of slices apart from the GPU's, which may not be read", () => {
    expect(gpu).toMatchObject({ memoryUsedBytes: undefined, memoryTotalBytes: undefined, utilization: undefined });
    expect(gpu?.mig?.devices).toEqual([
      {
        index: 0,
        gpuInstance: 3,
        computeInstance: 0,
        multiprocessors: 14,
        memoryUsedBytes: 12 * MIB,
        memoryTotalBytes: 19968 * MIB,
        eccUncorrected: 2,
      },
      {
        index: 1,
        gpuInstance: 4,
        computeInstance: 0,
        multiprocessors: undefined,
        memoryUsedBytes: undefined,
        memoryTotalBytes: 19968 * MIB,
        eccUncorrected: undefined,
      },
    ]);
  });

  it("has processes with their slice, though their memory may not be read", () => {
    expect(gpu?.processes).toEqual([{ pid: 815, type: "C", usedBytes: undefined, gpuInstance: 4, computeInstance: 0 }]);
  });

  it("adds memory errors up by SRAM and DRAM; N/A adds nothing, a broken part spoils its sum", () => {
    expect(gpu?.eccVolatile).toEqual({ style: "sram_dram", corrected: 31, uncorrected: 42 });
    expect(gpu?.eccAggregate).toEqual({ style: "sram_dram", corrected: 7, uncorrected: undefined });
    // the slice that came twice, and the broken part
    expect(rejected).toBe(2);
  });
});

describe("a new log with a lost GPU", () => {
  const { value, rejected } = parse(fixture("nvidia-smi-v13-lost.xml"));
  const [first, lost] = value.gpus;

  it("takes the version off its deprecation", () => {
    expect(value).toMatchObject({ dtd: "v13", driverVersion: "610.62", cudaVersion: "13.3" });
  });

  it("takes the instant power where there is no average, and never the module's", () => {
    expect(first?.power).toEqual({
      draw: 66.84,
      source: "gpu_power_readings/instant_power_draw",
      limit: 1000,
      module: 1500.5,
    });
  });

  it("loses broken values only: ERR! of the fan, an absurd percentage", () => {
    expect(first).toMatchObject({
      fanSpeed: undefined,
      utilization: undefined,
      temperature: 63,
      memoryTemperature: -4,
    });
    expect(first?.memoryUsedBytes).toBe(98304 * MIB);
    expect(rejected).toBe(2);
  });

  it("adds up errors of the third layout", () => {
    expect(first?.eccVolatile).toEqual({ style: "sram_split", corrected: 9, uncorrected: 22 });
    expect(first?.eccAggregate).toEqual({ style: "sram_split", corrected: 0, uncorrected: 8 });
  });

  it("reads what is wrong with it", () => {
    expect(first?.health).toMatchObject({
      lost: false,
      resetRequired: undefined,
      recoveryAction: "Drain and Reset",
      sramThresholdExceeded: true,
      channelRepairPending: true,
      tpcRepairPending: false,
      retiredSingleBit: undefined,
      retirementPending: undefined,
      remappedCorrected: 3,
      remappedUncorrected: 1,
      remapPending: false,
      remapFailed: true,
      fabricHealthy: false,
    });
    expect(first?.reasonSeconds).toEqual([{ reason: "sw_thermal_slowdown", seconds: 2.5 }]);
    expect(first?.reasons?.states.filter(({ active }) => active)).toEqual([
      { reason: "sw_thermal_slowdown", active: true },
    ]);
  });

  it("keeps the lost one as lost, with nothing else", () => {
    expect(lost).toMatchObject({
      index: 1,
      uuid: "GPU-cccccccc-0000-0000-0000-000000000001",
      utilization: undefined,
      memoryUsedBytes: undefined,
      power: { draw: undefined, source: undefined },
      processes: undefined,
      health: { lost: true, remapFailed: undefined },
    });
    // the SRAM's part of the sum alone would be too low
    expect(lost?.eccVolatile).toEqual({ style: "sram_dram", corrected: undefined, uncorrected: undefined });
  });

  it("notices that a GPU must be reset, from either place", () => {
    const health = (gpu: string) => parse(log(gpu)).value.gpus[0]?.health.resetRequired;
    expect(health("<temperature><gpu_temp>GPU requires reset</gpu_temp></temperature>")).toBe(true);
    expect(health("<gpu_reset_status><reset_required>Yes</reset_required></gpu_reset_status>")).toBe(true);
    expect(health("<gpu_reset_status><reset_required>No</reset_required></gpu_reset_status>")).toBe(false);
  });
});

describe("what is around and in the log", () => {
  it("may be warnings", () => {
    const warned = `WARNING: infoROM is corrupted at gpu 0000:00:1E.0\n${log("<uuid>GPU-1</uuid>")}\nWARNING: again\n`;
    expect(parse(warned, 14).value.gpus[0]?.uuid).toBe("GPU-1");
  });

  it("may be a node without GPUs", () => {
    const { value } = parse("<nvidia_smi_log><attached_gpus>0</attached_gpus></nvidia_smi_log>");
    expect(value).toMatchObject({ attachedGpus: 0, gpuElements: 0, gpus: [] });
  });

  it("may be one GPU that is no more than a word: it is counted, and the others keep their index", () => {
    const { value, rejected } = parse("<nvidia_smi_log><gpu>ERR!</gpu><gpu><uuid>GPU-2</uuid></gpu></nvidia_smi_log>");
    expect([value.gpuElements, value.gpus.map(({ index, uuid }) => [index, uuid]), rejected]).toEqual([
      2,
      [[1, "GPU-2"]],
      1,
    ]);
  });

  it.each([
    ["<utilization><gpu_util>7.00000000000000011 %</gpu_util></utilization>", 0.07],
    [`<utilization><gpu_util>1.1${"0".repeat(40)} %</gpu_util></utilization>`, 0.011],
    ["<utilization><gpu_util>Not available in WDDM driver model</gpu_util></utilization>", undefined],
    ["<utilization><gpu_util>[Not Supported]</gpu_util></utilization>", undefined],
  ])("may be a text that drivers are known to print: %s is no broken value", (gpu, utilization) => {
    const { value, rejected } = parse(log(gpu));
    expect([value.gpus[0]?.utilization, rejected]).toEqual([utilization, 0]);
  });

  it("may be processes whose memory is not known under WDDM: they are there, and none is broken", () => {
    const row =
      "<process_info><pid>7</pid><used_memory>Not available in WDDM driver model</used_memory></process_info>";
    expect(parse(log(`<processes>${row}</processes>`))).toMatchObject({
      rejected: 0,
      value: { gpus: [{ processes: [{ pid: 7, usedBytes: undefined }] }] },
    });
  });

  it("may be names that an object has from birth", () => {
    expect(parse(log("<valueOf>1</valueOf><toString>2</toString>")).value.gpus).toHaveLength(1);
  });

  it("may be elements that come twice: the first counts", () => {
    expect(parse(log("<uuid>GPU-1</uuid><uuid>GPU-2</uuid>")).value.gpus[0]?.uuid).toBe("GPU-1");
  });

  it("may be several processes on one line", () => {
    const row = (pid: number) => `<process_info><pid>${pid}</pid><process_name>a & b</process_name></process_info>`;
    const { value } = parse(log(`<processes>${row(1)}${row(2)}</processes>`));
    expect(value.gpus[0]?.processes?.map(({ pid }) => pid)).toEqual([1, 2]);
  });

  it("may be a million elements", () => {
    const many = log(`<noise>${"<a>x</a>".repeat(200_000)}</noise><uuid>GPU-1</uuid>`);
    expect(parse(many).value.gpus[0]?.uuid).toBe("GPU-1");
  });
});

describe("no data", () => {
  it.each([
    [6, "No devices were found", /no GPU was found/],
    [9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", /driver is not loaded/],
    [15, "a GPU has gone", /fallen off the bus/],
    [18, "Failed to initialize NVML: Driver/library version mismatch", /different versions/],
    [255, "Failed to initialize NVML: Unknown Error", /internal driver error/],
    [77, "something new", /not documented.*something new/],
  ])("exit code %i: %s", (exitCode, text, says) => {
    expect(() => parse(text, exitCode)).toThrow(says);
    // a text is no log, whatever the exit code
    expect(() => parse(text)).toThrow(/printed no XML/);
    // but a complete log is one, and one that breaks off is none
    expect(parse(log("<uuid>GPU-1</uuid>"), exitCode).value.gpus).toHaveLength(1);
    expect(() => parse(log("<uuid>GPU-1</uuid>").slice(0, -30), exitCode)).toThrow(`exited with ${exitCode}`);
  });

  it("quotes stderr where stdout is empty", () => {
    const output = { stdout: "", stderr: "cannot open\nmore", exitCode: 12 };
    expect(() => parseNvidiaSmi(output)).toThrow('NVML library was not found) and printed "cannot open"');
  });

  const whole = fixture("nvidia-smi-v13-lost.xml");
  it.each([
    ["the text form", "==============NVSMI LOG==============\n\nDriver Version : 590.48.01\n", /printed no XML/],
    ["nothing", "", /printed no XML: ""/],
    ["a log that breaks off", whole.slice(0, whole.length / 2), /breaks off/],
    ["broken XML", log("<uuid>GPU-1</uid>"), /XML of nvidia-smi is broken: .*uuid/],
    ["a log with two ends", `${log("")}x${log("")}`, /broken/],
    ["a log about nothing", "<nvidia_smi_log>hm</nvidia_smi_log>", /neither <gpu> nor <attached_gpus>: "hm"/],
    ["an error", "<nvidia_smi_log><error_string>no luck</error_string></nvidia_smi_log>", /"no luck"/],
    ["deep nesting", log("<a>".repeat(5000) + "</a>".repeat(5000)), /nested/],
    ["a forbidden name", log("<__proto__><polluted>1</polluted></__proto__>"), /broken/],
  ])("%s", (_what, stdout, says) => {
    expect(() => parse(stdout)).toThrow(ParseError);
    expect(() => parse(stdout)).toThrow(says);
    expect({}).not.toHaveProperty("polluted");
  });
});

describe("a GPU off the bus is named by its PCI address", () => {
  const lostIn = (text: string, exitCode = 255) =>
    nvidiaSmiMetrics(parse(text, exitCode).value).find(({ name }) => name === "gridmeter_gpu_lost")?.samples;
  const unknown = (address: string) => ({ gpu: "", minor_number: "", uuid: "", pci_bus_id: address });

  it.each([
    ["Unable to determine the device handle for GPU0000:CF:00.0: Unknown Error", "0000:CF:00.0"],
    ["Unable to determine the device handle for GPU 0000:BA:00.0: Not Found", "0000:BA:00.0"],
    ["Unable to determine the device handle for gpu 0000:02:00.0: Unknown Error\n", "0000:02:00.0"],
    [
      "Unable to determine the device handle for GPU2: 0000:81:00.0: Unknown Error\r\nNo devices were found",
      "0000:81:00.0",
    ],
    [
      "Unable to determine the device handle for GPU 00000000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU",
      "00000000:3B:00.0",
    ],
    ["WARNING: x\nGPU 00010000:c7:00.0 has fallen off the bus.", "00010000:c7:00.0"],
    ["NVRM: Xid (PCI:0000:cf:00): 79, pid=7, GPU has fallen off the bus.", "0000:cf:00"],
    ["Unable to determine the device handle for GPU0000:CF:00.0: GPU requires reset.", "0000:CF:00.0"],
  ])("%s", (text, address) => {
    for (const exitCode of [255, 15, 0]) {
      expect(lostIn(text, exitCode)).toEqual([{ labels: unknown(address), value: 1 }]);
    }
    // Nothing else was read: no number of GPUs is made up.
    expect(nvidiaSmiMetrics(parse(text, 255).value).map(({ name }) => name)).toEqual(["gridmeter_gpu_lost"]);
  });

  it("several are named, each once", () => {
    const line = (address: string) => `Unable to determine the device handle for GPU ${address}: Unknown Error\n`;
    const text = line("0000:01:00.0") + line("0000:02:00.0") + line("00000000:01:00.0");
    expect(lostIn(text)?.map(({ labels }) => labels["pci_bus_id"])).toEqual(["0000:01:00.0", "0000:02:00.0"]);
  });

  it.each([
    "WARNING: infoROM is corrupted at gpu 0000:02:00.0",
    "Unable to determine the device handle for GPU: Unknown Error",
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
  ])("no GPU is lost by: %s", (text) => {
    expect(() => parse(text, 255)).toThrow(ParseError);
  });

  it("beside a log it is added, unless the log has it; the name of a process in the log names none", () => {
    const text = "Unable to determine the device handle for GPU 0000:CF:00.0: Unknown Error";
    const gpu = (id: string, more = "") =>
      `<nvidia_smi_log>\n<attached_gpus>2</attached_gpus>\n<gpu id="${id}">\n<uuid>GPU-1</uuid>\n${more}</gpu>\n</nvidia_smi_log>`;
    const addresses = (printed: string) =>
      lostIn(printed, 15)?.map(({ labels, value }) => [labels["pci_bus_id"], value]);
    expect(addresses(`${text}\n${gpu("00000000:01:00.0")}`)).toEqual([
      ["0000:CF:00.0", 1],
      ["00000000:01:00.0", 0],
    ]);
    expect(addresses(`${gpu("00000000:CF:00.0")}\n${text}`)).toEqual([["00000000:CF:00.0", 0]]);
    const names = `<processes>\n<process_info>\n<pid>1</pid>\n<process_name>${text}</process_name>\n</process_info>\n</processes>\n`;
    expect(addresses(gpu("00000000:01:00.0", names))).toEqual([["00000000:01:00.0", 0]]);
  });
});
