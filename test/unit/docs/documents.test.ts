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
const HOST = read("docs/ssmsend-host.md");
/** A screen of a person who reads it on the project's page, lines. */
const SCREEN = 75;
/** Documents that show how the command line is used. */
const GUIDES = [
  "README.md",
  "docs/moving-from-kapel.md",
  "docs/ssmsend-host.md",
  "docs/deploy.md",
  "docs/run.md",
  "docs/correct.md",
  "docs/report.md",
  "docs/sending.md",
];
/** Variables that other programs have named. */
const COMMON = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];
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
    expect(
      settingsIn(text).filter((name) => !ABOUT.has(name) && !DEPLOYED.has(name) && !COMMON.includes(name)),
    ).toEqual([]);
    const codes = [
      ...text.matchAll(/`((?!gridmeter_)\w+_(?:refused|seen|incomplete|invalid|unknown|conflict|failed))`/g),
    ];
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
    expect(lines.length, path).toBeGreaterThan(3);
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

test("docs/deploy.md names every setting that serverless.yml reads beside the command line's", () => {
  const [deployed, guide, local] = [read("serverless.yml"), read("docs/deploy.md"), read(".env.local.example")];
  const settings = [...deployed.matchAll(/\$\{env:([A-Z0-9_]+)/g)].map(([, name = ""]) => name);
  const own = new Set(settings.filter((name) => !ABOUT.has(name) && !/^(AWS|S3)_/.test(name) && !local.includes(name)));
  expect(own.size).toBeGreaterThan(15);
  expect([...own].filter((name) => !guide.includes(`\`${name}`))).toEqual([]);
});

describe("README.md", () => {
  test("is one screen, with four quick starts of three lines", () => {
    const text = read("README.md");
    expect(text.split("\n").length).toBeLessThanOrEqual(SCREEN);
    const [, quick = ""] = text.split("## Quick starts");
    const blocks = [...quick.matchAll(/```sh\n([^]*?)```/g)].map(([, body = ""]) => body.trim().split("\n").length);
    expect(blocks).toEqual([3, 3, 3, 3]);
  });
});

describe("docs/ssmsend-host.md", () => {
  test("has the exit codes that docs/errors.md has", () => {
    const rows = [...HOST.matchAll(/^\| (\d) \| (\w+)/gm)].map(([, exit, word]) => `${exit} ${word}`);
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
    const shown = HOST.split("\n").filter((line) => line.startsWith("│ month"));
    expect(shown.map(cells)).toEqual([cells(head)]);
  });

  test("and docs/architecture.md tells the truth about the packages it explains", () => {
    expect(packageJson.devDependencies["serverless"]).toMatch(/^npm:osls@/);
    expect(packageJson.dependencies).not.toHaveProperty("aws-sdk");
    expect(packageJson.dependencies["@aws-sdk/client-s3"]).toMatch(/^3\./);
    expect(packageJson.engines.node).toBe(">=20");
  });
});
