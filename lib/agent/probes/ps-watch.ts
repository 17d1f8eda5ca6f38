import { readlink, stat } from "node:fs/promises";
import { basename } from "node:path";
import { isErrno } from "../../shared/fs.ts";
import { locateExecutable } from "../command/executable.ts";
import { isHidden, readProcFile } from "../../shared/proc.ts";
import { commandEnvironment } from "../command/start.ts";
import { PatientReader, readCgroup } from "./common/cgroup.ts";

/** The states of ps(1): a closed set, so that it can be a label. */
export const PROCESS_STATES = ["D", "I", "R", "S", "T", "t", "W", "X", "Z"] as const;
export type ProcessState = (typeof PROCESS_STATES)[number];

export type Process = {
  readonly state: ProcessState;
  readonly residentBytes: number;
  readonly pid: number;
  /** the command line as printed, or `[name]` where there is none; the kernel's name where ps was asked for that */
  readonly commandLine: string;
  /** the name by which it is counted. A user may give a process any name. */
  readonly name: string;
  /** whether root started it and it runs as root; undefined where ps was not asked */
  readonly isRoot?: boolean;
  /** the function of the kernel in which it waits; undefined where ps was not asked or may not know */
  readonly wait?: string | undefined;
};

/**
 * What a process waits for in state D because its user wants it to, for as long as the user likes: a child of vfork, a group that is
 * frozen (a paused container), a page that another process hands out (userfaultfd), a file system that the user serves (FUSE).
 * Nothing hangs in the kernel then. Kernels name the function of vfork differently.
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

/** Whether a process in state D waits for what its own user holds back. Compilers add endings to names: `.part.0`, `.isra.0`. */
export const waitsForItsUser = ({ state, wait }: Process): boolean =>
  state === "D" && wait !== undefined && WAITS_OF_USERS.has(wait.slice(0, 64).split(".", 1)[0] ?? "");

/** D and Z processes, each with the time from which on it was seen so whenever ps was looked at. */
export type ProcessWatch = {
  /** of the first observation and of the last, in seconds of one clock */
  readonly begun: number;
  readonly at: number;
  readonly processes: readonly { readonly process: Process; readonly since: number }[];
};

export type LongStanding = { readonly uninterruptible: readonly Process[]; readonly zombies: readonly Process[] };

const isWatched = (process: Process): boolean =>
  process.state === "Z" || (process.state === "D" && !waitsForItsUser(process));

/** Process ids come back, so that the command has to be the same too. */
const keyOf = ({ pid, state, commandLine }: Process): string => `${pid} ${state} ${commandLine}`;

/**
 * Adds an observation: what is D or Z now and was so before keeps its time. Any process is D for a moment when it reads a
 * disk, and Z for one when it ends (openpai#2932), so a single observation says nothing.
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
 * The processes seen in D, and in Z, at observations at least `seconds` apart and all between. Undefined until the watch is
 * so old: nobody knows yet.
 */
export const longStanding = (watch: ProcessWatch, seconds: number): LongStanding | undefined => {
  if (watch.at - watch.begun < seconds) return undefined;
  const old = watch.processes.filter(({ since }) => watch.at - since >= seconds).map(({ process }) => process);
  return {
    uninterruptible: old.filter(({ state }) => state === "D"),
    zombies: old.filter(({ state }) => state === "Z"),
  };
};

/** Seconds. The files are the kernel's, but where an executable lies its file system is asked, which may hang. */
const PATIENCE = 1;

/** What runs tools that are scripts, as rocm-smi is. */
const INTERPRETERS = ["python", "bash", "dash", "sh", "perl"] as const;

/**
 * Tells the tools of the node from processes that only carry their names, which any user may give to a process, and bring it into
 * state D. A tool is run by root, and its executable is root's own: on the host a file of that name, in a container the very file
 * that the agent would start, since a container's root owns all files there.
 */
export class GenuineTools {
  readonly #proc: string;
  readonly #files = new PatientReader();

  /** @param proc where the host's /proc is */
  constructor(proc: string) {
    this.#proc = proc;
  }

  /**
   * Gives those that carry a tool's name and are none the name `other`. While that cannot be read, none of them is a tool: a process
   * that is one is seen again.
   */
  async name(standing: LongStanding, secondsLeft: number): Promise<LongStanding> {
    const asked = standing.uninterruptible.filter(({ name }) => WATCHED_TOOLS.has(name));
    if (asked.length === 0) return standing;
    const look = () => this.#genuineOf(asked).catch(() => undefined);
    const genuine = (await this.#files.read(look, Math.min(PATIENCE, secondsLeft))) ?? new Set<number>();
    const uninterruptible = standing.uninterruptible.map((process) =>
      WATCHED_TOOLS.has(process.name) && !genuine.has(process.pid) ? { ...process, name: OTHER } : process,
    );
    return { ...standing, uninterruptible };
  }

  /** One after the other: an executable whose file system hangs takes one of Node's few threads for files, and no more. */
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
      // Without CAP_SYS_PTRACE the agent may not look at it: on the host root's word is enough.
      return isErrno(thrown, "EACCES", "EPERM") && owner.kind !== "container";
    }
    if (file.uid !== 0 || (file.mode & 0o022) !== 0) return false;
    if (owner.kind !== "container") return true;
    const tool = await toolOf(name);
    return tool !== undefined && tool.dev === file.dev && tool.ino === file.ino;
  }

  /** By the second line of numbers: real, effective, saved and file system's user. */
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

const isNamed = (file: string, name: string): boolean =>
  file === name || INTERPRETERS.some((interpreter) => file.startsWith(interpreter));

/** The file that the agent would start by this name. */
const toolOf = async (name: string): Promise<{ readonly dev: number; readonly ino: number } | undefined> => {
  const { PATH } = commandEnvironment("none", process.env);
  const located = await locateExecutable(name, PATH);
  return located.kind === "found" ? stat(located.path) : undefined;
};

/** Those whose hanging an alert names: they are never lost among others, and nobody else's process counts as one. */
export const WATCHED_TOOLS: ReadonlySet<string> = new Set([
  "nvidia-smi",
  "rocm-smi",
  "docker",
  "dockerd",
  "containerd",
  "iftop",
  "lsof",
  "crictl",
]);

/** What is not listed by its name. */
export const OTHER = "other";
