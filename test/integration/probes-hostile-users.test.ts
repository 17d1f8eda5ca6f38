import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { runCommand } from "../../lib/agent/command/run.ts";
import { PS_DEFAULTS, parsePs } from "../../lib/agent/probes/ps.ts";
import {
  GenuineTools,
  type LongStanding,
  type Process,
  type ProcessState,
  waitsForItsUser,
} from "../../lib/agent/probes/ps-watch.ts";
import { createProbe } from "../../lib/agent/probes/registry.ts";
import { valuesBy } from "../support/metrics.ts";

const NOBODY = 65_534;
const isRoot = process.getuid?.() === 0;
let home: string;
let children: ChildProcess[] = [];

beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), "gridmeter-hostile-"));
  chmodSync(home, 0o755);
});
afterAll(() => rmSync(home, { recursive: true }));
afterEach(async () => {
  const gone = children.map((child) => (child.exitCode ?? child.signalCode) === null && once(child, "exit"));
  for (const child of children) child.kill("SIGKILL");
  for (const one of gone) if (one !== false) await one;
  children = [];
});

const asUser = (program: string, args: readonly string[], argv0 = program): ChildProcess => {
  const user = isRoot ? { uid: NOBODY, gid: NOBODY } : {};
  const child = spawn(program, args, { ...user, argv0, cwd: "/", stdio: "ignore" });
  children.push(child);
  return child;
};

/** As the probe asks for processes. */
const PS = { argv: PS_DEFAULTS.command, timeout: PS_DEFAULTS.timeout, maxBytes: PS_DEFAULTS.maxBytes };

const readPs = async (): Promise<readonly Process[]> => {
  const result = await runCommand(PS).settled;
  if (result.kind !== "ok") throw new Error(JSON.stringify(result).slice(0, 500));
  const { value, rejected } = parsePs(result.output);
  expect(rejected).toBe(0);
  return value;
};

const processOf = async (pid: number | undefined): Promise<Process | undefined> =>
  (await readPs()).find((process) => process.pid === pid);

/** Waits in vfork for as long as nobody opens the other end of a FIFO, which its child does before it runs a program. */
const VFORK = (fifo: string): string => `
#define _GNU_SOURCE
#include <unistd.h>
#include <fcntl.h>
int main(void) { if (vfork() == 0) { open("${fifo}", O_RDONLY); _exit(0); } return 0; }
`;

const compile = (name: string, source: string): string => {
  const program = join(home, name);
  writeFileSync(`${program}.c`, source);
  execFileSync("cc", ["-O0", "-w", "-o", program, `${program}.c`]);
  chmodSync(program, 0o755);
  return program;
};

describe("a process in state D by vfork, called nvidia-smi by a user", () => {
  test("waits for its user, and is no tool of the node", async () => {
    const fifo = join(home, "fifo");
    execFileSync("mkfifo", ["-m", "666", fifo]);
    const child = asUser(compile("nvidia-smi", VFORK(fifo)), []);
    await expect.poll(async () => (await processOf(child.pid))?.state, { timeout: 20_000 }).toBe("D");
    const seen = await processOf(child.pid);
    expect(seen).toMatchObject({ name: "nvidia-smi", state: "D", isRoot: false });
    // where the kernel does not give its functions away, the user and the executable are left
    if (seen?.wait !== undefined) expect(waitsForItsUser(seen)).toBe(true);
    const tools = new GenuineTools("/proc");
    const named = await tools.name({ uninterruptible: [seen!], zombies: [] }, 5);
    expect(named.uninterruptible.map(({ name }) => name)).toEqual(["other"]);
    const probe = createProbe("ps", { longStanding: 0.2 });
    await probe.run();
    await new Promise((resolve) => setTimeout(resolve, 400));
    const { metrics, kind } = await probe.run();
    expect(kind).toBe("ok");
    expect(valuesBy(metrics, "gridmeter_process_uninterruptible", "command")).not.toHaveProperty("nvidia-smi");
    const exited = once(child, "exit");
    // the child of vfork goes on, and both end
    closeSync(openSync(fifo, constants.O_WRONLY | constants.O_NONBLOCK));
    await exited;
  }, 60_000);
});

test("131 processes with names of 131 kB each: ps is read, and says little", async () => {
  const long = "x".repeat(131_000);
  for (let count = 0; count < 131; count++) asUser("/bin/sleep", ["300"], long);
  const result = await runCommand(PS).settled;
  if (result.kind !== "ok") throw new Error(JSON.stringify(result).slice(0, 500));
  expect(result.output.stdout.length).toBeLessThan(1_000_000);
  const pids = new Set(parsePs(result.output).value.map(({ pid }) => pid));
  expect(children.every(({ pid }) => pids.has(pid ?? 0))).toBe(true);
}, 60_000);

test("whatever a user calls a process, each has one row with its own number", async () => {
  const nasty = fc.string({
    unit: fc.constantFrom("\n", "\t", " ", "D", "1", "0", "-", "/", ":", "[", "]", "\u001b", "é"),
    minLength: 1,
    maxLength: 15,
  });
  for (const name of [...fc.sample(nasty, 20), "nvidia-smi", "D 1 1 0 0 - a", "\nD 1 1 0 0 - a"]) {
    const file = name.replaceAll(/[/\0]/g, "_");
    const folder = mkdtempSync(join(home, "named-"));
    chmodSync(folder, 0o755);
    symlinkSync("/bin/sleep", join(folder, file));
    asUser(join(folder, file), ["300"], name);
  }
  const seen = await readPs();
  for (const { pid } of children) {
    const rows = seen.filter((process) => process.pid === pid);
    expect(rows).toHaveLength(1);
    expect(rows[0]?.isRoot).toBe(false);
  }
  const alive = new Set(
    readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map(Number),
  );
  expect(seen.filter(({ pid }) => !alive.has(pid)).length).toBeLessThan(5);
}, 60_000);

describe.runIf(isRoot)("who is a tool of the node", () => {
  const ID = "0a1b2c3d".repeat(8);
  const CGROUPS = {
    host: "0::/system.slice/sshd.service\n",
    container: `0::/system.slice/docker-${ID}.scope\n`,
    "a user's own group": `0::/user.slice/user-7.slice/user@7.service/docker-${ID}.scope\n`,
  } as const;
  const EXECUTABLES = [
    "root's",
    "root's, of another name",
    "a user's",
    "one that all may write",
    "an interpreter",
    "none",
  ] as const;
  const UIDS = ["0\t0\t0\t0", "1000\t1000\t1000\t1000", "1000\t0\t0\t0", "0\t1000\t0\t0"] as const;
  type Situation = {
    readonly cgroup: keyof typeof CGROUPS;
    readonly executable: (typeof EXECUTABLES)[number];
    readonly uid: (typeof UIDS)[number];
    readonly asked: boolean;
  };

  const fileOf = (executable: (typeof EXECUTABLES)[number]): string | undefined => {
    if (executable === "none") return undefined;
    const names = { "root's, of another name": "python-less", "an interpreter": "python3.11" } as const;
    const name =
      executable === "root's, of another name"
        ? "sleep"
        : executable === "an interpreter"
          ? names["an interpreter"]
          : "nvidia-smi";
    const folder = mkdtempSync(join(home, "exe-"));
    const file = join(folder, name);
    copyFileSync("/bin/true", file);
    chmodSync(file, executable === "one that all may write" ? 0o777 : 0o755);
    if (executable === "a user's") execFileSync("chown", ["1000", file]);
    return file;
  };

  const isGenuine = async ({ cgroup, executable, uid, asked }: Situation): Promise<boolean> => {
    const proc = mkdtempSync(join(home, "proc-"));
    mkdirSync(join(proc, "7"));
    writeFileSync(join(proc, "7", "cgroup"), CGROUPS[cgroup]);
    writeFileSync(join(proc, "7", "status"), `Name:\tnvidia-smi\nUid:\t${uid}\nGid:\t0\t0\t0\t0\n`);
    const file = fileOf(executable);
    if (file !== undefined) symlinkSync(file, join(proc, "7", "exe"));
    const isRootBy = uid === UIDS[0];
    const state: ProcessState = "D";
    const one = { state, pid: 7, residentBytes: 0, commandLine: "nvidia-smi", name: "nvidia-smi" };
    const standing: LongStanding = { uninterruptible: [asked ? { ...one, isRoot: isRootBy } : one], zombies: [] };
    const named = await new GenuineTools(proc).name(standing, 5);
    return named.uninterruptible[0]?.name === "nvidia-smi";
  };

  test("root's process on the host, whose executable is root's and called so, or an interpreter; nobody else's", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          cgroup: fc.constantFrom<keyof typeof CGROUPS>("host", "container", "a user's own group"),
          executable: fc.constantFrom(...EXECUTABLES),
          uid: fc.constantFrom(...UIDS),
          asked: fc.boolean(),
        }),
        async (situation) => {
          const right =
            situation.uid === UIDS[0] &&
            situation.cgroup !== "container" &&
            (situation.executable === "root's" || situation.executable === "an interpreter");
          expect([situation, await isGenuine(situation)]).toEqual([situation, right]);
        },
      ),
      { numRuns: 100 },
    );
  }, 60_000);

  test("in a container, the very file that the agent would start", async () => {
    const folder = mkdtempSync(join(home, "tools-"));
    const tool = join(folder, "nvidia-smi");
    copyFileSync("/bin/true", tool);
    const proc = mkdtempSync(join(home, "proc-"));
    mkdirSync(join(proc, "7"));
    writeFileSync(join(proc, "7", "cgroup"), CGROUPS.container);
    symlinkSync(tool, join(proc, "7", "exe"));
    const one = {
      state: "D",
      pid: 7,
      residentBytes: 0,
      commandLine: "nvidia-smi",
      name: "nvidia-smi",
      isRoot: true,
    } as const;
    const nameNow = async () =>
      (await new GenuineTools(proc).name({ uninterruptible: [one], zombies: [] }, 5)).uninterruptible[0]?.name;
    expect(await nameNow()).toBe("other");
    const path = process.env["PATH"];
    process.env["PATH"] = `${folder}:${path}`;
    try {
      expect(await nameNow()).toBe("nvidia-smi");
    } finally {
      process.env["PATH"] = path;
    }
    expect(readFileSync(tool).length).toBeGreaterThan(0);
  });
});
