import { readlink, stat } from "node:fs/promises";
import { basename } from "node:path";
import { commandEnvironment } from "../../agent/runner-environment.ts";
import { locateExecutable } from "../../agent/runner-executable.ts";
import { isHidden, readProcFile } from "../../agent/proc-file.ts";
import { isErrno } from "../../store/fs-error.ts";
import { readCgroup } from "../cgroup.ts";
import { WATCHED_TOOLS, type LongStanding, type Process } from "../ps.ts";
import { OTHER } from "../ps-metrics.ts";
import { PatientReader } from "./patient-reader.ts";

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
