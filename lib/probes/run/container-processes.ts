import { readFile, readdir } from "node:fs/promises";
import { orIfMissing } from "../../store/fs-error.ts";
import { readCgroups, type CgroupOwner } from "../cgroup.ts";
import { shortId } from "../container.ts";
import { PatientReader } from "./patient-reader.ts";
import type { Failure } from "./reading.ts";

/** Seconds for looking at all processes of a node, of which there may be thousands. */
const PATIENCE = 5;
/** A container whose process is nowhere (the agent's own, with a view of its own of control groups) is looked for this seldom, runs. */
const LOOK_AGAIN = 10;

type Found = ReadonlyMap<string, number>;

/**
 * Finds a process of each container, by the control groups of processes. The kernel says so at once, and needs no docker. The
 * process of the run before is tried first, so that not all processes of the node have to be looked at each time.
 */
export class ContainerProcesses {
  readonly #proc: string;
  readonly #files = new PatientReader();
  #last: Found = new Map();
  #missing: ReadonlySet<string> = new Set();
  #runs = 0;

  /** @param proc where the host's /proc is */
  constructor(proc: string) {
    this.#proc = proc;
  }

  /**
   * A process id by container id; containers without a process have ended. A failure if they could not be looked for in time,
   * or if this is not where the containers' processes are. Rejects if they cannot be looked at (no file descriptors left).
   */
  async find(ids: readonly string[], secondsLeft: number): Promise<Found | Failure> {
    const found = await this.#files.read(() => this.#find(ids), Math.min(PATIENCE, secondsLeft));
    if (found === undefined) {
      return { kind: "timeout", detail: "the control groups of processes could not be read in time" };
    }
    if (found !== "elsewhere") return found;
    const detail =
      `none of ${ids.length} containers has a process in ${this.#proc}, which is not the host's: ` +
      "let the agent see the host's processes (hostPID, or the setting proc)";
    return { kind: "parse_error", detail };
  }

  async #find(ids: readonly string[]): Promise<Found | "elsewhere"> {
    const found = new Map<string, number>();
    const before = new Map(ids.flatMap((id) => [[id, this.#last.get(id)] as const]));
    const still = await readCgroups(
      [...before.values()].filter((pid) => pid !== undefined),
      this.#proc,
    );
    for (const [id, pid] of before) {
      if (pid !== undefined && depthIn(still.get(pid), shortId(id)) !== undefined) found.set(id, pid);
    }
    const missing = ids.filter((id) => !found.has(id));
    this.#runs += 1;
    if (missing.some((id) => !this.#missing.has(id)) || (missing.length > 0 && this.#runs >= LOOK_AGAIN)) {
      for (const [id, pid] of await this.#lookAtAll(missing)) found.set(id, pid);
      this.#missing = new Set(ids.filter((id) => !found.has(id)));
      this.#runs = 0;
    }
    this.#last = found;
    return ids.length > 0 && found.size === 0 && !(await this.#isHost()) ? "elsewhere" : found;
  }

  async #lookAtAll(ids: readonly string[]): Promise<Found> {
    const names = await orIfMissing(readdir(this.#proc), []);
    const pids = names
      .filter((name) => /^\d{1,10}$/.test(name))
      .map(Number)
      .sort((a, b) => a - b);
    const wanted = new Map(ids.map((id) => [shortId(id), id]));
    const best = new Map<string, { readonly pid: number; readonly depth: number }>();
    for (const [pid, owner] of await readCgroups(pids, this.#proc)) {
      for (const one of owner.kind === "container" ? owner.ids : []) {
        const id = wanted.get(shortId(one));
        const depth = depthIn(owner, shortId(one));
        if (id === undefined || depth === undefined) continue;
        if (depth < (best.get(id)?.depth ?? Number.POSITIVE_INFINITY)) best.set(id, { pid, depth });
      }
    }
    return new Map([...best].map(([id, { pid }]) => [id, pid]));
  }

  /** Whether the kernel's own threads are there, which only the host has. */
  async #isHost(): Promise<boolean> {
    const name = await orIfMissing(readFile(`${this.#proc}/2/comm`, "utf8"), "");
    return name.trim() === "kthreadd";
  }
}

/** How many containers deep in that container a process is: 0 for its own; undefined for one that is not in it. */
const depthIn = (owner: CgroupOwner | undefined, short: string): number | undefined => {
  if (owner?.kind !== "container") return undefined;
  const at = owner.ids.findLastIndex((id) => shortId(id) === short);
  return at < 0 ? undefined : owner.ids.length - 1 - at;
};
