import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { nvidiaSmiMetrics, parseNvidiaSmi } from "../../lib/agent/probes/nvidia-smi.ts";
import type { NvidiaGpu, NvidiaSmi } from "../../lib/agent/probes/nvidia-smi-gpu.ts";
import { ParseError } from "../../lib/agent/probes/common/parse.ts";

const samples = new URL("../../../shared/samples/", import.meta.url);
const MIB = 1024 * 1024;

/** Absent is null in expected.json. */
const orNull = <T>(value: T | undefined): T | null => value ?? null;
const scale = (value: number | undefined, factor: number, digits: number): number | null =>
  value === undefined ? null : Number((value * factor).toFixed(digits));

const ecc = (errors: NvidiaGpu["eccVolatile"]) =>
  errors === undefined
    ? null
    : { style: errors.style, corrected: orNull(errors.corrected), uncorrected: orNull(errors.uncorrected) };

const usedPercent = ({ memoryUsedBytes: used, memoryTotalBytes: total }: NvidiaGpu) =>
  used === undefined || total === undefined ? null : Number(((used / total) * 100).toFixed(3));

/** A GPU in the words of expected.json. */
const asExpected = (gpu: NvidiaGpu) => ({
  ecc_aggregate: ecc(gpu.eccAggregate),
  ecc_volatile: ecc(gpu.eccVolatile),
  fan_pct: scale(gpu.fanSpeed, 100, 6),
  fb_reserved_mib: scale(gpu.memoryReservedBytes, 1 / MIB, 6),
  fb_total_mib: scale(gpu.memoryTotalBytes, 1 / MIB, 6),
  fb_used_mib: scale(gpu.memoryUsedBytes, 1 / MIB, 6),
  fb_used_pct: usedPercent(gpu),
  gpu_util_pct: scale(gpu.utilization, 100, 6),
  index: gpu.index,
  mem_ctrl_util_pct: scale(gpu.memoryUtilization, 100, 6),
  mig:
    gpu.mig === undefined
      ? null
      : {
          mode: gpu.mig.mode,
          devices: gpu.mig.devices.map((device) => ({
            ci: orNull(device.computeInstance),
            fb_total_mib: scale(device.memoryTotalBytes, 1 / MIB, 6),
            fb_used_mib: scale(device.memoryUsedBytes, 1 / MIB, 6),
            gi: orNull(device.gpuInstance),
            index: orNull(device.index),
            sm: orNull(device.multiprocessors),
          })),
        },
  minor_number: orNull(gpu.minorNumber),
  name: orNull(gpu.name),
  pci_id: orNull(gpu.pciBusId),
  power_draw_w: orNull(gpu.power.draw),
  power_limit_w: orNull(gpu.power.limit),
  power_source: orNull(gpu.power.source),
  process_count: gpu.processes?.length ?? 0,
  processes: (gpu.processes ?? []).map((process) => ({
    gi: orNull(process.gpuInstance),
    pid: process.pid,
    type: orNull(process.type),
    used_mib: scale(process.usedBytes, 1 / MIB, 6),
  })),
  pstate: orNull(gpu.performanceState),
  reasons_active: (gpu.reasons?.states ?? []).filter(({ active }) => active).map(({ reason }) => reason),
  reasons_tag: orNull(gpu.reasons?.tag),
  recovery_action: orNull(gpu.health.recoveryAction),
  temp_c: orNull(gpu.temperature),
  uuid: orNull(gpu.uuid),
});

const logAsExpected = (log: NvidiaSmi) => ({
  probe: "nvidia-smi",
  attached_gpus: orNull(log.attachedGpus),
  cuda_version: orNull(log.cudaVersion),
  driver_version: orNull(log.driverVersion),
  dtd: orNull(log.dtd),
  gpu_elements: log.gpuElements,
  gpus: log.gpus.map(asExpected),
});

const run = (file: string, exitCode: number) =>
  parseNvidiaSmi({ stdout: readFileSync(new URL(file, samples), "utf8"), stderr: "", exitCode });

if (existsSync(samples)) {
  const expected = JSON.parse(readFileSync(new URL("expected.json", samples), "utf8")) as Record<
    string,
    { expect?: string; rc?: number; gpus?: unknown[] }
  >;
  const files = Object.entries(expected).filter(([file]) => file.startsWith("nvsmi_"));
  const logs = files.filter(([, { gpus }]) => gpus !== undefined);
  const failures = files.filter(([, { gpus }]) => gpus === undefined);

  describe("real nvidia-smi logs", () => {
    it("are all looked at", () => {
      expect([logs.length, failures.length]).toEqual([30, 8]);
    });

    it.each(logs)("%s: every expected value, and no other", (file, values) => {
      const { value, rejected } = run(file, 0);
      expect(logAsExpected(value)).toEqual(values);
      expect(rejected).toBe(0);
    });

    it.each(logs)("%s: finite samples, each series once, the same labels throughout a metric", (file) => {
      for (const { name, samples } of nvidiaSmiMetrics(run(file, 0).value)) {
        expect(new Set(samples.map(({ labels }) => JSON.stringify(labels))).size, name).toBe(samples.length);
        expect(new Set(samples.map(({ labels }) => Object.keys(labels).join())).size, name).toBe(1);
        expect(samples.every(({ value }) => Number.isFinite(value))).toBe(true);
      }
    });

    it.each(failures)("%s: no data", (file, { rc, expect: what }) => {
      expect(what).toContain("no data");
      // the same text is refused whatever the exit code
      expect(() => run(file, rc ?? 0)).toThrow(ParseError);
      expect(() => run(file, 0)).toThrow(ParseError);
    });
  });
} else {
  it("has no shared samples here: the fixtures of test/unit/probes cover the same shapes", () => {
    expect(existsSync(samples)).toBe(false);
  });
}
