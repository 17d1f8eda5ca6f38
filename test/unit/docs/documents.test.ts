import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { monthsTable } from "../../../bin/show/run.ts";
import { ABOUT } from "../../../lib/accounting/settings/table.ts";
import { ERRORS } from "../../../lib/shared/errors.ts";
import { anchors, code, links, read, ROOT, WRITTEN } from "./markdown.ts";

const packageJson = z
  .object({
    scripts: z.record(z.string(), z.string()),
    engines: z.object({ node: z.string() }),
    dependencies: z.record(z.string(), z.string()),
    devDependencies: z.record(z.string(), z.string()),
  })
  .parse(JSON.parse(read("package.json")));
const README = read("README.md");
/** Documents that show how the command line is used. */
const GUIDES = ["README.md", "docs/ssmsend-host.md", "docs/operations.md", "docs/sending.md"];
/** Options of other programs that these documents name. */
const SERVERLESS = new Set(["--param", "--stage", "--env", "--tier"]);

const exists = (path: string): boolean => existsSync(join(ROOT, path));

/** `gridmeter COMMAND`, or the built file run by Node. */
const COMMAND = /(?:^|node \S+\/)gridmeter(?:-agent)?(?:\.cjs)? ([a-z]+)/;

/** Settings of the deployment and of the spooler's unit, which the command line's table does not have. */
const DEPLOYED = new Set(
  ["serverless.yml", "deploy/systemd/gridmeter-spool.env.example"].flatMap((path) =>
    [...read(path).matchAll(/\b[A-Z]+_[A-Z_0-9]+\b/g)].map(([name]) => name),
  ),
);

/** Settings in a document; what the code calls by such names is none. */
const settingsIn = (text: string): readonly string[] =>
  code(text, ["sh"])
    .flatMap((line) => line.match(/^[A-Z]+_[A-Z_]+(?==|$)/) ?? [])
    .filter((name) => name !== "QUERY_VERSION");

describe.for(WRITTEN)("%s", (path) => {
  const text = read(path);

  test("has only links that lead somewhere", () => {
    const broken = links(text).filter((target) => {
      const [file = "", anchor] = target.split("#");
      const linked = file === "" ? path : relative(ROOT, join(ROOT, dirname(path), file));
      return !exists(linked) || (anchor !== undefined && !anchors(read(linked)).includes(anchor));
    });
    expect(broken).toEqual([]);
  });

  test("names only files that exist", () => {
    const named = code(text, []).filter((one) => /^(bin|lib|test|scripts|docs|\.ci)\/[\w./-]*$/.test(one));
    expect(named.filter((one) => !exists(one))).toEqual([]);
  });

  test("names only scripts that package.json has", () => {
    const named = [...text.matchAll(/\bnpm run ([\w-]+)/g)].map(([, name = ""]) => name);
    expect(named.filter((name) => !(name in packageJson.scripts))).toEqual([]);
  });

  test("names only settings and error codes that exist", () => {
    expect(settingsIn(text).filter((name) => !ABOUT.has(name) && !DEPLOYED.has(name))).toEqual([]);
    const codes = [...text.matchAll(/`(\w+_(?:refused|seen|incomplete|invalid|unknown|conflict|failed))`/g)];
    expect(codes.map(([, one = ""]) => one).filter((one) => !(one in ERRORS))).toEqual([]);
  });
});

describe("the command line in the documents", () => {
  const help = new Map<string, string>();

  beforeAll(async () => {
    const ask = async (...args: readonly string[]): Promise<string> =>
      (await promisify(execFile)(process.execPath, [join(ROOT, "bin/gridmeter.ts"), ...args, "--help"])).stdout;
    const commands = [...(await ask()).matchAll(/^ {2}([a-z]+) /gm)].map(([, name = ""]) => name);
    for (const command of commands.filter((name) => name !== "help")) help.set(command, await ask(command));
  });

  test.for(GUIDES)("%s has only commands and options that there are", (path) => {
    const text = read(path);
    const lines = code(text, ["sh", "cron"]).filter((line) => COMMAND.test(line));
    expect(lines.length).toBeGreaterThan(5);
    const unknown = lines.flatMap((line) => {
      const command = COMMAND.exec(line)?.[1] ?? "";
      const known = help.get(command);
      const options = line.match(/(?<= )--?[a-z][a-z-]*/g) ?? [];
      return known === undefined ? [command] : options.filter((option) => !known.includes(option));
    });
    expect(unknown).toEqual([]);
    const all = [...help.values()].join("\n");
    const alone = code(text, []).flatMap((one) => one.match(/^--[a-z-]+/) ?? []);
    expect(alone.filter((option) => !all.includes(option) && !SERVERLESS.has(option))).toEqual([]);
  });
});

describe("README.md", () => {
  test("has the exit codes that docs/errors.md has", () => {
    const rows = [...README.matchAll(/^\| (\d) \| (\w+)/gm)].map(([, exit, word]) => `${exit} ${word}`);
    const [, generated = ""] = /Exit codes of the command line: ([^.]*)/.exec(read("docs/errors.md")) ?? [];
    expect(rows).toEqual(generated.split(",").map((one) => one.trim().split(" ").slice(0, 2).join(" ")));
    const exits = new Set(rows.map((row) => Number(row.split(" ")[0])));
    expect(Object.values(ERRORS).filter(({ exit }) => !exits.has(exit))).toEqual([]);
  });

  test("shows the table that `account` prints", () => {
    const empty = {
      now: 0,
      months: [],
      noEnd: {},
      asked: { days: 0, pieces: 0 },
      damaged: [],
      interrupted: false,
      exitCode: 0,
    };
    const [, head = ""] = monthsTable(empty).split("\n");
    const cells = (line: string): readonly string[] => line.split("│").map((cell) => cell.trim());
    const shown = README.split("\n").filter((line) => line.startsWith("│ month"));
    expect(shown.map(cells)).toEqual([cells(head)]);
  });

  test("tells the truth about the packages it explains", () => {
    expect(packageJson.devDependencies["serverless"]).toMatch(/^npm:osls@/);
    expect(packageJson.dependencies).not.toHaveProperty("aws-sdk");
    expect(packageJson.dependencies["@aws-sdk/client-s3"]).toMatch(/^3\./);
    expect(packageJson.engines.node).toBe(">=20");
  });
});
