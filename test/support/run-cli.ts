import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFile, readdir } from "node:fs/promises";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import { z } from "zod";
import type { ErrorSummary } from "../../lib/shared/errors.ts";
import type { RunSummary } from "../../lib/accounting/summary.ts";
import { readMessage } from "../../lib/accounting/apel/read.ts";
import type { ApelRecord } from "../../lib/accounting/apel/record.ts";
import type { DeliveryReport } from "../../lib/accounting/delivery/order.ts";
import { dirqTool } from "./dirq-tool.ts";

/** How a run of the command line ended. */
export type CliRun = {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
};

export type CliOptions = {
  /** the working directory; the defaults of --ledger and --output lie in it */
  readonly cwd: string;
  /** all of the environment but PATH, HOME and TZ */
  readonly env?: Readonly<Record<string, string>>;
  /** the program and its first arguments; default: `node bin/gridmeter.ts` */
  readonly program?: readonly string[];
};

const SOURCE = fileURLToPath(new URL("../../bin/gridmeter.ts", import.meta.url));

/** The command line as it stands in the tree. */
export const fromSource: readonly string[] = [process.execPath, SOURCE];

/** The command line as its two files, which start faster than the sources; for tests that run it often. Made in the folder. */
export function bundledCli(folder: string): readonly string[] {
  const entryPoints = [SOURCE, SOURCE.replace(/\.ts$/, "-agent.ts")];
  const outExtension = { ".js": ".cjs" };
  buildSync({
    entryPoints,
    outdir: folder,
    outExtension,
    bundle: true,
    platform: "node",
    format: "cjs",
    target: "node24",
  });
  return [process.execPath, join(folder, "gridmeter.cjs")];
}

/** Starts the real command line as a child process. It never sees the settings of whoever runs the tests. */
export function startCli(
  args: readonly string[],
  options: CliOptions,
): { readonly child: ChildProcess; readonly ended: Promise<CliRun> } {
  const { cwd, env = {}, program = fromSource } = options;
  const [command = "", ...first] = program;
  const child = spawn(command, [...first, ...args], {
    cwd,
    stdio: ["ignore", "pipe", "pipe"],
    // An odd zone: months are UTC wherever it runs.
    env: { PATH: process.env["PATH"], HOME: cwd, TZ: "America/St_Johns", ...env },
  });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const ended = once(child, "close").then((): CliRun => ({
    code: child.exitCode,
    signal: child.signalCode,
    stdout,
    stderr,
  }));
  return { child, ended };
}

export function runCli(args: readonly string[], options: CliOptions): Promise<CliRun> {
  return startCli(args, options).ended;
}

/** The settings that a run cannot do without, as a user of KAPEL has them. */
export function leastSettings(url: string, more: Readonly<Record<string, string>> = {}): Record<string, string> {
  return {
    PROMETHEUS_SERVER: url,
    NAMESPACE: "mixed",
    SITE_NAME: "EXAMPLE-SITE",
    SUBMIT_HOST: "k8s.example.org:6443/mixed",
    VO_NAME: "example.vo",
    BENCHMARK_VALUE: "10",
    ...more,
  };
}

/** The options of a gap run from one month up to, not including, another (`yyyy-mm`). */
export function gap(first: string, after: string): string[] {
  return ["--mode", "gap", "--start", `${first}-01T00:00:00Z`, "--end", `${after}-01T00:00:00Z`];
}

/** The one JSON object that stdout is. Throws if it is anything more or less. */
export function jsonOf(run: CliRun): unknown {
  const lines = run.stdout.split("\n");
  if (lines.length !== 2 || lines[1] !== "") throw new Error(`stdout is not one line:\n${run.stdout}\n${run.stderr}`);
  return JSON.parse(lines[0] ?? "");
}

/** What `gridmeter account --json` prints of a run that began. */
export type AccountResult = RunSummary & {
  readonly dryRun: boolean;
  readonly queue: string;
  readonly delivery: readonly DeliveryReport[];
  readonly errors: readonly ErrorSummary[];
};

const accountResult = z.custom<AccountResult>(
  (value) => z.object({ months: z.array(z.unknown()) }).safeParse(value).success,
);

export function resultOf(run: CliRun): AccountResult {
  return accountResult.parse(jsonOf(run), { error: () => `no result of a run:\n${run.stdout}\n${run.stderr}` });
}

/** The records in a dirq, as the real python-dirq reads it, in its order. @param now epoch seconds */
export async function recordsIn(queue: string, now: number): Promise<ApelRecord[]> {
  const bodies = z.array(z.string()).parse(await dirqTool("read", queue));
  return bodies.flatMap((body) => readMessage(body, now));
}

/** Every file and directory below a folder, with a hash of what it holds, sorted: equal trees have equal lists. */
export async function treeOf(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const lines = entries.map(async (entry) => {
    const path = join(entry.parentPath, entry.name);
    const name = relative(folder, path);
    if (!entry.isFile()) return `${name}/`;
    const body = await readFile(path);
    return `${name} ${createHash("sha256").update(body).digest("hex").slice(0, 16)}`;
  });
  return (await Promise.all(lines)).sort();
}

/** What a run may not leave behind when nothing was published: messages in the queue, or waiting in the ledger. */
export async function messagesIn(folder: string): Promise<string[]> {
  const lines = await treeOf(folder);
  return lines.filter((line) =>
    /(^|\/)[0-9a-f]{8}\/[0-9a-f]{14} |(^|\/)(outgoing|spooled)\/.*-[0-9a-f]{32}/.test(line),
  );
}
