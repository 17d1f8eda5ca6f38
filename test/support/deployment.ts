import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";

const root = resolve(import.meta.dirname, "..", "..");
const bin = join(root, "node_modules", ".bin");
/** What a deployment is made of; what is built there lands in the copy, so that tests never meet each other's. */
const PARTS = ["serverless.yml", "package.json", "deploy", "lib", "functions", "scripts", "events"];

export type Ended = { readonly code: number | null; readonly output: string; readonly stdout: string };
export type Environment = Readonly<Record<string, string>>;

/** A copy of the project in a folder of its own. */
export type Deployment = {
  readonly folder: string;
  /** Runs a program in the copy with no environment but PATH, an empty HOME and what is given. */
  run(program: string, args: readonly string[], env?: Environment): Promise<Ended>;
  /** `npm run package` as package.json has it, but for npm; `output` is where the template and the archives go. */
  package(args?: readonly string[], env?: Environment): Promise<Ended>;
  /** Connections to other machines that programs run with `offline` tried to make. */
  connections(): Promise<readonly string[]>;
  /** For `env`: whoever connects to another machine fails and is noted down. */
  readonly offline: Environment;
  remove(): Promise<void>;
};

export async function copyProject(): Promise<Deployment> {
  const folder = await mkdtemp(join(tmpdir(), "gridmeter-deployment-"));
  await Promise.all(PARTS.map((part) => cp(join(root, part), join(folder, part), { recursive: true })));
  await symlink(join(root, "node_modules"), join(folder, "node_modules"));
  await mkdir(join(folder, "home"));
  const tries = join(folder, "connections.log");
  const guard = join(folder, "offline.cjs");
  await writeFile(guard, offlineGuard(tries));
  const run: Deployment["run"] = async (program, args, env = {}) => {
    const child = spawn(program, args, {
      cwd: folder,
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: bin + delimiter + (process.env["PATH"] ?? ""), HOME: join(folder, "home"), ...env },
    });
    let stdout = "";
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => ((stdout += text), (output += text)));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (output += text));
    await once(child, "close");
    return { code: child.exitCode, output, stdout };
  };
  return {
    folder,
    run,
    package: (args = [], env = {}) => run("node", ["scripts/run.mjs", "scripts/package.ts", ...args], env),
    connections: async () => (existsSync(tries) ? (await readFile(tries, "utf8")).trim().split("\n") : []),
    offline: { NODE_OPTIONS: `--require=${guard}` },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

function offlineGuard(tries: string): string {
  return `const net = require("node:net"); const dns = require("node:dns"); const { appendFileSync } = require("node:fs");
const note = (what) => { appendFileSync(${JSON.stringify(tries)}, what + "\\n"); throw new Error("offline: " + what); };
const connect = net.Socket.prototype.connect;
net.Socket.prototype.connect = function (...args) {
  const [first] = Array.isArray(args[0]) ? args[0] : args;
  if (typeof first === "string" || first?.path !== undefined) return connect.apply(this, args);
  return note("connect " + JSON.stringify(first));
};
dns.lookup = (name) => note("look up " + name);
`;
}

/** Runs cfn-lint on a template; its findings, empty if there are none. */
export async function cfnLint(deployment: Deployment, template: string): Promise<string> {
  const lint = await deployment.run("cfn-lint", ["--regions", "eu-central-1", "--template", template], {
    HOME: process.env["HOME"] ?? "/",
    PATH: process.env["PATH"] ?? "",
  });
  return lint.code === 0 ? lint.output : lint.output || `cfn-lint ended with ${String(lint.code)}`;
}
