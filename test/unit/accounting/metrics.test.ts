import { describe, expect, test } from "vitest";
import { type FileGroup, isOwnFile, mergedFile, unitMetrics, unsentMetrics } from "../../../lib/accounting/metrics.ts";

const unit = (site: string, period: string) => ({ site, submit_host: "h", period });
const done = (site: string, period: string, at: number): FileGroup => ({
  labels: unit(site, period),
  metrics: unitMetrics({
    unit: { site, submitHost: "h", month: "2025-02" },
    outcome: "done",
    counted: { jobs: 3, coreSeconds: 10, gapSeconds: 0, leftOut: { no_end: 1 }, daysAsked: 2 },
    messages: 2,
    duration: 1,
    at,
  }),
  whole: true,
});
const failed = (site: string, period: string, at: number): FileGroup => ({
  labels: unit(site, period),
  metrics: unitMetrics({
    unit: { site, submitHost: "h", month: "2025-02" },
    outcome: "failed",
    messages: 0,
    duration: 1,
    at,
  }),
  whole: false,
});
const values = (text: string, name: string): readonly string[] =>
  text.split("\n").filter((line) => line.startsWith(`gridmeter_accounting_${name}{`));
const KEPT = ["A", "AB"].flatMap((site) => ["current", "previous", "older"].map((period) => unit(site, period)));

describe("the file of metrics", () => {
  test("has each family once, with the labels of each unit", () => {
    const text = mergedFile("", [done("A", "current", 5), done("AB", "previous", 6)], KEPT);
    expect(text.match(/^# TYPE gridmeter_accounting_jobs gauge$/gm)).toHaveLength(1);
    expect(values(text, "last_success_timestamp_seconds")).toEqual([
      'gridmeter_accounting_last_success_timestamp_seconds{site="A",submit_host="h",period="current"} 5',
      'gridmeter_accounting_last_success_timestamp_seconds{site="AB",submit_host="h",period="previous"} 6',
    ]);
    expect(values(text, "left_out")).toContain(
      'gridmeter_accounting_left_out{site="A",submit_host="h",period="current",reason="no_end"} 1',
    );
  });

  test("keeps the last success of a unit that fails, and what it counted then", () => {
    const before = mergedFile("", [done("A", "current", 5)], KEPT);
    const after = mergedFile(before, [failed("A", "current", 9)], KEPT);
    expect(values(after, "last_success_timestamp_seconds")[0]).toMatch(/ 5$/);
    expect(values(after, "jobs")[0]).toMatch(/ 3$/);
    expect(values(after, "last_run_timestamp_seconds")).toEqual([expect.stringMatching(/ 9$/)]);
    expect(values(after, "failed")).toEqual([expect.stringMatching(/ 1$/)]);
  });

  test("keeps units that this run did not touch, and forgets those that are configured no more", () => {
    const before = mergedFile("", [done("A", "older", 5), done("AB", "current", 6)], KEPT);
    const after = mergedFile(before, [done("AB", "current", 9)], KEPT);
    expect(values(after, "last_run_timestamp_seconds")).toHaveLength(2);
    const without = KEPT.filter(({ site }) => site !== "A");
    expect(values(mergedFile(after, [done("AB", "current", 10)], without), "jobs")).toEqual([
      expect.stringContaining('site="AB"'),
    ]);
  });

  test("a run written twice is the same file; the queue's figures are of the last look only", () => {
    const queue = (ages: readonly number[]): FileGroup => ({
      labels: { queue: "dirq:/q" },
      metrics: unsentMetrics({ queue: "dirq:/q", ages }),
      whole: true,
    });
    const once = mergedFile("", [done("A", "current", 5), queue([3, 90])], KEPT);
    expect(mergedFile(once, [done("A", "current", 5), queue([3, 90])], KEPT)).toBe(once);
    expect(values(once, "unsent_oldest_age_seconds")).toEqual([
      'gridmeter_accounting_unsent_oldest_age_seconds{queue="dirq:/q"} 90',
    ]);
    expect(values(mergedFile(once, [queue([])], KEPT), "unsent_messages")).toEqual([expect.stringMatching(/ 0$/)]);
  });

  test("is not made over another program's", () => {
    const own = mergedFile("", [done("A", "current", 5)], KEPT);
    expect([own, "", "# HELP x y\n"].map(isOwnFile)).toEqual([true, true, true]);
    expect(["node_load1 3\n", `${own}up 1\n`, "root:x:0:0::/root:/bin/sh\n"].map(isOwnFile)).toEqual([
      false,
      false,
      false,
    ]);
  });

  test("holds names that need to be escaped", () => {
    const labels = { site: 'a"b\\c', submit_host: "h\nx", period: "current" };
    const group = { ...done("A", "current", 5), labels };
    const once = mergedFile("", [group], [labels]);
    expect(once).toContain('site="a\\"b\\\\c",submit_host="h\\nx"');
    expect(mergedFile(once, [group], [labels])).toBe(once);
  });
});
