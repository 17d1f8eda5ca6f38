import { readlink, stat } from "node:fs/promises";
import { basename } from "node:path";
import { isErrno } from "../../shared/fs.ts";
import { locateExecutable } from "../command/executable.ts";
import { isHidden, readProcFile } from "../../shared/proc.ts";
import { commandEnvironment } from "../command/start.ts";
import { LimitedReader, readCgroup } from "./common/cgroup.ts";

/** The states of ps(1): a closed set, so that it can be a label. */
export const PROCESS_STATES = ["D", "I", "R", "S", "T", "t", "W", "X", "Z"] as const;

export type ProcessState = (typeof PROCESS_STATES)[number];

export type Process = {
  readonly state: ProcessState;
  readonly residentBytes: number;
  readonly pid: number;
  /** the command line as printed, or `[name]` where there is none; the kernel's name where ps printed that column */
  readonly commandLine: string;
  /** the name by which it is counted. A user may give a process any name. */
  readonly name: string;
  /** whether root started it and it runs as root; undefined where ps did not print that */
  readonly isRoot?: boolean;
  /** the function of the kernel in which it waits; undefined where ps did not print that */
  readonly wait?: string | undefined;
};

export type LongStanding = { readonly uninterruptible: readonly Process[]; readonly zombies: readonly Process[] };

/** D and Z processes, each with the time since which every observation found it in that state. */
export type ProcessWatch = {
  /** of the first observation and of the last, in seconds of one clock */
  readonly begun: number;
  readonly at: number;
  readonly processes: readonly { readonly process: Process; readonly since: number }[];
};

/**
 * Adds an observation: a process that is in D or Z now and was so before keeps its time. Any process is in D for a moment when it
 * reads a disk, and in Z when it ends (openpai#2932), so that one observation means nothing.
 */
export const watchProcesses = (
  previous: ProcessWatch | undefined,
  processes: readonly Process[],
  at: number,
): ProcessWatch => {
  const since = new Map(previous?.processes.map(({ process, since }) => [keyOf(process), since]));
  return {
    begun: previous?.begun ?? at,
    at,
    processes: processes.filter(isWatched).map((process) => ({ process, since: since.get(keyOf(process)) ?? at })),
  };
};

/**
 * The processes that were in D, or in Z, at all observations of at least the last `seconds`. Undefined until observations go back so
 * far.
 */
export const longStanding = (watch: ProcessWatch, seconds: number): LongStanding | undefined => {
  if (watch.at - watch.begun < seconds) return undefined;
  const old = watch.processes.filter(({ since }) => watch.at - since >= seconds).map(({ process }) => process);
  return {
    uninterruptible: old.filter(({ state }) => state === "D"),
    zombies: old.filter(({ state }) => state === "Z"),
  };
};

const isWatched = (process: Process): boolean =>
  process.state === "Z" || (process.state === "D" && !waitsForItsUser(process));

/** With the command, as process ids are used again. */
const keyOf = ({ pid, state, commandLine }: Process): string => `${pid} ${state} ${commandLine}`;

/**
 * The functions of the kernel in which a process waits in state D for something that its user controls: a child of vfork (under the
 * first four names, which differ by kernel), a frozen group (a paused container), a page that another process supplies (userfaultfd),
 * a file system that the user serves (FUSE). Nothing hangs in the kernel then.
 */
const WAITS_OF_USERS: ReadonlySet<string> = new Set([
  "wait_for_vfork_done",
  "kernel_clone",
  "_do_fork",
  "do_fork",
  "__refrigerator",
  "handle_userfault",
  "request_wait_answer",
]);

/** Whether a process in state D waits for its own user. Compilers add suffixes to names: `.part.0`, `.isra.0`. */
export const waitsForItsUser = ({ state, wait }: Process): boolean =>
  state === "D" && wait !== undefined && WAITS_OF_USERS.has(wait.slice(0, 64).split(".", 1)[0] ?? "");

/** The tools that an alert names when they hang: each has a series of its own, which counts no other process. */
export const WATCHED_TOOLS: ReadonlySet<string> = new Set([
  "nvidia-smi",
  "amd-smi",
  "rocm-smi",
  "docker",
  "dockerd",
  "containerd",
  "iftop",
  "lsof",
  "crictl",
]);

/** The command of processes that have no series of their own. */
export const OTHER = "other";

/** Seconds for reading whose executables processes run: the file system of an executable may hang. */
const LONGEST_EXECUTABLE_READ = 1;

/**
 * Finds out which processes with the name of a tool are that tool: any user may give a process this name and bring it into state D. A
 * tool is run by root, and root owns its executable: on the host a file of that name, in a container the file that the agent itself
 * would start, since a container's root owns all files there.
 */
export class GenuineTools {
  readonly #proc: string;
  readonly #files = new LimitedReader(LONGEST_EXECUTABLE_READ);

  /** @param proc where the host's /proc is */
  constructor(proc: string) {
    this.#proc = proc;
  }

  /**
   * Renames the processes that have a tool's name but are not that tool to `other`. While that cannot be read, all of them are
   * renamed: a tool that hangs is found in a later run.
   */
  async name(standing: LongStanding, secondsLeft: number): Promise<LongStanding> {
    const asked = standing.uninterruptible.filter(({ name }) => WATCHED_TOOLS.has(name));
    if (asked.length === 0) return standing;
    const read = () => this.#genuineOf(asked).catch(() => undefined);
    const genuine = (await this.#files.read(read, secondsLeft)) ?? new Set<number>();
    const uninterruptible = standing.uninterruptible.map((process) =>
      WATCHED_TOOLS.has(process.name) && !genuine.has(process.pid) ? { ...process, name: OTHER } : process,
    );
    return { ...standing, uninterruptible };
  }

  /** One after the other, so that a file system that hangs keeps only one of Node's few threads for files. */
  async #genuineOf(processes: readonly Process[]): Promise<ReadonlySet<number>> {
    const genuine = new Set<number>();
    for (const process of processes) if (await this.#isGenuine(process)) genuine.add(process.pid);
    return genuine;
  }

  async #isGenuine({ pid, name, isRoot }: Process): Promise<boolean> {
    if (!(isRoot ?? (await this.#isRoot(pid)))) return false;
    const owner = await readCgroup(pid, this.#proc);
    const executable = `${this.#proc}/${pid}/exe`;
    let file;
    try {
      const path = (await readlink(executable)).replace(" (deleted)", "");
      if (owner.kind !== "container" && !isNamed(basename(path), name)) return false;
      file = await stat(executable);
    } catch (thrown) {
      // Without CAP_SYS_PTRACE the agent may not read it. On the host a process of root counts as genuine then.
      return isErrno(thrown, "EACCES", "EPERM") && owner.kind !== "container";
    }
    if (file.uid !== 0 || (file.mode & 0o022) !== 0) return false;
    if (owner.kind !== "container") return true;
    const tool = await toolOf(name);
    return tool !== undefined && tool.dev === file.dev && tool.ino === file.ino;
  }

  /** By the line `Uid:` of status: real, effective, saved and file system's user. */
  async #isRoot(pid: number): Promise<boolean> {
    try {
      const status = await readProcFile(`${this.#proc}/${pid}/status`);
      const users = status.split("\n").find((line) => line.startsWith("Uid:"));
      const [, real, effective] = users?.split("\t") ?? [];
      return real === "0" && effective === "0";
    } catch (thrown) {
      if (isHidden(thrown)) return false;
      throw thrown;
    }
  }
}

/** The executables of tools that are scripts, as amd-smi and rocm-smi are. */
const INTERPRETERS = ["python", "bash", "dash", "sh", "perl"] as const;

const isNamed = (file: string, name: string): boolean =>
  file === name || INTERPRETERS.some((interpreter) => file.startsWith(interpreter));

/** The file that the agent would start by this name. */
const toolOf = async (name: string): Promise<{ readonly dev: number; readonly ino: number } | undefined> => {
  const { PATH } = commandEnvironment("none", process.env);
  const located = await locateExecutable(name, PATH);
  return located.kind === "found" ? stat(located.path) : undefined;
};
