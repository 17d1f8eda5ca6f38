import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { ParseError } from "../../lib/agent/probes/common/parse.ts";
import { parseRocmSmi, rocmSmiMetrics } from "../../lib/agent/probes/rocm-smi.ts";
import type { RocmCard } from "../../lib/agent/probes/rocm-smi-json.ts";

const samples = new URL("../../../shared/samples/", import.meta.url);

const orNull = <T>(value: T | undefined): T | null => value ?? null;

const celsius = (card: RocmCard, wanted: string) =>
  orNull(card.temperatures.find(({ sensor }) => sensor === wanted)?.celsius);

const usedPercent = ({ memoryUsedBytes: used, memoryTotalBytes: total }: RocmCard) =>
  used === undefined || total === undefined ? null : Number(((used / total) * 100).toFixed(3));

/** A card in the words of expected.json. */
const asExpected = (card: RocmCard) => ({
  pci_bus: orNull(card.pciBusId),
  power_key: orNull(card.power?.key),
  power_raw: orNull(card.power?.text),
  power_w: orNull(card.power?.watts),
  series: orNull(card.series),
  temp_edge_c: celsius(card, "edge"),
  temp_junction_c: celsius(card, "junction"),
  temp_memory_c: celsius(card, "memory"),
  unique_id: orNull(card.uniqueId),
  use_pct: card.utilization === undefined ? null : Number((card.utilization * 100).toFixed(6)),
  vram_total_b: orNull(card.memoryTotalBytes),
  vram_used_b: orNull(card.memoryUsedBytes),
  vram_used_pct: usedPercent(card),
});

/**
 * Where we know better: the cards print `"Temperature (Sensor mem) (C)": "32.0"`, ROCm 3's name of the memory's sensor.
 * expected.json only knows the later name, and has null.
 */
const OWN_VIEW: Record<string, Record<string, object>> = {
  "rocm_mi_2gpu_pai.json": { card1: { temp_memory_c: 32 }, card2: { temp_memory_c: 32 } },
};

const run = (file: string) =>
  parseRocmSmi({ stdout: readFileSync(new URL(file, samples), "utf8"), stderr: "", exitCode: 0 });

if (existsSync(samples)) {
  const expected = JSON.parse(readFileSync(new URL("expected.json", samples), "utf8")) as Record<
    string,
    { expect?: string; cards?: Record<string, object>; system?: object | null; json_type?: string }
  >;
  const files = Object.entries(expected).filter(([file]) => file.startsWith("rocm_"));
  const reports = files.filter(([, { cards }]) => cards !== undefined);

  describe("real outputs of rocm-smi", () => {
    it("are all looked at", () => {
      expect([reports.length, files.length]).toEqual([10, 11]);
    });

    it.each(reports)("%s: every expected value, and no other", (file, { cards = {}, system, json_type: type }) => {
      const { value, rejected } = run(file);
      const own = Object.fromEntries(value.gpus.map((card) => [`card${card.minorNumber}`, asExpected(card)]));
      const wanted = Object.entries(cards).map(([name, card]) => [name, { ...card, ...OWN_VIEW[file]?.[name] }]);
      expect(own).toEqual(Object.fromEntries(wanted));
      expect(orNull(value.system)).toEqual(system);
      expect([type, rejected, value.cardCount]).toEqual(["dict", 0, Object.keys(cards).length]);
    });

    it.each(reports)("%s: finite samples, each series once, the same labels throughout a metric", (file) => {
      for (const { name, samples } of rocmSmiMetrics(run(file).value)) {
        expect(new Set(samples.map(({ labels }) => JSON.stringify(labels))).size, name).toBe(samples.length);
        expect(new Set(samples.map(({ labels }) => Object.keys(labels).join())).size, name).toBe(1);
        expect(samples.every(({ value }) => Number.isFinite(value))).toBe(true);
      }
    });

    it("gives no data without JSON", () => {
      expect(() => run("rocm_no_json_data.txt")).toThrow(ParseError);
    });
  });
} else {
  it("has no shared samples here: the fixtures of test/unit/probes cover the same shapes", () => {
    expect(existsSync(samples)).toBe(false);
  });
}
