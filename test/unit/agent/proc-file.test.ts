import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { readProcFile } from "../../../lib/agent/command/processes.ts";

const folder = mkdtempSync(join(tmpdir(), "gridmeter-proc-file-"));
afterAll(() => rmSync(folder, { recursive: true }));

test.each([0, 1, 4095, 4096, 4097, 8192, 12_288, 12_289, 100_000])(
  "a file of %i bytes is read whole, and closed",
  async (bytes) => {
    const path = join(folder, "file");
    const text = "é0123456789".repeat(bytes).slice(0, bytes);
    writeFileSync(path, text);
    const before = readdirSync("/proc/self/fd").length;
    expect(await readProcFile(path)).toBe(text);
    expect(readdirSync("/proc/self/fd")).toHaveLength(before);
  },
);

test("a file of /proc is read as it is", async () => {
  expect(await readProcFile("/proc/self/cgroup")).toBe(readFileSync("/proc/self/cgroup", "utf8"));
  expect(await readProcFile("/proc/self/stat")).toMatch(/^\d+ \(/);
});

test.each([0, 4000, 130_000, 1_000_000])(
  "a process's environment is read whole, also one of %i bytes more",
  async (bytes) => {
    // Linux takes 128 KiB for one variable at most.
    const parts = Array.from({ length: Math.ceil(bytes / 100_000) }, (_, number) => [
      `PART${number}`,
      "é\xff".repeat(10).padEnd(Math.min(bytes, 100_000), "x"),
    ]);
    const child = spawn("/bin/sleep", ["60"], { env: { ...Object.fromEntries(parts), LAST: "mark" }, stdio: "ignore" });
    try {
      await once(child, "spawn");
      const path = `/proc/${child.pid}/environ`;
      await expect.poll(() => readFileSync(path, "utf8")).toContain("LAST=mark");
      expect(await readProcFile(path)).toBe(readFileSync(path, "utf8"));
      expect((await readProcFile(path)).split("\0")).toContain("LAST=mark");
    } finally {
      child.kill("SIGKILL");
      await once(child, "exit");
    }
  },
);

test("what cannot be read is said as the kernel says it", async () => {
  await expect(readProcFile("/proc/0/cgroup")).rejects.toMatchObject({ code: "ENOENT" });
  await expect(readProcFile("/proc/self")).rejects.toMatchObject({ code: "EISDIR" });
});
