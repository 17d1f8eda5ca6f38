// Single jobs are published, and brought into the queue, in little memory: the command line with a small heap.
import { mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { serveManyPods } from "../support/many-pods.ts";
import { bundledCli, gap, leastSettings, runCli } from "../support/run-cli.ts";

const JOBS = 32_000;
/** As long as Kubernetes lets names of pods be. */
const NAME = 253;
/** MB of old objects that the run may hold. It needs less than 46; with the texts of all messages it would need 15 more. */
const HEAP = 52;

test(`${JOBS} single jobs are published with a heap of ${HEAP} MB`, async () => {
  const folder = await mkdtemp(join(tmpdir(), "gridmeter-jobs-"));
  const from = Date.UTC(2025, 6, 1) / 1000;
  const server = await serveManyPods({ from, every: (31 * 86_400) / JOBS, pods: JOBS, nameLength: NAME });
  try {
    const [node = "", program = ""] = bundledCli(folder);
    const run = await runCli(["account", ...gap("2025-07", "2025-08")], {
      cwd: folder,
      program: [node, `--max-old-space-size=${HEAP}`, "--max-semi-space-size=4", program],
      env: leastSettings(server.url, { MESSAGE_FORMAT: "individual-0.4" }),
    });
    expect(run.code, run.stderr.slice(0, 2000)).toBe(0);
    const files = await readdir(join(folder, "gridmeter-data/outgoing"), { recursive: true, withFileTypes: true });
    const uids: string[] = [];
    let bytes = 0;
    for (const file of files.filter(({ name }) => /^[0-9a-f]{14}$/.test(name))) {
      const body = await readFile(join(file.parentPath, file.name), "utf8");
      bytes += body.length;
      for (const [, uid = ""] of body.matchAll(/^LocalJobId: (.+)$/gm)) uids.push(uid);
    }
    expect(uids).toHaveLength(JOBS);
    expect(new Set(uids).size).toBe(JOBS);
    expect(bytes).toBeGreaterThan(18e6);
  } finally {
    server.close();
    await rm(folder, { recursive: true, force: true });
  }
}, 120_000);
