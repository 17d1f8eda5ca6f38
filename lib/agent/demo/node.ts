import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { ProbeSettings } from "../probes/common/settings.ts";
import {
  CONTAINERS,
  EXTERNAL_PID,
  MARKER,
  dockerInfo,
  dockerInspect,
  dockerLogs,
  dockerPs,
  dockerStats,
  iftop,
  lsof,
  ps,
} from "./containers.ts";
import { nvidiaSmiLog } from "./gpus.ts";

/** What the node is called, unless it is given another name. */
export const DEMO_INSTANCE = "made-up-node";
/** Its groups on a Pushgateway are not those of real agents. */
const DEMO_JOB = "gridmeter_agent_demo";

/** Seconds from the start of one round of hangs to the next; of each round nvidia-smi and docker stats hang for a part. */
const ROUND = 180;
const HANGS: Readonly<Record<string, { readonly from: number; readonly to: number }>> = {
  "nvidia-smi": { from: 15, to: 40 },
  "docker-stats": { from: 100, to: 120 },
};
const RENEW_MS = 1000;

type Probes = Record<string, ProbeSettings & { readonly enabled?: boolean }>;

/** A made-up node: what of an agent's configuration is its own, and how it ends. */
export type DemoNode = { readonly job: string; readonly probes: Probes; readonly stop: () => Promise<void> };

/**
 * Makes up a node with GPUs and containers, to look at dashboards without hardware. Its tools are real commands, `cat` of files that are
 * written again each second, so that all of the agent works as on a real node. A tool that hangs is a pipe that nobody writes to.
 */
export async function madeUpNode(): Promise<DemoNode> {
  const folder = await mkdtemp(join(tmpdir(), "gridmeter-demo-"));
  const started = Date.now();
  const startedAt = new Date(started).toISOString();
  try {
    await makeProcesses(join(folder, "proc"));
    for (const each of CONTAINERS) {
      await writeFile(join(folder, `inspect-${each.id}`), dockerInspect(each, startedAt));
      await writeFile(join(folder, `logs-${each.id}`), dockerLogs(each));
      await writeFile(join(folder, `lsof-${each.pid}`), lsof(each.pid));
    }
    await writeFile(join(folder, "docker-ps"), dockerPs());
    await writeFile(join(folder, "docker-info"), dockerInfo());
    await renew(folder, 0);
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
  let renewing = Promise.resolve();
  const timer = setInterval(() => {
    renewing = renewing.then(() => renew(folder, (Date.now() - started) / 1000)).catch(() => undefined);
  }, RENEW_MS);
  return {
    job: DEMO_JOB,
    probes: probesOf(folder),
    stop: async () => {
      clearInterval(timer);
      await renewing;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function isHanging(tool: string, seconds: number): boolean {
  const hang = HANGS[tool];
  const at = seconds % ROUND;
  return hang !== undefined && at >= hang.from && at < hang.to;
}

/** Writes what the tools print at a moment. */
async function renew(folder: string, seconds: number): Promise<void> {
  await replace(folder, "nvidia-smi", isHanging("nvidia-smi", seconds) ? undefined : nvidiaSmiLog(seconds));
  await replace(folder, "docker-stats", isHanging("docker-stats", seconds) ? undefined : dockerStats(seconds));
  await replace(folder, "ps", ps(isHanging("nvidia-smi", seconds)));
  await replace(folder, "iftop", iftop(seconds));
}

/** Puts a whole file, or a pipe that nobody writes to, in the place of the one before: a reader has the one or the other. */
async function replace(folder: string, name: string, text: string | undefined): Promise<void> {
  const next = join(folder, `${name}.next`);
  await rm(next, { force: true });
  if (text === undefined) await promisify(execFile)("mkfifo", [next]);
  else await writeFile(next, text);
  await rename(next, join(folder, name));
}

/** A /proc of its own, with the control groups by which processes are found to be a container's or the host's. */
async function makeProcesses(proc: string): Promise<void> {
  const groups = [
    ...CONTAINERS.map(({ pid, id }) => [pid, `0::/system.slice/docker-${id}.scope\n`] as const),
    [EXTERNAL_PID, "0::/system.slice/made-up.service\n"] as const,
  ];
  for (const [pid, group] of groups) {
    const ns = join(proc, String(pid), "ns");
    await mkdir(ns, { recursive: true });
    await writeFile(join(proc, String(pid), "cgroup"), group);
    await symlink(`net:[${4_026_530_000 + pid}]`, join(ns, "net"));
  }
}

function probesOf(folder: string): Probes {
  const cat = (name: string): [string, ...string[]] => ["cat", join(folder, name)];
  const often = { interval: 5, timeout: 3 };
  const listCommand = cat("docker-ps");
  const proc = join(folder, "proc");
  return {
    "docker-daemon": { ...often, command: cat("docker-info") },
    "docker-stats": { ...often, command: cat("docker-stats") },
    "docker-inspect": { ...often, command: cat("inspect-{id}"), listCommand },
    "docker-logs": { ...often, command: cat("logs-{id}"), listCommand, marker: MARKER },
    "nvidia-smi": { ...often, command: cat("nvidia-smi"), requireDevice: false, expectedGpus: 4, proc },
    ps: { ...often, command: cat("ps"), longStanding: 6, proc },
    iftop: { ...often, command: cat("iftop"), interface: "made-up0" },
    lsof: { ...often, command: cat("lsof-{pid}"), listCommand, proc },
    "amd-smi": { enabled: false },
    "rocm-smi": { enabled: false },
    "crictl-stats": { enabled: false },
  };
}
