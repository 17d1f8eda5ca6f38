import { readdir } from "node:fs/promises";
import { isHidden, readProcFile } from "../../agent/proc-file.ts";
import { orIfMissing } from "../../store/fs-error.ts";
import { containerOf, readCgroups, type CgroupOwner } from "../cgroup.ts";
import { shortId } from "../container.ts";
import { BackOff } from "./back-off.ts";
import { PatientReader } from "./patient-reader.ts";
import type { Failure } from "./reading.ts";

/** Seconds for looking at all processes of a node, of which there may be thousands. */
const PATIENCE = 5;

/**
 * A process that is in another of the containers too comes behind all that are not: within a container, a group may be called like
 * any other container.
 */
const WITHIN_ANOTHER = 1000;

type Pids = ReadonlyMap<string, number>;

export type ContainerPids = {
  readonly kind: "ok";
  /** a process of each container in which there is one */
  readonly byId: Pids;
  /** Why nobody knows whether the others have one; undefined where they have none, since they have ended or are between two starts. */
  readonly unseen: Failure | undefined;
};

/**
 * Finds a process of each container, by the control groups of processes. The kernel says so at once, and needs no docker. The
 * process of the run before is tried first, so that not all processes of the node have to be looked at each time; those that were
 * not found (the agent's own, with a view of its own of control groups) are looked for ever less often.
 */
export class ContainerProcesses {
  readonly #proc: string;
  readonly #files = new PatientReader();
  readonly #backOff = new BackOff();
  #last: Pids = new Map();

  /** @param proc where the host's /proc is */
  constructor(proc: string) {
    this.#proc = proc;
  }

  /**
   * A process id by container id. A failure if they could not be looked for in time. Rejects if they cannot be looked at (no file
   * descriptors left).
   */
  async find(ids: readonly string[], secondsLeft: number): Promise<ContainerPids | Failure> {
    const found = await this.#files.read(() => this.#find(ids), Math.min(PATIENCE, secondsLeft));
    return found ?? { kind: "timeout", detail: "the control groups of processes could not be read in time" };
  }

  async #find(ids: readonly string[]): Promise<ContainerPids> {
    const byId = new Map(await this.#lookAtLast(ids));
    const missing = ids.filter((id) => !byId.has(id));
    const due = this.#backOff.due(missing);
    if (due.length > 0) {
      for (const [id, pid] of await this.#lookAtAll(missing, ids)) byId.set(id, pid);
      this.#backOff.missed(due.filter((id) => !byId.has(id)));
    }
    this.#last = byId;
    return { kind: "ok", byId, unseen: ids.every((id) => byId.has(id)) ? undefined : await this.#unseen() };
  }

  /** Where the host's processes are not seen, the agent may find its own container, and would miss all others without a word. */
  async #unseen(): Promise<Failure | undefined> {
    if (await this.#isHost()) return undefined;
    const detail =
      `it has no process in ${this.#proc}, which is not the host's: unless it is between two starts, the agent does not see it. ` +
      "Let the agent see the host's processes (hostPID: true in Kubernetes, --pid=host in docker)";
    return { kind: "parse_error", detail };
  }

  async #lookAtLast(ids: readonly string[]): Promise<Pids> {
    const last = ids.flatMap((id) => {
      const pid = this.#last.get(id);
      return pid === undefined ? [] : [[id, pid] as const];
    });
    const owners = await readCgroups(
      last.map(([, pid]) => pid),
      this.#proc,
    );
    const listed = new Set(ids.map(shortId));
    return new Map(
      last.filter(([id, pid]) => {
        const owner = owners.get(pid);
        return owner !== undefined && containerOf(owner, listed) === shortId(id);
      }),
    );
  }

  async #lookAtAll(ids: readonly string[], listed: readonly string[]): Promise<Pids> {
    const names = await orIfMissing(readdir(this.#proc), []);
    const pids = names
      .filter((name) => /^\d{1,10}$/.test(name))
      .map(Number)
      .sort((a, b) => a - b);
    const wanted = new Map(ids.map((id) => [shortId(id), id]));
    const known = new Set(listed.map(shortId));
    const best = new Map<string, { readonly pid: number; readonly rank: number }>();
    for (const [pid, owner] of await readCgroups(pids, this.#proc)) {
      let around = 0;
      for (const one of owner.kind === "container" ? owner.ids : []) {
        const id = wanted.get(shortId(one));
        const depth = depthIn(owner, shortId(one));
        const rank = (depth ?? 0) + around * WITHIN_ANOTHER;
        if (known.has(shortId(one))) around += 1;
        if (id === undefined || depth === undefined) continue;
        if (rank < (best.get(id)?.rank ?? Number.POSITIVE_INFINITY)) best.set(id, { pid, rank });
      }
    }
    return new Map([...best].map(([id, { pid }]) => [id, pid]));
  }

  /** Whether the kernel's own threads are there, which only the host has. */
  async #isHost(): Promise<boolean> {
    try {
      return (await readProcFile(`${this.#proc}/2/comm`)).trim() === "kthreadd";
    } catch (thrown) {
      if (isHidden(thrown)) return false;
      throw thrown;
    }
  }
}

/** How many containers deep in that container a process is: 0 for its own; undefined for one that is not in it. */
const depthIn = (owner: CgroupOwner | undefined, short: string): number | undefined => {
  if (owner?.kind !== "container") return undefined;
  const at = owner.ids.findLastIndex((id) => shortId(id) === short);
  return at < 0 ? undefined : owner.ids.length - 1 - at;
};
