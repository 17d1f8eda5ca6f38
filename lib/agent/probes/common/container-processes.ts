import { readdir } from "node:fs/promises";
import { orIfMissing } from "../../../shared/fs.ts";
import { isHidden, readProcFile } from "../../../shared/proc.ts";
import { type CgroupOwner, LimitedReader, containerOf, readCgroups } from "./cgroup.ts";
import { shortId } from "./container.ts";
import type { Failure } from "./probe.ts";

/** Seconds for a search through all processes of a node, of which there may be thousands. */
const LONGEST_SEARCH = 5;

type Pids = ReadonlyMap<string, number>;

type ContainerPids = {
  readonly kind: "ok";
  /** a process of each container in which there is one */
  readonly byId: Pids;
  /** why the others may have one all the same; undefined where they have none, as they have ended or are between two starts */
  readonly unseen: Failure | undefined;
};

/**
 * Finds a process of each container by the control groups of processes: unlike docker inspect, the kernel answers at once. The
 * process found in the run before is tried first, so that not all processes of the node are read in each run. Containers without
 * one (such as the agent's, if it has its own view of control groups) are searched for ever less often.
 */
export class ContainerProcesses {
  readonly #proc: string;
  readonly #files = new LimitedReader(LONGEST_SEARCH);
  readonly #backOff = new BackOff();
  #last: Pids = new Map();

  /** @param proc where the host's /proc is */
  constructor(proc: string) {
    this.#proc = proc;
  }

  /**
   * A process id by container id. A failure if the control groups could not be read in time. Rejects if they cannot be read at all
   * (no file descriptor is free).
   */
  async find(ids: readonly string[], secondsLeft: number): Promise<ContainerPids | Failure> {
    const found = await this.#files.read(() => this.#find(ids), secondsLeft);
    return found ?? { kind: "timeout", detail: "the control groups of processes could not be read in time" };
  }

  async #find(ids: readonly string[]): Promise<ContainerPids> {
    const byId = new Map(await this.#stillThere(ids));
    const missing = ids.filter((id) => !byId.has(id));
    const due = this.#backOff.due(missing);
    if (due.length > 0) {
      for (const [id, pid] of await this.#searchAll(missing, ids)) byId.set(id, pid);
      this.#backOff.missed(due.filter((id) => !byId.has(id)));
    }
    this.#last = byId;
    return { kind: "ok", byId, unseen: ids.every((id) => byId.has(id)) ? undefined : await this.#unseen() };
  }

  /** If the agent does not see the host's processes, it finds none of other containers, and must not take that for their absence. */
  async #unseen(): Promise<Failure | undefined> {
    if (await this.#isHost()) return undefined;
    const detail =
      `it has no process in ${this.#proc}, which is not the host's: unless it is between two starts, the agent does not see it. ` +
      "Let the agent see the host's processes (hostPID: true in Kubernetes, --pid=host in docker)";
    return { kind: "parse_error", detail };
  }

  /** The processes of the run before that are still in their containers. */
  async #stillThere(ids: readonly string[]): Promise<Pids> {
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

  /** Reads the control groups of all processes, and takes the process of each missing container that is most surely its own. */
  async #searchAll(missing: readonly string[], listed: readonly string[]): Promise<Pids> {
    const wanted = new Map(missing.map((id) => [shortId(id), id]));
    const known = new Set(listed.map(shortId));
    const best = new Map<string, { readonly pid: number; readonly rank: number }>();
    for (const [pid, owner] of await readCgroups(await this.#allPids(), this.#proc)) {
      for (const [short, rank] of ranksIn(owner, known)) {
        const id = wanted.get(short);
        if (id !== undefined && rank < (best.get(id)?.rank ?? Infinity)) best.set(id, { pid, rank });
      }
    }
    return new Map([...best].map(([id, { pid }]) => [id, pid]));
  }

  async #allPids(): Promise<readonly number[]> {
    const names = await orIfMissing(readdir(this.#proc), []);
    return names
      .filter((name) => /^\d{1,10}$/.test(name))
      .map(Number)
      .sort((a, b) => a - b);
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

/** Added for each listed container that a process is in besides the one in question. */
const WITHIN_ANOTHER = 1000;

/**
 * How far a process is from being a container's own, for each container around it, by short id: 0 for a process that is in this one
 * only. Containers within it count 1 each. Listed containers around it count most: within a container, a group may have the name of
 * any other container.
 */
const ranksIn = (owner: CgroupOwner, known: ReadonlySet<string>): readonly (readonly [string, number])[] => {
  const ids = owner.kind === "container" ? owner.ids.map(shortId) : [];
  return ids.map((id, at) => {
    const around = ids.slice(0, at).filter((other) => known.has(other)).length;
    const depth = ids.length - 1 - ids.lastIndexOf(id);
    return [id, depth + around * WITHIN_ANOTHER];
  });
};

/** What was not found is searched for again in the next run, then after twice as many runs each time, but at most after this many. */
const MOST_RUNS_BETWEEN = 10;

/**
 * Decides which of the things that were not found are searched for in a run: ever less often, each at its own intervals, so that a
 * container between two starts is found soon, however many others are never found.
 */
export class BackOff {
  #run = 0;
  #waits: ReadonlyMap<string, { readonly runs: number; readonly until: number }> = new Map();

  /** Begins a run in which these are missing, and gives those to search for now, new ones included. All others are forgotten. */
  due(missing: readonly string[]): readonly string[] {
    this.#run += 1;
    this.#waits = new Map(
      missing.flatMap((id) => {
        const wait = this.#waits.get(id);
        return wait === undefined ? [] : [[id, wait] as const];
      }),
    );
    return missing.filter((id) => (this.#waits.get(id)?.until ?? 0) <= this.#run);
  }

  /** Records that these were searched for in this run and not found. */
  missed(ids: readonly string[]): void {
    const waits = ids.map((id) => {
      const before = this.#waits.get(id)?.runs;
      const runs = before === undefined ? 1 : Math.min(before * 2, MOST_RUNS_BETWEEN);
      return [id, { runs, until: this.#run + runs }] as const;
    });
    this.#waits = new Map([...this.#waits, ...waits]);
  }
}
