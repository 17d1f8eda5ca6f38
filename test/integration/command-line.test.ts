// What every command has: help with examples, suggestions, errors that say what to do and where to read on, and a reader that may go away.
import { spawnSync } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { EXAMPLES } from "../../bin/show/examples.ts";
import { ERRORS } from "../../lib/shared/errors.ts";
import { ensureTools } from "../../scripts/setup.ts";
import { type CliRun, bundledCli, jsonOf, leastSettings, runCli } from "../support/run-cli.ts";
import { scratchDirectory } from "../support/store-script.ts";

let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let program: readonly string[];
let commands: readonly string[];

const cli = (args: readonly string[], env: Record<string, string> = {}): Promise<CliRun> =>
  runCli(args, { cwd: scratch.path, program, env });

beforeAll(async () => {
  scratch = await scratchDirectory();
  program = bundledCli(scratch.path);
  const { stdout } = await cli(["--help"]);
  commands = [...stdout.matchAll(/^ {2}([a-z]+) /gm)].map(([, name = ""]) => name).filter((name) => name !== "help");
}, 120_000);
afterAll(() => scratch.remove());

/** The options in a line of the command line. */
const optionsIn = (line: string): readonly string[] => line.match(/(?<= )--?[a-z][a-z-]*/g) ?? [];

describe("help", () => {
  test("of each command has examples, each with options that there are", async () => {
    expect(commands.length).toBeGreaterThan(9);
    expect(Object.keys(EXAMPLES).toSorted((a, b) => a.localeCompare(b))).toEqual(
      commands.toSorted((a, b) => a.localeCompare(b)),
    );
    for (const command of commands) {
      const { code, stdout } = await cli([command, "--help"]);
      const [options = "", examples = ""] = stdout.split("\nExamples:\n");
      const lines = examples.split("\n").filter((line) => line.startsWith("  gridmeter "));
      expect([command, code, lines.length > 0]).toEqual([command, 0, true]);
      expect(lines.every((line) => line.startsWith(`  gridmeter ${command} `))).toBe(true);
      const known = new Set(options.match(/--?[a-z][a-z-]*/g));
      expect(lines.flatMap(optionsIn).filter((option) => !known.has(option))).toEqual([]);
    }
  });

  test("says where the documents are and where to report a fault", async () => {
    const { stdout } = await cli(["--help"]);
    expect(stdout).toContain("Where to report a fault: docs/errors.md#unexpected");
  });

  test.each([
    [["acount"], "account"],
    [["acount", "--help"], "account"],
    [["help", "acount"], "account"],
    [["reprot", "--demo"], "report"],
    [["agnet", "--help"], "agent"],
    [["help", "prob"], "probe"],
  ])("%j is refused, and %s suggested", async (args, meant) => {
    const run = await cli(args);
    expect([run.code, run.stdout]).toEqual([2, ""]);
    expect(run.stderr).toContain(`did you mean ${meant}?`);
    expect(run.stderr).toContain("docs/errors.md#usage");
  });

  test("a misspelt option is refused, and the right one suggested", async () => {
    const run = await cli(["account", "--forse"]);
    expect(run.code).toBe(2);
    expect(run.stderr).toContain("(Did you mean --force?)");
  });
});

describe("errors", () => {
  test("each ends with the page about it, in one line and in several", async () => {
    const one = await cli(["report", "--csv", "nothing"]);
    expect(one.stderr.trimEnd().split("\n")).toHaveLength(1);
    expect(one.stderr).toMatch(/Nothing was written\. See docs\/errors\.md#usage\n$/);
    const several = await cli(["account"]);
    expect(several.stderr.trimEnd().split("\n").length).toBeGreaterThan(2);
    expect(several.stderr).toMatch(/\nSee docs\/errors\.md#config_invalid\n$/);
  });

  test("of a run, too: what a month was refused for, and what was not sent", async () => {
    const run = await cli(
      ["account", "--output", `dirq:${join(scratch.path, "queue")}`],
      leastSettings("http://127.0.0.1:9"),
    );
    expect(run.code).toBe(4);
    const lines = run.stderr.split("\n").filter((line) => line.includes("prometheus_unreachable:"));
    expect(lines.length).toBeGreaterThan(0);
    for (const line of lines) expect(line).toMatch(/ See docs\/errors\.md#prometheus_unreachable$/);
  });

  test("each code has a meaning and a remedy, which are sentences", () => {
    for (const [code, { meaning, remedy }] of Object.entries(ERRORS)) {
      expect([code, meaning, remedy]).toEqual([
        code,
        expect.stringMatching(/^\S.*\.$/),
        expect.stringMatching(/^[A-Z].*\.$/),
      ]);
    }
  });
});

describe("a pipe that is closed is no fault", () => {
  const bash = (script: string) => spawnSync("bash", ["-c", script], { encoding: "utf8", cwd: scratch.path });

  test.each([
    ["report --demo --csv daily", 0],
    ["report --demo --json", 0],
    ["report --demo", 0],
    ["completion bash", 0],
    ["report --from nothing", 2],
  ])("%s", (command, code) => {
    const { stderr } = bash(
      `${program.join(" ")} ${command} 2>errors | true; echo "\${PIPESTATUS[0]}" >&2; cat errors >&2`,
    );
    const [status, ...said] = stderr.trimEnd().split("\n");
    expect(Number(status)).toBe(code);
    expect(said.join()).not.toMatch(/EPIPE|unexpected|at /);
  });

  test("nor is one for its errors", () => {
    const { stderr } = bash(`${program.join(" ")} account 2>&1 >/dev/null | true; echo "\${PIPESTATUS[0]}" >&2`);
    expect(stderr.trim()).toBe("2");
  });
});

test("version says what a report of a fault should say", async () => {
  expect((await cli(["version"])).stdout).toMatch(/^gridmeter \S+ \(Node v\d+\.\d+\.\d+, linux-\w+\)\n$/);
  const found = z
    .object({ version: z.string(), node: z.string(), platform: z.string() })
    .parse(jsonOf(await cli(["version", "--json"])));
  expect(found.node).toBe(process.version);
});

describe("completion", () => {
  let scripts: Record<string, string>;

  beforeAll(async () => {
    ensureTools(["zsh", "fish"]);
    scripts = {};
    for (const shell of ["bash", "zsh", "fish"]) {
      const { stdout, code } = await cli(["completion", shell]);
      expect(code).toBe(0);
      scripts[shell] = join(scratch.path, `completion.${shell}`);
      await writeFile(scripts[shell], stdout);
    }
    await mkdir(join(scratch.path, "files"), { recursive: true });
    await writeFile(join(scratch.path, "files", "kapel.env"), "");
    await writeFile(join(scratch.path, "files", "two words.env"), "");
  }, 120_000);

  const run = (shell: string, ...args: string[]): readonly string[] => {
    const { stdout, stderr, status } = spawnSync(shell, args, {
      encoding: "utf8",
      cwd: join(scratch.path, "files"),
      env: { PATH: process.env["PATH"], HOME: scratch.path, TERM: "dumb" },
    });
    expect([status, stderr]).toEqual([0, ""]);
    return stdout.split("\n").filter((line) => line !== "");
  };

  /** What the shell offers for a line whose last word is being written. */
  const OFFERED: Readonly<Record<string, (words: readonly string[]) => readonly string[]>> = {
    bash: (words) => {
      const line = `source ${scripts["bash"]}; COMP_WORDS=(gridmeter ${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length}; _gridmeter; printf '%s\\n' "\${COMPREPLY[@]}"`;
      return run("bash", "--norc", "-c", line);
    },
    fish: (words) =>
      run("fish", "--no-config", "-c", `source ${scripts["fish"]}; complete -C 'gridmeter ${words.join(" ")}'`).map(
        (line) => line.split("\t")[0] ?? "",
      ),
    zsh: (words) => {
      // A terminal of its own, in which the keys are pressed as a person would: TAB, TAB, to see the list.
      const line = `gridmeter ${words.join(" ")}`;
      const script = `zmodload zsh/zpty; zpty -b z zsh -f -i; zpty -w z "PS1=; PROMPT_EOL_MARK=; autoload -Uz compinit; compinit -u -D; zstyle ':completion:*' list-prompt ''; LISTMAX=0; COLUMNS=200; source ${scripts["zsh"]}; print READY"; sleep 1.5; zpty -w -n z $'${line}\\t\\t'; sleep 1; out=; while zpty -r -t z chunk; do out+=$chunk; done; print -r -- "\${out##*READY}"; zpty -d z`;
      const text = run("zsh", "-f", "-c", script).join("\n");
      return stripVTControlCharacters(text).split(/[\s\r]+/);
    },
  };

  const CASES: readonly (readonly [words: readonly string[], offered: readonly string[], not: readonly string[]])[] = [
    [["re"], ["report", "reap"], ["account"]],
    [["account", "--al"], ["--allow-decrease", "--allow-incomplete"], ["--unpin"]],
    [["account", "--mode", ""], ["auto", "gap"], []],
    [["reap", "--"], ["--older-than", "--dry-run"], ["--env-file"]],
    [["completion", ""], ["bash", "zsh", "fish"], []],
    [["help", "ac"], ["account"], []],
  ];

  describe.each(["bash", "fish"])("in %s", (shell) => {
    test.each(CASES)("%j", (words, offered, not) => {
      const found = OFFERED[shell]!(words);
      expect(found).toEqual(expect.arrayContaining([...offered]));
      expect(found.filter((word) => not.includes(word))).toEqual([]);
    });

    test("files where a file is wanted, names with blanks whole; nothing where a time is wanted", () => {
      const files = OFFERED[shell]!(["account", "--env-file", ""]).map((name) => name.replaceAll("\\", ""));
      expect(files).toEqual(expect.arrayContaining(["kapel.env", "two words.env"]));
      expect(OFFERED[shell]!(["account", "--start", ""])).toEqual([]);
    });
  });

  test.each(CASES.slice(0, 5))("in zsh: %j", (words, offered, not) => {
    const found = OFFERED["zsh"]!(words);
    expect(found).toEqual(expect.arrayContaining([...offered]));
    expect(found.filter((word) => not.includes(word))).toEqual([]);
  });
});
