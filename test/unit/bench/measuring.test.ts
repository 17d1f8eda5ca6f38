import { describe, expect, test } from "vitest";
import { median, middle } from "../../../bench/accounting/measure.ts";
import { costBetween, parseMeters } from "../../../bench/accounting/meters.ts";
import { withSection } from "../../../bench/accounting/results-file.ts";
import { forMarkdown, forTerminal } from "../../../bench/accounting/tables.ts";
import { mustCount } from "../../../bench/accounting/truth.ts";

const exposition = (queries: number, seconds: number): string =>
  [
    "# TYPE process_cpu_seconds_total counter",
    `process_cpu_seconds_total ${seconds * 2}`,
    `prometheus_engine_query_duration_seconds_sum{slice="inner_eval"} ${seconds}`,
    `prometheus_engine_query_duration_seconds_sum{slice="queue_time"} 99`,
    `prometheus_http_response_size_bytes_sum{handler="/api/v1/query"} ${queries * 100}`,
    `prometheus_http_response_size_bytes_count{handler="/api/v1/query"} ${queries}`,
    `prometheus_http_response_size_bytes_sum{handler="/metrics"} 12345`,
    `prometheus_http_response_size_bytes_count{handler="/metrics"} 3`,
    "",
  ].join("\n");

describe("what is measured", () => {
  test("is the growth of Prometheus' counters, the reading of them not included", () => {
    const [before, after] = [parseMeters(exposition(2, 1)), parseMeters(exposition(7, 4))];
    expect(costBetween(before, after)).toEqual({ queries: 5, querySeconds: 3, cpuSeconds: 6, sentBytes: 500 });
    expect(costBetween(before, before).queries).toBe(0);
  });

  test("is the median of the runs, and the greatest memory", () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([4, 1, 2, 3])).toBe(2.5);
    expect(() => median([])).toThrow(/no median/);
    const run = { seconds: 1, peakBytes: 5, queries: 1, querySeconds: 1, cpuSeconds: 1, sentBytes: 1, stdout: "" };
    const found = middle([run, { ...run, seconds: 2, peakBytes: 9 }, { ...run, seconds: 7, peakBytes: 1 }]);
    expect([found.seconds, found.peakBytes]).toEqual([2, 9]);
  });

  test("is worth nothing where the figures are wrong", () => {
    const truth = { jobs: 10, coreSeconds: 100 };
    expect(() => mustCount(truth, truth, truth, "ours")).not.toThrow();
    expect(() => mustCount({ jobs: 9, coreSeconds: 100 }, truth, truth, "ours")).toThrow(/ours/);
    expect(() => mustCount({ jobs: 10, coreSeconds: 101 }, truth, truth, "ours")).toThrow(/ours/);
    expect(() => mustCount(undefined, truth, truth, "ours")).toThrow(/ours/);
  });
});

describe("what is written", () => {
  const table = { title: "Title", head: ["way", "wall"], rows: [["(a)", "1 s"]] };

  test("has each table for the terminal and as Markdown", () => {
    expect(forMarkdown(table)).toBe("### Title\n\n| way | wall |\n| --- | --: |\n| (a) | 1 s |\n");
    for (const cell of ["Title", "way", "wall", "(a)", "1 s"]) expect(forTerminal(table)).toContain(cell);
  });

  test("keeps the other sections of the results, and replaces its own", () => {
    const day = new Date("2026-01-02T03:04:05Z");
    const first = withSection("", "## Node agent\n\nold", day);
    const both = withSection(first, "## Accounting\n\nfigures\n", day);
    const again = withSection(both, "## Node agent\n\nnew", day);
    expect(again.match(/^## .*$/gm)).toEqual(["## Accounting", "## Node agent"]);
    expect(again).toContain("Measured on 2026-01-02.");
    expect(again).toContain("figures");
    expect(again).toContain("new");
    expect(again).not.toContain("old");
    expect(withSection(again, "## Node agent\n\nnew", day)).toBe(again);
  });
});
