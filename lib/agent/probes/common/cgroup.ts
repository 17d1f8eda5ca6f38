import { readdir } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import pLimit from "p-limit";
import { orIfMissing } from "../../../shared/fs.ts";
import { isHidden, readProcFile } from "../../../shared/proc.ts";
import { shortId } from "./container.ts";
import type { Failure } from "./probe.ts";

/** Where a process runs. `ids` are the containers around it, the outermost first: docker may run in a container itself. */
export type CgroupOwner =
  | { readonly kind: "container"; readonly ids: readonly [string, ...string[]] }
  /** no container, but a service or a login of the host */
  | { readonly kind: "host" }
  /** nobody knows: the process is gone, or is in the root group, which is what a container of its own sees too */
  | { readonly kind: "unknown" };

/**
 * The ways a container's group is called, by runtime and cgroup driver: `/docker/ID`, `/kubepods/.../ID`, `docker-ID.scope`,
 * `cri-containerd-ID.scope`, `crio-ID.scope`, `libpod-ID.scope`, `libpod-payload-ID`, and containerd's `SLICE:cri-containerd:ID`.
 */
const SEGMENT = /^([a-z][a-z-]{0,32}-|.{0,256}:[a-z-]{1,32}:|)([0-9a-f]{64})(?:\.scope)?$/;
/**
 * Who watches a container has a group with its id too, beside its own, and is in the host's namespaces: podman's
 * `libpod-conmon-ID.scope`, CRI-O's `crio-conmon-ID.scope`, a containerd shim with a group of its own.
 */
const WATCHER = /(?:^|[-:])(?:conmon|conmonrs|conmon-rs|shim)[-:]$/;
/** As old podman called it, below the container's group or that of its pod. */
const WATCHER_BELOW = "conmon";
/** Above what Kata runs on the host for a container: `kata_overhead/ID`, `kata-overhead.slice/runtime-rs-ID.scope`. */
const OVERHEAD = /^kata[_-]overhead(?:\.slice)?$/;

/** Below these a user makes groups as he likes, also ones that are called like a container: systemd delegates them. */
const OF_USERS = /^(?:user\.slice|user-(?<slice>\d{1,10})\.slice|user@(?<service>\d{1,10})\.service)$/;

/** Longer paths and names the kernel does not have. */
const LONGEST_PATH = 4096;
const LONGEST_NAME = 255;

/** The groups in which only root, or the user whose docker or podman is asked, calls a group like a container. */
const trusted = (segments: readonly string[], rootless: number | undefined): readonly string[] => {
  const below = segments.findIndex((segment) => OF_USERS.test(segment));
  if (below < 0) return segments;
  const isTheirs = segments.slice(below).some((segment) => {
    const { slice, service } = OF_USERS.exec(segment)?.groups ?? {};
    return rootless !== undefined && Number(slice ?? service) === rootless;
  });
  return isTheirs ? segments : segments.slice(0, below);
};

const idsOf = (path: string, rootless: number | undefined): string[] => {
  const segments = trusted(
    path.split("/").map((segment) => segment.slice(0, LONGEST_NAME)),
    rootless,
  );
  const overhead = segments.findIndex((segment) => OVERHEAD.test(segment));
  const groups = overhead < 0 ? segments : segments.slice(0, overhead);
  const ids = groups.flatMap((segment, at) => {
    const [, prefix = "", id] = SEGMENT.exec(segment) ?? [];
    return id === undefined || WATCHER.test(prefix) || groups[at + 1] === WATCHER_BELOW ? [] : [id];
  });
  return [...new Set(ids)];
};

/** `N:controllers:PATH` of cgroup v1, one a hierarchy, and `0::PATH` of v2. The path itself may have colons. */
const pathsOf = (line: string): string[] => {
  const path = /^\d{1,4}:[^:]{0,256}:(\/.*)$/.exec(line.slice(0, LONGEST_PATH))?.[1];
  return path === undefined ? [] : [path];
};

/**
 * Finds the container of a process in the text of its /proc/PID/cgroup, of cgroup v1, v2 or both. On v2 a container may not
 * be seen as one, so that only a group of the host's own makes a process the host's (the predecessor called every container's
 * process external there).
 *
 * @param rootless the user whose own docker or podman is asked; undefined for the host's. Below user.slice only that user's groups
 * are containers: anybody else may have called a group like somebody's container.
 */
export const parseCgroup = (text: string, rootless?: number): CgroupOwner => {
  const paths = text.split("\n").flatMap(pathsOf);
  const [longest] = paths.map((path) => idsOf(path, rootless)).sort((a, b) => b.length - a.length);
  const [first, ...more] = longest ?? [];
  if (first !== undefined) return { kind: "container", ids: [first, ...more] };
  return paths.some((path) => path.split("/").some((segment) => segment !== "" && segment !== ".."))
    ? { kind: "host" }
    : { kind: "unknown" };
};

/**
 * The container of a process, by its short id: the outermost that is listed. Within a container, groups may be called like any
 * other container.
 */
export const containerOf = (owner: CgroupOwner, listed: ReadonlySet<string>): string | undefined =>
  owner.kind === "container" ? owner.ids.map(shortId).find((id) => listed.has(id)) : undefined;

/**
 * The user whose docker or podman is asked: the agent's own if that is not root, else the one in whose runtime folder the socket of
 * DOCKER_HOST is.
 */
export const rootlessUser = (
  environment: Readonly<Record<string, string | undefined>> = process.env,
  self = process.getuid?.(),
): number | undefined => {
  if (self !== undefined && self !== 0) return self;
  const user = /^unix:\/\/\/run\/user\/(\d{1,10})\//.exec(
    (environment["DOCKER_HOST"] ?? "").slice(0, LONGEST_PATH),
  )?.[1];
  return user === undefined ? undefined : Number(user);
};

/**
 * Reads where a process runs. A process that is gone, or may not be looked at, is no error: nobody knows then. Whatever else keeps
 * it from being read (no file descriptors left) is thrown: a process of which nothing was read is not one of which nobody knows.
 */
export const readCgroup = async (pid: number, proc = "/proc"): Promise<CgroupOwner> => {
  try {
    return parseCgroup(await readProcFile(`${proc}/${pid}/cgroup`), rootlessUser());
  } catch (thrown) {
    if (isHidden(thrown)) return { kind: "unknown" };
    throw thrown;
  }
};

/** Files that are open at a time: a node may have ten thousand processes, and this one a thousand descriptors. */
const AT_A_TIME = 16;

/** Reads where each of some processes runs. */
export const readCgroups = async (
  pids: Iterable<number>,
  proc = "/proc",
): Promise<ReadonlyMap<number, CgroupOwner>> => {
  const limit = pLimit(AT_A_TIME);
  const read = async (pid: number) => [pid, await readCgroup(pid, proc)] as const;
  return new Map(await limit.map([...new Set(pids)], read));
};

/** Seconds for reading control groups: they are in memory. */
const LONGEST_OWNER_READ = 1;

/** Reads where processes run. */
export class OwnerReader {
  readonly #proc: string;
  readonly #files = new PatientReader();

  /** @param proc where the host's /proc is */
  constructor(proc: string) {
    this.#proc = proc;
  }

  /**
   * The owners by process id, or undefined if they could not be read within so many seconds, or at most one. Rejects if they cannot
   * be read at all.
   */
  async read(pids: readonly number[], secondsLeft: number): Promise<ReadonlyMap<number, CgroupOwner> | undefined> {
    if (pids.length === 0) return new Map();
    return this.#files.read(() => readCgroups(pids, this.#proc), Math.min(LONGEST_OWNER_READ, secondsLeft));
  }
}

/**
 * Reads files that the kernel makes up. It may hold up whoever reads them, and a read that hangs takes one of Node's few threads
 * for files: it is not awaited for long, and no other is begun before it is over.
 */
export class PatientReader {
  #atWork = false;

  /** What `work` gives, or undefined if it has not done so after these seconds, or an earlier one is still at work. */
  async read<T>(work: () => Promise<T>, seconds: number): Promise<T | undefined> {
    if (this.#atWork) return undefined;
    this.#atWork = true;
    const done = work().finally(() => (this.#atWork = false));
    const timer = new AbortController();
    const late = sleep(seconds * 1000, undefined, { signal: timer.signal }).catch(() => undefined);
    try {
      return await Promise.race([done, late]);
    } finally {
      timer.abort();
    }
  }
}

/** Seconds for looking at all processes of a node, of which there may be thousands. */
const LONGEST_SEARCH = 5;

/**
 * A process that is in another of the containers too comes behind all that are not: within a container, a group may be called like
 * any other container.
 */
const WITHIN_ANOTHER = 1000;

type Pids = ReadonlyMap<string, number>;

type ContainerPids = {
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
    const found = await this.#files.read(() => this.#find(ids), Math.min(LONGEST_SEARCH, secondsLeft));
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

/** A thing sought in vain is sought again in the next run, then after twice as many, but at least this often, runs. */
const SELDOM = 10;

/**
 * What was sought in vain is sought again ever less often. Each thing has its own wait: one that is between two starts is found
 * soon, however many others are never to be found.
 */
export class BackOff {
  #run = 0;
  #waits: ReadonlyMap<string, { readonly runs: number; readonly until: number }> = new Map();

  /** Begins a run in which these are missing; others than these are forgotten. Gives those whose turn it is, new ones at once. */
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

  /** Notes that these were sought in this run and not found. */
  missed(ids: readonly string[]): void {
    const waits = ids.map((id) => {
      const before = this.#waits.get(id)?.runs;
      const runs = before === undefined ? 1 : Math.min(before * 2, SELDOM);
      return [id, { runs, until: this.#run + runs }] as const;
    });
    this.#waits = new Map([...this.#waits, ...waits]);
  }
}
