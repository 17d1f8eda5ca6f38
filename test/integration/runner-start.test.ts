import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { locateExecutable } from "../../lib/agent/command/executable.ts";
import { runCommand } from "../../lib/agent/command/run.ts";
import type { CommandResult } from "../../lib/agent/command/types.ts";
import { command } from "../support/process-watch.ts";

let folder = "";
const file = (name: string) => join(folder, name);

function write(name: string, text: string | Buffer, mode = 0o755): void {
  writeFileSync(file(name), text);
  chmodSync(file(name), mode);
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "gridmeter-start-"));
  mkdirSync(file("directory"));
  write("no-permission", "#!/bin/sh\necho hello\n", 0o644);
  write("no-shebang", `echo a shell ran me\ntouch ${join(folder, "ran")}\n`);
  write("empty", "");
  write("broken-binary", Buffer.concat([Buffer.from("\x7fELF"), Buffer.alloc(60)]));
  write("no-interpreter", "#!/nowhere/python\n");
  write("good", "#!/bin/sh\necho $0\n");
  symlinkSync("loop", file("loop"));
  mkdirSync(file("first"));
  mkdirSync(file("second"));
  mkdirSync(file("first/tool"));
  write("second/tool", "#!/bin/sh\necho the second\n");
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function run(argv: readonly [string, ...string[]], cwd?: string): Promise<CommandResult> {
  const { settled, gone } = runCommand(command(argv, cwd === undefined ? {} : { cwd }));
  await gone;
  return settled;
}

const failure = (kind: string, detail: string) => ({ kind, detail, seconds: expect.any(Number) });

describe("a command that ran before", () => {
  test("is looked at again once it is another file, has lost a right, or has gone", async () => {
    write("changing", "#!/bin/sh\necho one\n");
    const path = file("changing");
    for (let runs = 0; runs < 2; runs++) expect(await run([path])).toMatchObject({ kind: "ok" });
    chmodSync(path, 0o644);
    expect(await run([path])).toMatchObject({ kind: "not_executable" });
    chmodSync(path, 0o755);
    expect(await run([path])).toMatchObject({ kind: "ok" });
    writeFileSync(path, "no longer a script\n");
    expect(await run([path])).toMatchObject({ kind: "not_executable" });
    rmSync(path);
    expect(await run([path])).toMatchObject({ kind: "not_found" });
  });

  test("is found elsewhere in PATH when it is not there any more", async () => {
    mkdirSync(file("front"));
    mkdirSync(file("behind"));
    write("front/moving", "#!/bin/sh\necho front\n");
    write("behind/moving", "#!/bin/sh\necho behind\n");
    const path = `${file("front")}:${file("behind")}`;
    const located = (name: string) => locateExecutable(name, path);
    expect(await located("moving")).toMatchObject({ kind: "found", path: file("front/moving") });
    expect(await located("moving")).toMatchObject({ kind: "found", path: file("front/moving") });
    rmSync(file("front/moving"));
    expect(await located("moving")).toMatchObject({ kind: "found", path: file("behind/moving") });
    rmSync(file("behind/moving"));
    expect(await located("moving")).toMatchObject({ kind: "not_found" });
  });
});

describe("a command that cannot be started", () => {
  test("is not there", async () => {
    expect(await run(["gridmeter-no-such-command"])).toStrictEqual(
      failure("not_found", `gridmeter-no-such-command was not found in ${process.env["PATH"]}`),
    );
    const path = file("nothing");
    expect(await run([path])).toStrictEqual(failure("not_found", `${path} is not there (ENOENT)`));
    expect(await run([file("good/below")])).toStrictEqual(
      failure("not_found", `${file("good/below")} is not there (ENOTDIR)`),
    );
    expect(await run([file("loop")])).toMatchObject({ kind: "not_found" });
  });

  test("has no working directory, which is told from a missing command", async () => {
    const nowhere = file("nowhere");
    expect(await run(["ls"], nowhere)).toStrictEqual(
      failure(
        "not_found",
        `the working directory ${nowhere} cannot be entered: ENOENT: no such file or directory, stat '${nowhere}'`,
      ),
    );
    expect(await run(["ls"], file("good"))).toStrictEqual(
      failure("not_found", `the working directory ${file("good")} is not a directory`),
    );
  });

  test("names an interpreter that is not there", async () => {
    expect(await run([file("no-interpreter")])).toStrictEqual(
      failure("not_found", `${file("no-interpreter")} is there, but not the interpreter or loader that it names`),
    );
  });

  test("may not be executed, is a directory, or is nothing that the kernel executes", async () => {
    expect(await run([file("no-permission")])).toMatchObject({
      kind: "not_executable",
      detail: expect.stringContaining("may not be executed: EACCES"),
    });
    expect(await run([file("directory")])).toStrictEqual(
      failure("not_executable", `${file("directory")} is not a file`),
    );
    for (const name of ["no-shebang", "empty"]) {
      expect(await run([file(name)])).toStrictEqual(
        failure("not_executable", `${file(name)} is neither a binary nor does it begin with #!`),
      );
    }
    expect(await run(["ls", file("ran")])).toMatchObject({ kind: "exit_nonzero" });
  });

  test("is a broken binary: whatever becomes of it, it is not ok", async () => {
    expect(["not_executable", "exit_nonzero", "killed"]).toContain((await run([file("broken-binary")])).kind);
  });

  test("has arguments that the kernel does not take", async () => {
    expect(await run(["echo", "x".repeat(200_000)])).toStrictEqual(
      failure("not_executable", expect.stringMatching(/echo could not be started: spawn E2BIG$/)),
    );
    expect(await run(["echo", "a\0b"])).toStrictEqual(
      failure("not_executable", expect.stringContaining("must be a string without null bytes")),
    );
    expect(await run(["ec\0ho"])).toMatchObject({ kind: expect.stringMatching(/^not_/) });
    expect(await run([""])).toMatchObject({ kind: expect.stringMatching(/^not_/) });
  });

  test("finds no free file number, however many are missing", () => {
    const starve = fileURLToPath(new URL("../support/process-starved.ts", import.meta.url));
    const shell = ["-c", 'ulimit -n 60; exec "$0" "$1"', process.execPath, starve];
    const results: unknown = JSON.parse(execFileSync("/bin/sh", shell, { encoding: "utf8" }));
    const starved = { kind: "not_executable", detail: expect.stringContaining("EMFILE") };
    expect(results).toMatchObject({
      "0": starved,
      "1": starved,
      "2": starved,
      "3": starved,
      "40": { kind: "ok", output: { stdout: "fed\n" } },
    });
  });
});

describe("a command that can be started", () => {
  test("is found in PATH after a directory of its name", async () => {
    const path = `${file("first")}::relative:${file("second")}`;
    const { settled } = runCommand(command(["tool"]), { environment: { PATH: path } });
    expect(await settled).toMatchObject({ kind: "ok", output: { stdout: "the second\n" } });
    const only = runCommand(command(["tool"]), { environment: { PATH: file("first") } });
    expect(await only.settled).toStrictEqual(failure("not_executable", `${file("first/tool")} is not a file`));
  });

  test("is found from the working directory, and runs there", async () => {
    expect(await run(["./good"], folder)).toMatchObject({ kind: "ok" });
    expect(await run(["pwd"], "/usr")).toMatchObject({ kind: "ok", output: { stdout: "/usr\n" } });
  });
});

test.each([
  [{ timeout: 0 }],
  [{ timeout: -1 }],
  [{ timeout: Number.NaN }],
  [{ timeout: Infinity }],
  [{ timeout: 3e6 }],
  [{ maxBytes: 0 }],
  [{ maxBytes: Infinity }],
])("a command without finite limits is not started: %j", (limits) => {
  const [value] = Object.values(limits);
  expect(() => runCommand(command(["true"], limits))).toThrow(`of the command true is ${value}. Nothing was started.`);
});
