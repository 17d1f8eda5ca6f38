// `gridmeter agent --demo`: the whole agent on a node that is made up, which leaves nothing behind.
import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type CliRun, bundledCli, runCli } from "../support/run-cli.ts";
import { scratchDirectory } from "../support/store-script.ts";

let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let program: readonly string[];
let temporary: string;

beforeAll(async () => {
  scratch = await scratchDirectory();
  program = bundledCli(scratch.path);
  temporary = join(scratch.path, "tmp");
  await mkdir(temporary);
}, 120_000);
afterAll(() => scratch.remove());

const agent = (...args: readonly string[]): Promise<CliRun> =>
  runCli(["agent", ...args], { cwd: scratch.path, program, env: { TMPDIR: temporary } });

test("--demo --once: each probe reads its made-up tool without a broken row, and its folder is gone afterwards", async () => {
  const { code, stdout, stderr } = await agent("--demo", "--once");
  expect(code, stderr).toBe(0);
  const results = [...stdout.matchAll(/^gridmeter_probe_result\{probe="([\w-]+)",result="(\w+)"\} 1$/gm)];
  const disabled = ["amd-smi", "crictl-stats", "rocm-smi"];
  expect(results).toHaveLength(11);
  for (const [, probe = "", result] of results)
    expect([probe, result]).toEqual([probe, disabled.includes(probe) ? "disabled" : "ok"]);
  const rejected = [...stdout.matchAll(/^gridmeter_probe_rejected_rows_total\{probe="([\w-]+)"\} ([1-9]\d*)$/gm)];
  expect(rejected).toEqual([]);
  expect(stdout.match(/^gridmeter_gpu_info\{.*name="Made-up GPU 80GB"/gm)).toHaveLength(4);
  expect(stdout).toContain("gridmeter_gpu_mig_devices");
  expect(stderr).toContain("demonstration: this node, its GPUs and its containers are made up");
  expect(await readdir(temporary)).toEqual([]);
});

test("a real node's configuration does not go with it", async () => {
  const { code, stderr } = await agent("--demo", "--config", "agent.yaml");
  expect(code).toBe(2);
  expect(stderr).toContain('--config "agent.yaml" does not go with it. Nothing was started.');
  expect(await readdir(temporary)).toEqual([]);
});

test("a wrong option is refused before anything is made up", async () => {
  const { code } = await agent("--demo", "--listen", "nowhere:");
  expect(code).toBe(2);
  expect(await readdir(temporary)).toEqual([]);
});
