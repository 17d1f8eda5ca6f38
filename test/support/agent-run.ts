import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { ChildProcess } from "node:child_process";
import { SELF_METRICS } from "../../lib/agent/metrics/self.ts";
import { startCli, type CliRun } from "./run-cli.ts";
import type { StandIns } from "./stand-ins/stand-ins.ts";

/** One line of the agent's log. */
export type LogLine = Readonly<Record<string, unknown>> & { readonly msg: string; readonly level: number };

export type RunningAgent = {
  readonly child: ChildProcess;
  readonly ended: Promise<CliRun>;
  readonly log: readonly LogLine[];
  /** the port's address, once it runs; undefined where it has none */
  readonly url: string | undefined;
};

/** Starts the real agent and waits until it says that it runs. PATH holds the stand-ins alone. */
export async function startAgent(options: {
  readonly program: readonly string[];
  readonly cwd: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}): Promise<RunningAgent> {
  const { program, cwd, args, env = {} } = options;
  const { child, ended } = startCli(["agent", ...args], { cwd, program, env });
  const killAtExit = (): void => void child.kill("SIGKILL");
  process.once("exit", killAtExit);
  void ended.then(() => process.removeListener("exit", killAtExit));
  const log: LogLine[] = [];
  const url = await new Promise<string | undefined>((resolve, reject) => {
    if (child.stderr === null) throw new Error("the agent has no pipe for its log");
    createInterface({ input: child.stderr }).on("line", (line) => {
      if (!line.startsWith("{")) return;
      const entry = JSON.parse(line) as LogLine;
      log.push(entry);
      if (entry.msg === "running") resolve(entry["url"] as string | undefined);
    });
    void ended.then((run) => reject(new Error(`the agent ended with ${run.code} before it ran:\n${run.stderr}`)));
  });
  return { child, ended, log, url };
}

/** Settings of all probes for a node of stand-ins: short intervals, and no device is looked for. */
export function standInProbes({ proc }: StandIns, timeout: number, interval: number): Record<string, object> {
  const each = { interval, timeout };
  const perContainer = { ...each, commandTimeout: timeout };
  return {
    "docker-daemon": each,
    "docker-stats": each,
    "docker-inspect": perContainer,
    "docker-logs": { ...perContainer, marker: "USER COMMAND END" },
    "nvidia-smi": { ...each, interval: Math.max(5, interval), requireDevice: false, proc },
    "rocm-smi": { enabled: false },
    iftop: { ...each, interface: "eth0", proc },
    lsof: { ...perContainer, proc },
    ps: { ...each, longStanding: 1 },
    "crictl-stats": { enabled: false },
  };
}

/** Writes a configuration (JSON is YAML) and gives its path. */
export function writeConfig(folder: string, config: object, name = "agent.json"): string {
  const file = join(folder, name);
  writeFileSync(file, JSON.stringify(config));
  return file;
}

const META = new Set(
  Object.entries(SELF_METRICS).flatMap(([name, { type }]) =>
    type === "histogram" ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
  ),
);

/** The data series of a probe in an exposition: all but the account of its runs. */
export function dataOf(exposition: string, probe: string): string[] {
  return exposition.split("\n").filter((line) => {
    const name = /^[a-zA-Z_:][\w:]*/.exec(line)?.[0] ?? "";
    return line.includes(`probe="${probe}"`) && !META.has(name) && !name.startsWith("push_");
  });
}

/** The value of one series: its name, and what its labels hold. */
export function valueOf(exposition: string, name: string, ...labels: readonly string[]): number | undefined {
  const line = exposition
    .split("\n")
    .find((one) => one.startsWith(`${name}{`) && labels.every((label) => one.includes(label)));
  return line === undefined ? undefined : Number(line.slice(line.lastIndexOf(" ")));
}
