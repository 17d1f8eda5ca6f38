// Tables fit the screen: at 80 and at 120 columns, whatever stands in them. The snapshots are there to be looked at.
import * as fc from "fast-check";
import stringWidth from "string-width";
import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { groupsTable } from "../../../bin/show/agent-groups.ts";
import { probesTable } from "../../../bin/show/agent-probes.ts";
import { reportText } from "../../../bin/show/report.ts";
import { monthsTable } from "../../../bin/show/run.ts";
import { textTable } from "../../../bin/show/table.ts";
import { DEMO_TENANTS, demoLedger } from "../../../lib/accounting/report/demo.ts";
import { type Report, makeReport } from "../../../lib/accounting/report/figures.ts";
import { readReport, reportMonths } from "../../../lib/accounting/report/read.ts";
import { type RunSummary, summarise } from "../../../lib/accounting/summary.ts";
import { World, at, bare, cluster, ended, tenant } from "../accounting/world.ts";

const WIDTHS = [80, 120] as const;
const NOW = at("2026-10-20T09:00");
let summary: RunSummary;
let report: Report;

beforeAll(async () => {
  const jobs = [
    ended("2025-02-03T12:00"),
    bare("2025-02-04T12:00"),
    ended("2025-02-05T12:00", { containers: [{ milliCores: 64_000 }] }),
  ];
  const world = new World(cluster(jobs));
  const more = { vo: "biomed", site: "ANOTHER-SITE", submitHost: "k8s.example.org:6443/long-name" };
  const tenants = [tenant("grid"), tenant("second", more)];
  summary = summarise(await world.run("2025-02-20", tenants));
  const months = reportMonths(NOW, { from: "2026-09" });
  const damaged = (): void => undefined;
  report = makeReport(
    await readReport(DEMO_TENANTS, await demoLedger(NOW), { now: NOW, months, keepAll: true, damaged }),
  );
});
afterEach(() => void vi.unstubAllEnvs());

const PROBES = [
  {
    name: "ps",
    why: undefined,
    interval: 30,
    timeout: 10,
    command: ["ps", "axww", "--no-headers"],
    description: "processes by state, and those that hang",
  },
  {
    name: "nvidia-smi",
    why: "there is no /dev/nvidiactl",
    interval: 30,
    timeout: 60,
    command: ["nvidia-smi", "-q", "-x"],
    description: "GPUs",
  },
];
const NODE = { job: "gridmeter_agent", instance: "gpu-node-17.rack-4.example.org" };
const GROUPS = [
  { grouping: { ...NODE, probe: "nvidia-smi" }, pushedAt: NOW - 7300 },
  { grouping: { ...NODE, probe: "docker-stats", zone: "eu" }, pushedAt: 0 },
];

const TABLES: readonly (readonly [name: string, text: () => string])[] = [
  ["account", () => monthsTable(summary)],
  ["probe --list", () => probesTable(PROBES)],
  ["reap", () => groupsTable(GROUPS, NOW)],
  ["report", () => reportText(report, true)],
];

describe.each(WIDTHS)("at %i columns", (width) => {
  test.each(TABLES)("%s", (_name, text) => {
    vi.stubEnv("COLUMNS", String(width));
    const shown = text();
    expect(shown.split("\n").filter((line) => stringWidth(line) > width)).toEqual([]);
    expect(shown).toMatchSnapshot();
  });
});

test("where stdout is no terminal and nothing says how wide, no word is wrapped", () => {
  vi.stubEnv("COLUMNS", "");
  expect(monthsTable(summary).split("\n")[1]).toContain("│ first end (UTC)     │ last end (UTC)      │ left out");
});

test("any texts at any width from 20 on: nothing is wider", () => {
  const cell = fc.oneof(
    fc.string({ maxLength: 60 }),
    fc.constantFrom("a_b/c".repeat(9), "表計算".repeat(12), "", "1,234,567.8"),
  );
  const table = fc
    .integer({ min: 1, max: 9 })
    .chain((columns) =>
      fc.tuple(
        fc.array(cell, { minLength: columns, maxLength: columns }),
        fc.array(fc.array(cell, { minLength: columns, maxLength: columns }), { maxLength: 4 }),
      ),
    );
  fc.assert(
    fc.property(table, fc.integer({ min: 20, max: 160 }), ([head, rows], width) => {
      const text = textTable(head, rows, { width });
      // A name of a column is shown whole, or a list of names could not be read.
      const most = Math.max(width, ...head.map((name) => stringWidth(name) * 2 + 14));
      for (const line of text.split("\n")) expect(stringWidth(line)).toBeLessThanOrEqual(most);
    }),
  );
});

test("wrapped, a text loses nothing but blanks", () => {
  fc.assert(
    fc.property(
      fc.string({ maxLength: 200, unit: "grapheme-ascii" }),
      fc.integer({ min: 20, max: 60 }),
      (text, width) => {
        const lines = textTable(["text"], [[text]], { width, plain: true })
          .split("\n")
          .slice(2);
        expect(lines.join("").replaceAll(" ", "")).toBe(text.replaceAll(" ", ""));
      },
    ),
  );
});

test("what a cell quotes stays in its cell, also where it is wrapped", () => {
  const text = textTable(["name", "what"], [["a\nb\u001B[31m", "one two three four five six seven eight nine ten"]], {
    width: 40,
  });
  expect(text).toContain("a\\nb\\u001b[31m");
  expect(text.split("\n").every((line) => stringWidth(line) <= 40)).toBe(true);
  const words = text.match(/\b(?:one|two|three|four|five|six|seven|eight|nine|ten)\b/g);
  expect(words).toEqual("one two three four five six seven eight nine ten".split(" "));
});
