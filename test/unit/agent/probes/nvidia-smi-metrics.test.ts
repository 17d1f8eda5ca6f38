import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Metric } from "../../../../lib/shared/exposition.ts";
import { gpuLabels } from "../../../../lib/agent/probes/common/gpu.ts";
import { labelText } from "../../../../lib/agent/probes/common/parse.ts";
import { GPU_METRICS, type GpuMetricName, gpuMetrics } from "../../../../lib/agent/probes/common/metric-families.ts";
import { recoveryActionLabel } from "../../../../lib/agent/probes/nvidia-smi-health.ts";
import { nvidiaSmiMetrics, parseNvidiaSmi } from "../../../../lib/agent/probes/nvidia-smi.ts";
import { parseRocmSmi, rocmSmiMetrics } from "../../../../lib/agent/probes/rocm-smi.ts";

const fixture = (name: string) => readFileSync(new URL(`../../../fixtures/probes/${name}`, import.meta.url), "utf8");
const output = (stdout: string) => ({ stdout, stderr: "", exitCode: 0 });
const nvidia = (name: string) => nvidiaSmiMetrics(parseNvidiaSmi(output(fixture(name))).value);
const rocm = (name: string) => rocmSmiMetrics(parseRocmSmi(output(fixture(name))).value);

/** Values of one metric, by the labels that a test names. */
const values = (metrics: readonly Metric[], name: GpuMetricName, ...labels: string[]) =>
  Object.fromEntries(
    (metrics.find((metric) => metric.name === name)?.samples ?? []).map((sample) => [
      labels.map((label) => sample.labels[label]).join(" "),
      sample.value,
    ]),
  );

const everything = {
  "nvidia-smi-v8-bits.xml": nvidia("nvidia-smi-v8-bits.xml"),
  "nvidia-smi-v12-mig.xml": nvidia("nvidia-smi-v12-mig.xml"),
  "nvidia-smi-v13-lost.xml": nvidia("nvidia-smi-v13-lost.xml"),
  "rocm-smi-3-keys.json": rocm("rocm-smi-3-keys.json"),
  "rocm-smi-6-dies.txt": rocm("rocm-smi-6-dies.txt"),
};

describe.each(Object.entries(everything))("all metrics of %s", (_file, metrics) => {
  it("have the catalogue's type, help and labels, and a value each", () => {
    expect(metrics.length).toBeGreaterThan(5);
    for (const { name, type, help, samples } of metrics) {
      const entry = GPU_METRICS[name as GpuMetricName];
      expect({ type, help }).toEqual({ type: entry.type, help: entry.help });
      expect(samples.length).toBeGreaterThan(0);
      for (const { labels, value } of samples) {
        expect(Object.keys(labels).toSorted(), name).toEqual([...entry.labels].toSorted());
        expect(Number.isFinite(value)).toBe(true);
      }
      expect(new Set(samples.map(({ labels }) => JSON.stringify(labels))).size, name).toBe(samples.length);
    }
    expect(new Set(metrics.map(({ name }) => name)).size).toBe(metrics.length);
  });
});

describe("the catalogue", () => {
  it("has names and units of Prometheus", () => {
    for (const [name, { type, help }] of Object.entries(GPU_METRICS)) {
      expect(name).toMatch(/^gridmeter_gpu_[a-z_]+$/);
      expect(name.endsWith("_total"), name).toBe(type === "counter");
      expect(help).toMatch(/^[A-Z0-9].*\.$/);
    }
  });

  it("is complete: every metric is published from some fixture", () => {
    const published = new Set(Object.values(everything).flatMap((metrics) => metrics.map(({ name }) => name)));
    const never = Object.keys(GPU_METRICS).filter((name) => !published.has(name));
    // a setting, a driver that says so (see the unit test of the reset), and a join (see joined.test.ts)
    const elsewhere = ["expected", "reset_required", "uninterruptible_processes"];
    expect(never.toSorted()).toEqual(elsewhere.map((name) => `gridmeter_gpu_${name}`));
  });
});

describe("metrics of NVIDIA's GPUs", () => {
  const old = everything["nvidia-smi-v8-bits.xml"];
  const lost = everything["nvidia-smi-v13-lost.xml"];
  const mig = everything["nvidia-smi-v12-mig.xml"];

  it("tell a missing GPU by attached and seen, a lost one by name", () => {
    expect(values(old, "gridmeter_gpu_attached")).toEqual({ "": 3 });
    expect(values(old, "gridmeter_gpu_seen")).toEqual({ "": 2 });
    expect(values(lost, "gridmeter_gpu_lost", "gpu")).toEqual({ "0": 0, "1": 1 });
  });

  it("have no sample for what was not read, never a 0", () => {
    expect(values(lost, "gridmeter_gpu_utilization_ratio", "gpu")).toEqual({});
    expect(values(lost, "gridmeter_gpu_fan_speed_ratio", "gpu")).toEqual({});
    expect(values(lost, "gridmeter_gpu_memory_used_bytes", "gpu")).toEqual({ "0": 98304 * 1024 * 1024 });
    expect(values(lost, "gridmeter_gpu_processes", "gpu")).toEqual({ "0": 0 });
    expect(values(lost, "gridmeter_gpu_ecc_errors_total", "gpu", "kind", "scope")).toEqual({
      "0 corrected volatile": 9,
      "0 uncorrected volatile": 22,
      "0 corrected aggregate": 0,
      "0 uncorrected aggregate": 8,
    });
    expect(values(mig, "gridmeter_gpu_memory_used_bytes", "gpu")).toEqual({});
  });

  it("say what to do with a GPU as one of a closed set", () => {
    expect(values(lost, "gridmeter_gpu_recovery_action", "action")).toEqual({
      none: 0,
      reset: 0,
      reboot: 0,
      drain_p2p: 0,
      drain_and_reset: 1,
      other: 0,
    });
  });

  it.each([
    ["None", "none"],
    ["GPU Reset", "reset"],
    ["Reset", "reset"],
    ["Node Reboot", "reboot"],
    ["Reboot", "reboot"],
    ["Drain P2P", "drain_p2p"],
    ["Dance", "other"],
    ["N/A", undefined],
    [undefined, undefined],
  ])("recovery action %s is %s", (printed, label) => {
    expect(recoveryActionLabel(printed)).toBe(label);
  });

  it("have one series for each slice", () => {
    expect(values(mig, "gridmeter_gpu_mig_enabled", "gpu")).toEqual({ "0": 1 });
    expect(values(mig, "gridmeter_gpu_mig_devices", "gpu")).toEqual({ "0": 2 });
    expect(
      values(mig, "gridmeter_gpu_mig_memory_total_bytes", "mig_index", "gpu_instance", "compute_instance"),
    ).toEqual({ "0 3 0": 19968 * 1024 * 1024, "1 4 0": 19968 * 1024 * 1024 });
    expect(values(mig, "gridmeter_gpu_mig_memory_used_bytes", "mig_index")).toEqual({ "0": 12 * 1024 * 1024 });
  });

  it("name the GPU by index, minor number and uuid, empty where one was not read", () => {
    const [info] = mig.find(({ name }) => name === "gridmeter_gpu_info")?.samples ?? [];
    expect(info?.labels).toEqual({
      gpu: "0",
      minor_number: "",
      uuid: "GPU-bbbbbbbb-0000-0000-0000-000000000000",
      name: "NVIDIA Z100",
      pci_bus_id: "00000000:01:00.0",
      driver_version: "535.54.03",
      cuda_version: "12.2",
    });
  });
});

describe("metrics of AMD's GPUs", () => {
  it("have the same names", () => {
    const metrics = everything["rocm-smi-6-dies.txt"];
    expect(values(metrics, "gridmeter_gpu_seen")).toEqual({ "": 3 });
    expect(values(metrics, "gridmeter_gpu_utilization_ratio", "gpu", "uuid")).toEqual({ "0 0x100": 0.5 });
    expect(values(metrics, "gridmeter_gpu_power_watts", "gpu")).toEqual({ "0": 92.5 });
    expect(values(metrics, "gridmeter_gpu_temperature_celsius", "gpu", "sensor")).toEqual({
      "0 junction": 43,
      "0 memory": -3,
      "0 hbm2": 41,
    });
    expect(values(metrics, "gridmeter_gpu_clock_hertz", "domain")).toEqual({ soc: 1e9, fabric: 1.402e9 });
    expect(values(metrics, "gridmeter_gpu_info", "gpu", "minor_number")).toEqual({ "0 0": 1, "1 1": 1 });
  });
});

describe("labels", () => {
  it("stay short and clean", () => {
    expect(labelText("a\nb\u0000\ud800")).toBe("a\uFFFDb\uFFFD\uFFFD");
    expect(labelText("x".repeat(5000))).toHaveLength(128);
    expect(gpuLabels({ index: 3, minorNumber: undefined, uuid: undefined })).toEqual({
      gpu: "3",
      minor_number: "",
      uuid: "",
    });
  });
});

describe("gathering samples", () => {
  it("publishes booleans as 0 and 1, and leaves out what is no number", () => {
    const metric = "gridmeter_gpu_lost";
    const sample = (gpu: string, value: number | boolean | undefined) => ({ metric, labels: { gpu }, value }) as const;
    const samples = [
      sample("0", true),
      sample("1", false),
      sample("2", undefined),
      sample("3", Number.NaN),
      sample("4", Number.POSITIVE_INFINITY),
    ];
    expect(values(gpuMetrics(samples), metric, "gpu")).toEqual({ "0": 1, "1": 0 });
    expect(gpuMetrics([sample("0", undefined)])).toEqual([]);
  });
});
