import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { parseStat, readProcFile, readProcess } from "../../../lib/shared/proc.ts";

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

const REST = "-1 4194304 100 0 0 0 1 2 3 4 20 0 1 0 98765 1000 200";

test("a process is read from its stat, whatever its program is called", () => {
  const expected = { pid: 42, parent: 7, group: 40, start: 98765, alive: true, kernel: false };
  expect(parseStat(`42 (sh) S 7 40 39 0 ${REST}`)).toStrictEqual(expected);
  expect(parseStat(`42 (a) R 1 (b c) D 7 40 39 0 ${REST}`)).toStrictEqual(expected);
  expect(parseStat(`42 (a\n) b) T 7 40 39 0 ${REST}`)).toStrictEqual(expected);
});

test("a zombie is not alive", () => {
  expect(parseStat(`42 (sh) Z 7 40 39 0 ${REST}`)).toMatchObject({ alive: false });
  expect(parseStat(`42 (sh) X 7 40 39 0 ${REST}`)).toMatchObject({ alive: false });
});

test("a thread of the kernel is told from a program", () => {
  expect(parseStat("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 16 0 0")).toMatchObject({
    kernel: true,
  });
});

test("what is no stat is no process", () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      expect(parseStat(text)).toBeUndefined();
    }),
  );
  expect(parseStat("42 (sh) S 7 40")).toBeUndefined();
});

test("a process is read while it runs, and not when it has ended", async () => {
  const child = spawn("sleep", ["60"]);
  expect(readProcess(child.pid ?? 0)).toMatchObject({ parent: process.pid, alive: true });
  child.kill("SIGKILL");
  await once(child, "exit");
  expect(readProcess(child.pid ?? 0)).toBeUndefined();
});
