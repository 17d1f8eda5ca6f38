import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { loadSettings } from "../../../lib/accounting/settings/load.ts";
import { readTextFile } from "../../../lib/shared/fs.ts";

const folder = mkdtempSync(join(tmpdir(), "text-file-"));
const path = join(folder, "a.txt");
afterAll(() => rmSync(folder, { recursive: true }));

test("up to the bound a file is read, one byte more is refused by its size", () => {
  writeFileSync(path, "ä".repeat(50_000));
  expect(readTextFile(path, 100_000)).toBe("ä".repeat(50_000));
  expect(() => readTextFile(path, 99_999)).toThrow("it has 100000 bytes or more, and at most 99999 are read");
});

test("a file of a terabyte is not read, nor a device without an end", () => {
  writeFileSync(path, "");
  truncateSync(path, 2 ** 40);
  expect(() => readTextFile(path, 1000)).toThrow(`it has ${2 ** 40} bytes or more`);
  expect(() => readTextFile("/dev/zero", 1000)).toThrow(/and at most 1000 are read/);
});

test("a pipe is read, since it has no size", () => {
  const script = 'import("./lib/shared/fs.ts").then((m) => console.log(m.readTextFile("/dev/stdin", 10)))';
  const read = execFileSync("sh", ["-c", 'printf hello | "$0" -e "$1"', process.execPath, script], {
    encoding: "utf8",
  });
  expect(read).toBe("hello\n");
});

test("an env file that is far too large is refused by name", () => {
  writeFileSync(path, "");
  truncateSync(path, 2_000_000);
  expect(() => loadSettings({ env: {}, envFile: path })).toThrow(
    /env file=".*a\.txt": cannot be read \(it has 2000000 bytes/,
  );
});
