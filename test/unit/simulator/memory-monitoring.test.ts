import { describe, expect, test } from "vitest";
import { CELL } from "../../../lib/accounting/model/monitoring.ts";
import { kindsCluster, MIXED, monthStart, Random, simulate } from "../../simulator/index.ts";
import { MemoryMonitoring } from "../../support/memory-monitoring.ts";
import type { MemoryOptions } from "../../support/memory-monitoring.ts";
import { rowsOf } from "../../support/rows-of.ts";

const cluster = kindsCluster({ kinds: ["plain"] });
const series = simulate(cluster);
const FEB = monthStart("2025-02");
const WHOLE = { from: cluster.from, to: cluster.to };
const monitoring = (options: MemoryOptions = {}): MemoryMonitoring =>
  new MemoryMonitoring(series, { namespace: MIXED, matchers: [], labelPrefix: "" }, options);

describe("the in-memory monitoring as a difficult server", () => {
  test("refuses windows that are too long and answers that are too large, as Prometheus would", async () => {
    const refused = expect.objectContaining({ code: "prometheus_too_large", retryable: true });
    await expect(rowsOf(monitoring({ maxWindow: 86_400 }), "end", WHOLE)).rejects.toEqual(refused);
    await expect(rowsOf(monitoring({ maxRows: 3 }), "end", WHOLE)).rejects.toEqual(refused);
    const day = { from: FEB, to: FEB + 86_400 };
    await expect(rowsOf(monitoring({ maxWindow: 86_400, maxRows: 3 }), "end", day)).resolves.toBeInstanceOf(Array);
    const [first] = await rowsOf(monitoring(), "end", WHOLE);
    await expect(rowsOf(monitoring({ maxRows: 1 }), "end", WHOLE, { uids: [first?.uid ?? ""] })).resolves.toHaveLength(
      1,
    );
  });

  test("has forgotten what is older than its retention", async () => {
    const all = await rowsOf(monitoring(), "end", WHOLE);
    const kept = await rowsOf(monitoring({ forgetBefore: FEB }), "end", WHOLE);
    expect(kept).toEqual(all.filter((row) => row.value > FEB - 3600));
    expect(kept.length).toBeLessThan(all.length);
    const seen = await monitoring({ forgetBefore: FEB }).seen({ from: FEB - 10 * CELL, to: FEB + 10 * CELL });
    expect(seen.cells).toEqual(Array.from({ length: 10 }, (_, index) => FEB + (index + 1) * CELL));
  });

  test("answers in another order than it was asked, with the same rows", async () => {
    const shuffled = monitoring({ shuffle: new Random(3) });
    const order: number[] = [];
    const answers = await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        const rows = await rowsOf(shuffled, "end", WHOLE);
        order.push(index);
        return rows;
      }),
    );
    expect(order).not.toEqual(order.toSorted((a, b) => a - b));
    const expected = await rowsOf(monitoring(), "end", WHOLE);
    for (const rows of answers) expect(rows).toEqual(expected);
  });

  test("takes `up` at its word, and pods where there is no `up`", async () => {
    const [down] = cluster.outages.filter((outage) => outage.kind === "down");
    const from = Math.ceil((down?.from ?? 0) / CELL) * CELL;
    expect((await monitoring().seen({ from, to: from + 4 * CELL })).cells).toEqual([]);
    const withoutUp = new MemoryMonitoring(
      series.filter((one) => one.name !== "up"),
      { namespace: MIXED, matchers: [], labelPrefix: "" },
    );
    const job = cluster.jobs.find((one) => one.created > FEB);
    const cell = Math.ceil((job?.created ?? 0) / CELL) * CELL + CELL;
    expect((await withoutUp.seen({ from: cell - CELL, to: cell })).cells).toEqual([cell]);
  });
});
