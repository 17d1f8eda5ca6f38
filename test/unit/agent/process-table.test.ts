import { spawn } from "node:child_process";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { inCircle, isAlive, processesSince } from "../../../lib/agent/command/processes.ts";
import { parseStat, readProcess } from "../../../lib/shared/process.ts";

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

test("the living processes of the machine are found by when they started", async () => {
  const child = spawn("sleep", ["60"]);
  const entry = readProcess(child.pid ?? 0);
  if (entry === undefined) throw new Error("the child is not in /proc");
  expect(entry).toMatchObject({ parent: process.pid, alive: true });
  expect(await processesSince(entry.start)).toContainEqual(entry);
  expect(await processesSince(entry.start + 1)).not.toContainEqual(entry);
  // Where numbers are given out in a narrow circle, all are read whatever the numbers.
  expect(await processesSince(entry.start, [entry.pid])).toContainEqual(entry);
  expect(isAlive(entry)).toBe(true);
  expect(isAlive({ ...entry, start: entry.start - 1 })).toBe(false);
  child.kill("SIGKILL");
  await new Promise((resolve) => child.once("exit", resolve));
  expect(isAlive(entry)).toBe(false);
  expect(readProcess(entry.pid)).toBeUndefined();
});

test("numbers that were given out since one was, also round the end of the circle", () => {
  expect([99, 100, 150, 200, 201].map((pid) => inCircle(pid, 100, 200))).toEqual([false, true, true, true, false]);
  expect([99, 100, 101, 3999, 4000, 4_194_303].map((pid) => inCircle(pid, 4000, 100))).toEqual([
    true,
    true,
    false,
    false,
    true,
    true,
  ]);
});
