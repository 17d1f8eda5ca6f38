import pLimit from "p-limit";
import { isHidden, readProcFile } from "../agent/proc-file.ts";
import { shortId } from "./container.ts";

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
