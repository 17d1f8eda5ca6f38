import { expect, test } from "vitest";
import { checkPrometheus } from "../../../lib/accounting/check.ts";
import type { Client } from "../../../lib/accounting/prometheus/client.ts";
import { MemoryMonitoring } from "../../support/memory-monitoring.ts";
import { changedMonitoring } from "../../support/stub-monitoring.ts";
import { at, cluster, countedIn, ended, GRID, MINUTE, tenant, World } from "./world.ts";

const NOON = at("2025-02-10T12:00");
const NOW = at("2025-02-20T12:00");
const isUnseen = (cell: number, minutes: number): boolean => cell > NOON && cell <= NOON + minutes * MINUTE;

/** The warnings of a month in which monitoring was not seen for so long. */
async function warningsOf(minutes: number): Promise<readonly string[]> {
  const world = new World(cluster([ended("2025-02-10T10:00")]));
  const monitoring = ({ selection }: typeof GRID) => {
    const memory = new MemoryMonitoring(world.series, selection);
    return changedMonitoring(memory, {
      seen: async (window) => {
        const sighting = await memory.seen(window);
        return { ...sighting, cells: sighting.cells.filter((cell) => !isUnseen(cell, minutes)) };
      },
    });
  };
  return countedIn(await world.run(NOW, [GRID], { monitoring }), "2025-02").warnings;
}

/** What `check` says about gaps to a Prometheus that did not see monitoring for so long. */
async function foundBy(minutes: number): Promise<string | undefined> {
  const client: Client = {
    instant: () => Promise.resolve([]),
    stream: async () => undefined,
    range: (_query, from, to, step) => {
      const times = Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, index) => from + index * step);
      const values = times.filter((time) => !isUnseen(time, minutes)).map((time) => [time, 1] as const);
      return Promise.resolve([{ labels: {}, values }]);
    },
    version: () => Promise.resolve(undefined),
  };
  const one = tenant("grid", { pods: { monitoringSelector: "monitored" } });
  const findings = await checkPrometheus(client, one, NOW, ["grid"]);
  return findings.find(({ question }) => question.startsWith("When was it not seen"))?.answer;
}

test("monitoring that was not seen for exactly 30 minutes is a gap for `account` and for `check`", async () => {
  const gap = "2025-02-10 12:00 to 2025-02-10 12:30 UTC (0.5 h)";
  expect(await warningsOf(30)).toEqual([expect.stringContaining(`monitoring was not seen in 2025-02 from ${gap};`)]);
  expect(await foundBy(30)).toBe(`not seen: ${gap}`);
});

test("25 minutes are a gap for neither", async () => {
  expect(await warningsOf(25)).toEqual([]);
  expect(await foundBy(25)).toMatch(/^it was seen throughout/);
});
