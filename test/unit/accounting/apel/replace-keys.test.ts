import * as fc from "fast-check";
import { expect, test } from "vitest";
import { readMessage } from "../../../../lib/accounting/apel/read.ts";
import { checkMessage } from "../../../../lib/accounting/apel/check.ts";
import { apelKey, messageKeys } from "../../../../lib/accounting/apel/replace-keys.ts";
import { type ApelRecord, unitOf, zeroed } from "../../../../lib/accounting/apel/record.ts";
import { writeMessages } from "../../../../lib/accounting/apel/write.ts";
import { INDIVIDUAL, NORMALISED, NOW, SUMMARY, SYNC, normalised, summary, sync } from "./arbitrary.ts";

const S02 = writeMessages([SUMMARY], "summary-0.2")[0]!.body;

test("summaries v0.2 and v0.4 of one record have one key", () => {
  const [v04] = writeMessages([SUMMARY], "summary-0.4");
  expect(messageKeys(v04!.body)).toEqual(messageKeys(S02));
  expect(messageKeys(S02)).toEqual([apelKey(SUMMARY)]);
});

test.each([
  ["2975 and 2975.0", "ServiceLevel: 2975\n", "ServiceLevel: 2975.0\n"],
  ["2975 and KAPEL's 2974.9999999999995", "ServiceLevel: 2975\n", "ServiceLevel: 2974.9999999999995\n"],
  ["si2k and SI2K", "ServiceLevelType: si2k\n", "ServiceLevelType: SI2K\n"],
  ["no VOGroup and a null one", "VO: atlas\n", "VO: atlas\nVOGroup: none\nVORole: \nGlobalUserName: NULL\n"],
  ["month 11 and 011", "Month: 11\n", "Month: 011\n"],
  ["other figures", "WallDuration: 7200\n", "WallDuration: 1\n"],
  ["another last end", /LatestEndTime:.*\n/, ""],
])("one key: %s", (_name, from, to) => {
  expect(S02.replace(from, to)).not.toBe(S02);
  expect(messageKeys(S02.replace(from, to))).toEqual(messageKeys(S02));
});

const PARTS: Partial<typeof SUMMARY>[] = [
  { site: "X" },
  { month: 10 },
  { year: 2025 },
  { globalUserName: "me" },
  { vo: "cms" },
  { voGroup: "/atlas" },
  { voRole: "production" },
  { submitHost: "other" },
  { infrastructureType: "local" },
  { serviceLevel: { type: "hepspec", value: 2975 } },
  { serviceLevel: { type: "si2k", value: 2975.001 } },
  { nodeCount: 1 },
  { processors: 8 },
];

test.each(PARTS)("a summary's key holds %o", (part) => {
  expect(apelKey({ ...SUMMARY, ...part })).not.toBe(apelKey(SUMMARY));
});

test("a normalised key holds the benchmark's name but no value, so that a correction replaces in place", () => {
  expect(apelKey({ ...NORMALISED, normalisedWallDuration: 99 })).toBe(apelKey(NORMALISED));
  expect(apelKey({ ...NORMALISED, benchmark: "hepspec" })).not.toBe(apelKey(NORMALISED));
  expect(apelKey({ ...NORMALISED, infrastructureType: "local" })).not.toBe(apelKey(NORMALISED));
});

test("a job's key is (Site, LocalJobId, EndTime)", () => {
  const key = apelKey(INDIVIDUAL);
  expect(apelKey({ ...INDIVIDUAL, vo: "cms", submitHost: "x", wallDuration: 1 })).toBe(key);
  for (const part of [{ site: "X" }, { localJobId: "x" }, { endTime: INDIVIDUAL.endTime + 1 }]) {
    expect(apelKey({ ...INDIVIDUAL, ...part })).not.toBe(key);
  }
});

test("a sync key is (Site, SubmitHost, Month, Year)", () => {
  const key = apelKey(SYNC);
  expect(apelKey({ ...SYNC, numberOfJobs: 99 })).toBe(key);
  for (const part of [{ site: "X" }, { submitHost: "x" }, { month: 1 }, { year: 2025 }]) {
    expect(apelKey({ ...SYNC, ...part })).not.toBe(key);
  }
});

test("keys of different tables differ by their prefix", () => {
  const prefixes = [SUMMARY, NORMALISED, INDIVIDUAL, SYNC].map((r) => apelKey(r).split(":")[0]);
  expect(prefixes).toEqual(["summary", "normalised", "individual", "sync"]);
});

test.each(["", "hello", "APEL-summary-job-message: v0.2\n"])("the keys of %j are unknown, not none", (text) => {
  expect(() => messageKeys(text)).toThrow(expect.objectContaining({ code: "message_invalid" }));
});

test("unitOf: monthly records by their month, jobs by the UTC month of their end", () => {
  const unit = { site: "UNI-TEST", submitHost: "k8s.example.org", month: "2026-11" };
  for (const record of [SUMMARY, NORMALISED, SYNC, INDIVIDUAL]) expect(unitOf(record)).toEqual(unit);
  expect(unitOf({ ...INDIVIDUAL, endTime: INDIVIDUAL.startTime - 1 }).month).toBe("2026-10");
  expect(unitOf({ ...SYNC, month: 3 }).month).toBe("2026-03");
});

test("a tombstone has the key of its record, nothing in it, and passes the check", () => {
  fc.assert(
    fc.property(fc.oneof(summary, normalised, sync), (record) => {
      const tombstone: ApelRecord = zeroed(record);
      expect(apelKey(tombstone)).toBe(apelKey(record));
      const [message] = writeMessages([tombstone], "summary-0.4");
      expect(checkMessage(message!.body, NOW)).toEqual({ problems: [], warnings: [] });
      const [read] = readMessage(message!.body, NOW);
      const counts = Object.entries(read!).filter(([name]) => /Duration|numberOfJobs/.test(name));
      expect(counts.length).toBeGreaterThan(0);
      expect(counts.every(([, value]) => value === 0)).toBe(true);
    }),
  );
});
