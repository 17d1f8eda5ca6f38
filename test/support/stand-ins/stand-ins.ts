// Stand-ins for the tools that probes run: real executables in a directory for PATH, which print what the tools of a made-up
// node print, and hang, fail or print garbage when they are told so.
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { renameSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as node from "./node.ts";
import type { StandInContainer } from "./node.ts";

export type { StandInContainer } from "./node.ts";

/** amd-smi is there only where it is installed: rocm-smi leaves its GPUs to it. */
const TOOLS = [
  "docker",
  "systemctl",
  "nvidia-smi",
  "amd-smi",
  "rocm-smi",
  "iftop",
  "nsenter",
  "lsof",
  "ps",
  "crictl",
] as const;
export type StandInTool = (typeof TOOLS)[number];

/** What can be told to behave otherwise: docker's and crictl's subcommands apart. */
export type StandInCommand =
  | Exclude<StandInTool, "docker" | "crictl">
  | "docker-info"
  | "docker-stats"
  | "docker-ps"
  | "docker-inspect"
  | "docker-logs"
  | "crictl-stats";

/**
 * - `ok` prints what it should, `slow SECONDS` does so later, `warn CODE` exits so after it
 * - `hang` never ends; `ignore-term` neither, and only KILL ends it
 * - `fail CODE` complains and exits so; `down` is docker without its daemon; `gone` is docker without this container
 * - `garbage` prints something else; `flood` prints without end
 */
export type StandInMode =
  | "ok"
  | "hang"
  | "ignore-term"
  | `slow ${number}`
  | `warn ${number}`
  | `fail ${number}`
  | "down"
  | "gone"
  | "garbage"
  | "flood";

export type StandIns = {
  readonly home: string;
  /** the directory for PATH; the stand-ins need nothing else in it */
  readonly path: string;
  /** a /proc with the containers' processes and a default route by eth0, for the setting `proc` */
  readonly proc: string;
  readonly containers: readonly StandInContainer[];
  /** tells a command how to behave from its next start on; for one container or process, if there is a target */
  readonly tell: (command: StandInCommand, mode: StandInMode, target?: string | number) => void;
  /** replaces what a command prints */
  readonly print: (command: StandInCommand, text: string, target?: string | number) => void;
  /** takes a tool away, or brings it back */
  readonly uninstall: (tool: StandInTool) => void;
  readonly install: (tool: StandInTool) => void;
  /** the process ids of all starts of a command so far; for one container or process, if there is a target */
  readonly calls: (command: StandInCommand, target?: string | number) => readonly number[];
  readonly remove: () => void;
};

/** Makes a directory of stand-ins, for a node of so many containers and GPUs. Remove it in the end. */
export function standIns({ containers: count = 4, gpus = 2 } = {}): StandIns {
  const home = mkdtempSync(join(tmpdir(), "gridmeter-stand-ins-"));
  const bin = join(home, "bin");
  for (const folder of ["bin", "control", "out", "calls", "proc"]) mkdirSync(join(home, folder));
  const containers = node.containersOf(count, gpus);
  const file = (folder: string, command: StandInCommand, target?: string | number) =>
    join(home, folder, target === undefined ? command : `${command}.${target}`);
  // a command that starts meanwhile must not read half of it
  const replace = (name: string, text: string) => {
    writeFileSync(`${name}~`, text);
    renameSync(`${name}~`, name);
  };
  const print: StandIns["print"] = (command, text, target) => replace(file("out", command, target), text);
  const install = (tool: StandInTool) => {
    copyFileSync(join(import.meta.dirname, "stand-in.sh"), join(bin, tool));
    chmodSync(join(bin, tool), 0o755);
  };
  TOOLS.filter((tool) => tool !== "amd-smi").forEach(install);
  writeOutputs(containers, gpus, print);
  writeProc(join(home, "proc"), containers);
  return {
    home,
    path: bin,
    proc: join(home, "proc"),
    containers,
    print,
    install,
    tell: (command, mode, target) => replace(file("control", command, target), `${mode}\n`),
    uninstall: (tool) => rmSync(join(bin, tool)),
    calls: (command, target) => {
      const log = file("calls", command);
      const rows = existsSync(log) ? readFileSync(log, "utf8").split("\n").filter(Boolean) : [];
      return rows
        .map((row) => row.split(" "))
        .filter(([, of]) => target === undefined || of === String(target))
        .map(([pid]) => Number(pid));
    },
    remove: () => rmSync(home, { recursive: true, force: true }),
  };
}

function writeOutputs(containers: readonly StandInContainer[], gpus: number, print: StandIns["print"]): void {
  print("docker-info", node.dockerInfo(containers.length));
  print("systemctl", "active\n");
  print("docker-ps", node.lines(containers.map(({ id, name }) => `${id} ${name}`)));
  print("docker-stats", node.dockerStats(containers));
  for (const [number, container] of containers.entries()) {
    print("docker-inspect", node.dockerInspect(container), container.id);
    print("docker-logs", number === 0 ? "epoch 9\nUSER COMMAND END\n" : "epoch 1\n", container.id);
    print("lsof", node.lsof(container), container.pid);
  }
  print("nvidia-smi", node.nvidiaSmi(gpus, containers));
  print("amd-smi", node.amdSmi(gpus));
  print("rocm-smi", node.rocmSmi(gpus));
  print("iftop", node.iftop(containers));
  print("ps", node.ps(containers));
  print("crictl-stats", node.crictlStats(containers));
}

function writeProc(proc: string, containers: readonly StandInContainer[]): void {
  for (const { id, pid } of containers) {
    mkdirSync(join(proc, String(pid), "ns"), { recursive: true });
    writeFileSync(join(proc, String(pid), "cgroup"), `0::/system.slice/docker-${id}.scope\n`);
    symlinkSync(`net:[${pid}]`, join(proc, String(pid), "ns", "net"));
  }
  // a thread of the kernel's own, which only a host has
  mkdirSync(join(proc, "2"));
  writeFileSync(join(proc, "2", "comm"), "kthreadd\n");
  mkdirSync(join(proc, "net"));
  const route = [
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask",
    "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000",
  ];
  writeFileSync(join(proc, "net", "route"), node.lines(route));
}
