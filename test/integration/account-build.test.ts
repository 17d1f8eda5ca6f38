// `npm run build` makes two files that need nothing but Node, ours or the older one of a submit host.
import { execFile } from "node:child_process";
import { copyFile, mkdir, readFile, readdir, rm, symlink } from "node:fs/promises";
import { join, resolve } from "node:path";
import { setTimeout } from "node:timers/promises";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { kindsCluster, MIXED, simulate, truth } from "../simulator/index.ts";
import { standInProbes, startAgent, writeConfig } from "../support/agent-run.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { gap, leastSettings, resultOf, runCli } from "../support/run-cli.ts";
import { serveSeries } from "../support/serve-series.ts";
import { standIns } from "../support/stand-ins/stand-ins.ts";
import { scratchDirectory } from "../support/store-script.ts";

const root = resolve(import.meta.dirname, "../..");
const cluster = kindsCluster({ kinds: ["plain"], scrapeInterval: 240 });
let server: PrometheusServer;
let scratch: Awaited<ReturnType<typeof scratchDirectory>>;

beforeAll(async () => {
  scratch = await scratchDirectory();
  await promisify(execFile)(process.execPath, ["scripts/run.mjs", "scripts/build.ts"], {
    cwd: root,
  });
  server = await serveSeries(simulate(cluster));
}, 120_000);

afterAll(async () => {
  await server.stop();
  await scratch.remove();
});

describe.each([
  ["the Node of the project", process.execPath],
  ["the Node of the system", "/usr/bin/node"],
])("dist/gridmeter.cjs and its agent in an empty directory, with %s", (name, node) => {
  let cwd: string;
  let program: readonly string[];
  beforeAll(async () => {
    cwd = join(scratch.path, name.replaceAll(" ", "-"));
    await mkdir(cwd);
    for (const file of ["gridmeter.cjs", "gridmeter-agent.cjs"])
      await copyFile(join(root, "dist", file), join(cwd, file));
    program = [node, join(cwd, "gridmeter.cjs")];
  });

  test("--help and --version", async () => {
    const help = await runCli(["--help"], { cwd, program });
    expect(help).toMatchObject({ code: 0, stderr: "" });
    for (const command of ["account", "plan", "check", "manual"]) expect(help.stdout).toContain(`  ${command} `);
    expect((await runCli(["--version"], { cwd, program })).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  test("the agent's commands, by either program, by a link, and under a name without .cjs", async () => {
    const agent = [node, join(cwd, "gridmeter-agent.cjs")];
    const installed = join(cwd, "bin");
    await mkdir(installed);
    for (const file of ["gridmeter", "gridmeter-agent"])
      await copyFile(join(cwd, `${file}.cjs`), join(installed, file));
    const link = join(scratch.path, `${name.replaceAll(" ", "-")}-link`);
    await symlink(join(installed, "gridmeter"), link);
    for (const one of [program, agent, [node, join(installed, "gridmeter")], [node, link]]) {
      const list = await runCli(["probe", "--list"], { cwd, program: one });
      expect(list).toMatchObject({ code: 0, stderr: "" });
      expect(list.stdout).toContain("nvidia-smi");
      expect((await runCli(["agent", "--nonsense"], { cwd, program: one })).code).toBe(2);
      expect((await runCli(["help", "reap"], { cwd, program: one })).stdout).toContain("--older-than");
    }
    await rm(installed, { recursive: true });
  });

  test("alone, it says what is missing", async () => {
    const folder = join(cwd, "alone");
    await mkdir(folder);
    await copyFile(join(cwd, "gridmeter.cjs"), join(folder, "gridmeter"));
    const run = await runCli(["agent"], { cwd, program: [node, join(folder, "gridmeter")] });
    expect(run).toMatchObject({ code: 2, stdout: "" });
    expect(run.stderr).toContain("gridmeter-agent.cjs");
    expect(run.stderr).toContain(folder);
    await rm(folder, { recursive: true });
  });

  test("the agent takes little memory, though nothing is set for Node", async () => {
    const tools = standIns({ containers: 2, gpus: 2 });
    const config = writeConfig(cwd, { listen: "127.0.0.1:0", probes: standInProbes(tools, 1, 1) });
    // What the systemd unit and the image start; by way of gridmeter.cjs the accounting's text is in memory too.
    const own = [node, join(cwd, "gridmeter-agent.cjs")];
    const agent = await startAgent({ program: own, cwd, args: ["--config", config], env: { PATH: tools.path } });
    try {
      for (let scrapes = 0; scrapes < 5; scrapes++) {
        await setTimeout(1000);
        expect((await fetch(`${agent.url}/metrics`)).status).toBe(200);
      }
      const status = await readFile(`/proc/${agent.child.pid}/status`, "utf8");
      const kilobytes = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]);
      // With V8's usual limits it would be 14 MB more, and 40 more a minute later.
      expect(kilobytes).toBeLessThan(88_000);
    } finally {
      agent.child.kill("SIGTERM");
      await agent.ended;
      tools.remove();
      await rm(config);
    }
  });

  test("account --dry-run", async () => {
    const args = ["account", ...gap("2025-01", "2025-02"), "--dry-run", "--json"];
    const run = await runCli(args, { cwd, env: leastSettings(server.url), program });
    expect(run).toMatchObject({ code: 0 });
    const { months } = resultOf(run);
    expect(months[0]?.tenants[0]?.jobs).toBe(truth(cluster, "2025-01").get(MIXED)?.jobs);
    expect([...(months[0]?.units[0]?.messages ?? [])].join("\n")).toContain("APEL-summary-job-message: v0.2");
    expect((await readdir(cwd)).sort()).toEqual(["gridmeter-agent.cjs", "gridmeter.cjs"]);
  });

  test("account into a queue and a ledger", async () => {
    const args = ["account", ...gap("2025-01", "2025-02")];
    const run = await runCli(args, { cwd, env: leastSettings(server.url), program });
    expect(run).toMatchObject({ code: 0 });
    expect(run.stderr).toContain("2 messages are in dirq:");
  });
});
