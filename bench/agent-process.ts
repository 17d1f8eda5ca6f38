import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { standInProbes, startAgent, writeConfig, type RunningAgent } from "../test/support/agent-run.ts";
import type { StandIns } from "../test/support/stand-ins/stand-ins.ts";

/** What a process has cost so far, its children apart. */
export type Cost = {
  readonly cpuSeconds: number;
  readonly residentBytes: number;
  /** the highest so far */
  readonly peakBytes: number;
  /** what is its own: not the pages of node's program file, which all node processes of a machine share */
  readonly privateBytes: number;
};

const TICKS_PER_SECOND = 100;

/** Reads /proc (man 5 proc_pid_stat, proc_pid_status). */
export function costOf(pid: number): Cost {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(") ") + 2).split(" ");
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const bytes = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(status)?.[1]) * 1024;
  return {
    cpuSeconds: (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND,
    residentBytes: bytes("VmRSS"),
    peakBytes: bytes("VmHWM"),
    privateBytes: bytes("RssAnon"),
  };
}

/**
 * The product's file with one number changed: nvidia-smi may be asked every 2 s too, as the predecessor's was when it was
 * measured; a configuration may not say less than 5.
 */
export function benchProgram(product: string, folder: string): string {
  const text = readFileSync(product, "utf8");
  const changed = text
    .replace("SHORTEST_NVIDIA_INTERVAL = 5", "SHORTEST_NVIDIA_INTERVAL = 0.5")
    .replace("SHORTEST_NVIDIA_INTERVAL=5", "SHORTEST_NVIDIA_INTERVAL=.5");
  if (changed === text) throw new Error(`${product} has no SHORTEST_NVIDIA_INTERVAL: was it renamed?`);
  const file = join(folder, "gridmeter-bench.cjs");
  writeFileSync(file, changed);
  return file;
}

export type AgentSettings = {
  readonly file: string;
  readonly folder: string;
  readonly tools: StandIns;
  readonly gateway: string;
  /** seconds */
  readonly interval: number;
  readonly timeout: number;
  /** only this probe */
  readonly only?: string;
};

/** Starts the agent with all probes on stand-in commands. */
export function startBenchAgent(settings: AgentSettings): Promise<RunningAgent> {
  const { file, folder, tools, gateway, interval, timeout, only } = settings;
  const probes: Record<string, object> = { ...standInProbes(tools, timeout, interval) };
  probes["nvidia-smi"] = { ...probes["nvidia-smi"], interval };
  const chosen = Object.entries(probes).map(([name, one]) =>
    only === undefined || name === only ? [name, one] : [name, { enabled: false }],
  );
  const config = writeConfig(folder, {
    listen: "127.0.0.1:0",
    instance: "bench",
    pushgateway: { url: gateway },
    probes: Object.fromEntries(chosen),
  });
  return startAgent({
    program: [process.execPath, file],
    cwd: folder,
    args: ["--config", config],
    env: { PATH: tools.path },
  });
}

export async function endAgent({ child, ended }: RunningAgent): Promise<void> {
  child.kill("SIGTERM");
  await ended;
}

/** The process id of the running agent. */
export function pidOf({ child }: RunningAgent): number {
  if (child.pid === undefined) throw new Error("the agent has no process id");
  return child.pid;
}
