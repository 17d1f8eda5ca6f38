// The memory of a whole run: a month is counted and published by the command line, and the most memory that it had is read.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { serveManyPods } from "../support/many-pods.ts";
import { bundledCli, gap, leastSettings, runCli } from "../support/run-cli.ts";

/** Writes the most memory that the process had (VmHWM, kB) as the last line of its errors. */
const PROBE = `process.on("exit", () => {
  const status = require("fs").readFileSync("/proc/self/status", "utf8");
  require("fs").writeSync(2, "\\npeak " + /^VmHWM:\\s+(\\d+) kB$/m.exec(status)[1]);
});`;

test.each([
  { jobs: 100_000, most: 220, model: "core-seconds" },
  { jobs: 100_000, most: 220, model: "wallclock" },
  { jobs: 300_000, most: 300, model: "core-seconds" },
])(
  "$jobs jobs of a month ($model) take at most $most MB",
  async ({ jobs, most, model }) => {
    const folder = await mkdtemp(join(tmpdir(), "gridmeter-figures-"));
    const from = Date.UTC(2025, 6, 1) / 1000;
    const server = await serveManyPods({ from, every: (31 * 86_400) / jobs, pods: jobs, nameLength: 20 });
    try {
      const [node = "", program = ""] = bundledCli(folder);
      await writeFile(join(folder, "probe.cjs"), PROBE);
      const run = await runCli(["account", "--json", ...gap("2025-07", "2025-08")], {
        cwd: folder,
        program: [node, "--require", join(folder, "probe.cjs"), program],
        env: leastSettings(server.url, { ACCOUNTING_MODEL: model }),
      });
      expect(run.code, run.stderr.slice(0, 2000)).toBe(0);
      expect(run.stdout).toContain(`${jobs}`);
      const peak = Number(/^peak (\d+)$/m.exec(run.stderr)?.[1]) / 1000;
      expect(peak).toBeGreaterThan(50);
      expect(peak).toBeLessThanOrEqual(most);
    } finally {
      server.close();
      await rm(folder, { recursive: true, force: true });
    }
  },
  120_000,
);
