import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { readProcFile } from "../../../lib/probes/proc-file.ts";

const folder = mkdtempSync(join(tmpdir(), "gridmeter-proc-file-"));
afterAll(() => rmSync(folder, { recursive: true }));

test.each([0, 1, 4095, 4096, 4097, 8192, 100_000])("a file of %i bytes is read whole, and closed", async (bytes) => {
  const path = join(folder, "file");
  const text = "é0123456789".repeat(bytes).slice(0, bytes);
  writeFileSync(path, text);
  const before = readdirSync("/proc/self/fd").length;
  expect(await readProcFile(path)).toBe(text);
  expect(readdirSync("/proc/self/fd")).toHaveLength(before);
});

test("a file of /proc is read as it is", async () => {
  expect(await readProcFile("/proc/self/cgroup")).toBe(readFileSync("/proc/self/cgroup", "utf8"));
  expect(await readProcFile("/proc/self/stat")).toMatch(/^\d+ \(/);
});

test("what cannot be read is said as the kernel says it", async () => {
  await expect(readProcFile("/proc/0/cgroup")).rejects.toMatchObject({ code: "ENOENT" });
  await expect(readProcFile("/proc/self")).rejects.toMatchObject({ code: "EISDIR" });
});
