import pLimit from "p-limit";
import { isHidden, readProcFile } from "../agent/proc-file.ts";

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

const idsOf = (path: string): string[] => {
  const segments = path.split("/");
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
  const path = /^\d{1,4}:[^:]{0,256}:(\/.*)$/.exec(line)?.[1];
  return path === undefined ? [] : [path];
};

/**
 * Finds the container of a process in the text of its /proc/PID/cgroup, of cgroup v1, v2 or both. On v2 a container may not
 * be seen as one, so that only a group of the host's own makes a process the host's (the predecessor called every container's
 * process external there).
 */
export const parseCgroup = (text: string): CgroupOwner => {
  const paths = text.split("\n").flatMap(pathsOf);
  const [longest] = paths.map(idsOf).sort((a, b) => b.length - a.length);
  const [first, ...more] = longest ?? [];
  if (first !== undefined) return { kind: "container", ids: [first, ...more] };
  return paths.some((path) => path.replaceAll(/\/\.\.(?=\/|$)/g, "").length > 1)
    ? { kind: "host" }
    : { kind: "unknown" };
};

/**
 * Reads where a process runs. A process that is gone, or may not be looked at, is no error: nobody knows then. Whatever else keeps
 * it from being read (no file descriptors left) is thrown: a process of which nothing was read is not one of which nobody knows.
 */
export const readCgroup = async (pid: number, proc = "/proc"): Promise<CgroupOwner> => {
  try {
    return parseCgroup(await readProcFile(`${proc}/${pid}/cgroup`));
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
