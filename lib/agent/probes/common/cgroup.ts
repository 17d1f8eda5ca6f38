import pLimit from "p-limit";
import { isHidden, readProcFile } from "../../../shared/proc.ts";
import { within } from "../../../shared/time-limit.ts";
import { shortId } from "./container.ts";

/** Where a process runs. `ids` are the containers around it, the outermost first: docker may run in a container itself. */
export type CgroupOwner =
  | { readonly kind: "container"; readonly ids: readonly [string, ...string[]] }
  /** no container, but a service or a login of the host */
  | { readonly kind: "host" }
  /** not known: the process is gone, or is in the root group, in which a container with a view of its own sees itself too */
  | { readonly kind: "unknown" };

/**
 * The name of a container's group, which differs by runtime and cgroup driver: `/docker/ID`, `/kubepods/.../ID`, `docker-ID.scope`,
 * `cri-containerd-ID.scope`, `crio-ID.scope`, `libpod-ID.scope`, `libpod-payload-ID`, and containerd's `SLICE:cri-containerd:ID`.
 */
const SEGMENT = /^([a-z][a-z-]{0,32}-|.{0,256}:[a-z-]{1,32}:|)([0-9a-f]{64})(?:\.scope)?$/;
/**
 * The monitor process of a container has a group with the container's id too, but belongs to the host: podman's
 * `libpod-conmon-ID.scope`, CRI-O's `crio-conmon-ID.scope`, a containerd shim with a group of its own.
 */
const MONITOR = /(?:^|[-:])(?:conmon|conmonrs|conmon-rs|shim)[-:]$/;
/** The monitor's group in old versions of podman, below the group of the container or of its pod. */
const MONITOR_BELOW = "conmon";
/** The group of what Kata runs on the host for a container: `kata_overhead/ID`, `kata-overhead.slice/runtime-rs-ID.scope`. */
const OVERHEAD = /^kata[_-]overhead(?:\.slice)?$/;

/** systemd delegates these: below them a user may give a group any name, that of a container included. */
const OF_USERS = /^(?:user\.slice|user-(?<slice>\d{1,10})\.slice|user@(?<service>\d{1,10})\.service)$/;

/** The kernel's limits of a path and a name. */
const LONGEST_PATH = 4096;
const LONGEST_NAME = 255;

/** The part of a path whose names were given by root, or by the user whose docker or podman is asked. */
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
    return id === undefined || MONITOR.test(prefix) || groups[at + 1] === MONITOR_BELOW ? [] : [id];
  });
  return [...new Set(ids)];
};

/** `N:controllers:PATH` of cgroup v1, one a hierarchy, and `0::PATH` of v2. The path itself may have colons. */
const pathsOf = (line: string): string[] => {
  const path = /^\d{1,4}:[^:]{0,256}:(\/.*)$/.exec(line.slice(0, LONGEST_PATH))?.[1];
  return path === undefined ? [] : [path];
};

/**
 * Finds the container of a process in the text of its /proc/PID/cgroup, of cgroup v1, v2 or both. On v2 a process in the root group
 * may still be a container's, so that only a group of the host's own makes it a process of the host (OpenPAI's exporter took every
 * container's process for one).
 *
 * @param rootless the user whose own docker or podman is asked; undefined for the host's. Below user.slice only that user's groups
 * count as containers, as any user may give a group the name of another's container.
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
 * The short id of a process's container: the outermost that is listed. Within a container, a group may have the name of any other
 * container.
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
 * Reads where a process runs. A process that is gone, or may not be looked at, is `unknown`. Other errors (no file descriptor is
 * free) are thrown, as they say nothing about the process.
 */
export const readCgroup = async (pid: number, proc = "/proc"): Promise<CgroupOwner> => {
  try {
    return parseCgroup(await readProcFile(`${proc}/${pid}/cgroup`), rootlessUser());
  } catch (thrown) {
    if (isHidden(thrown)) return { kind: "unknown" };
    throw thrown;
  }
};

/** Files that are open at a time: a node may have ten thousand processes, and the agent a thousand file descriptors. */
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
  readonly #files = new LimitedReader(LONGEST_OWNER_READ);

  /** @param proc where the host's /proc is */
  constructor(proc: string) {
    this.#proc = proc;
  }

  /** The owners by process id, or undefined if they could not be read in time. Rejects if they cannot be read at all. */
  async read(pids: readonly number[], secondsLeft: number): Promise<ReadonlyMap<number, CgroupOwner> | undefined> {
    if (pids.length === 0) return new Map();
    return this.#files.read(() => readCgroups(pids, this.#proc), secondsLeft);
  }
}

/**
 * Reads files of /proc within a time limit. The kernel may block a reader for ever, and each read that hangs keeps one of Node's few
 * threads for files (fault "D state"): no other read is begun before it is over.
 */
export class LimitedReader {
  readonly #most: number;
  #isReading = false;

  /** @param most seconds for one read */
  constructor(most: number) {
    this.#most = most;
  }

  /** What `work` gives; undefined if it takes longer than the limit or the seconds left, or if an earlier read is not over. */
  async read<T>(work: () => Promise<T>, secondsLeft: number): Promise<T | undefined> {
    if (this.#isReading) return undefined;
    this.#isReading = true;
    const done = work().finally(() => (this.#isReading = false));
    return within(Math.min(this.#most, secondsLeft), done, undefined);
  }
}
