import { USUAL_INTERVAL, type ProbeDefaults } from "./settings.ts";
import { PER_CONTAINER_DEFAULTS } from "./containers.ts";
import { template } from "./placeholders.ts";
import { lsofCommand } from "../lsof.ts";
import { basename } from "node:path";
import type { Probe } from "../../agent/probe.ts";
import type { Command } from "../../agent/types.ts";
import { missingTool } from "../availability.ts";
import { containerOf, type CgroupOwner } from "../cgroup.ts";
import { shortId } from "../container.ts";
import type { ListedContainer } from "../docker-inspect.ts";
import { lsofMetrics, parseLsof, type Socket } from "../lsof.ts";
import { namesById } from "./container-names.ts";
import { ContainerProcesses } from "./container-processes.ts";
import { Containers, perContainer, type ReadContainer } from "./containers.ts";
import type { ProbeKind } from "./kind.ts";
import { limitsOf } from "./limits.ts";
import { Namespaces } from "./lsof-namespaces.ts";
import { OwnerReader } from "./owners.ts";
import { needPlace } from "./per-container.ts";
import type { Failure } from "./reading.ts";
import { conduct, type Run, type Success } from "./run.ts";
import type { ProbeSettings } from "./settings.ts";

export type SocketReadings = {
  /** by container id, and the control groups of the sockets' processes */
  readonly sockets: {
    readonly byContainer: ReadonlyMap<string, readonly Socket[]>;
    readonly owners: ReadonlyMap<number, CgroupOwner>;
  };
};

export const LSOF_DEFAULTS = {
  description: "the established connections of each container",
  interval: USUAL_INTERVAL,
  timeout: 20,
  command: template(lsofCommand(0).argv, "0", "{pid}"),
  maxBytes: lsofCommand(0).maxBytes,
  options: { ...PER_CONTAINER_DEFAULTS, proc: "/proc" },
} as const satisfies ProbeDefaults;

/** The connections in a container's network namespace, which other containers may share. */
type Seen = { readonly container: ListedContainer; readonly sockets: readonly Socket[] };

const create = (settings: ProbeSettings): Probe<SocketReadings> => {
  const { interval, timeout, maxBytes } = limitsOf("lsof", settings, LSOF_DEFAULTS);
  const each = perContainer("lsof", settings, LSOF_DEFAULTS.options);
  const { commandTimeout } = each;
  const { proc = LSOF_DEFAULTS.options.proc } = settings;
  const command = needPlace("lsof", settings.command ?? LSOF_DEFAULTS.command, "pid");
  const containers = new Containers(each);
  const processes = new ContainerProcesses(proc);
  const namespaces = new Namespaces({ command, maxBytes, commandTimeout, proc });
  const owners = new OwnerReader(proc);

  /** Which process to ask with is the kernel's to say: a docker inspect that hangs takes nothing of this probe. */
  const prepare = async (run: Run, listed: readonly ListedContainer[]): Promise<ReadContainer<Seen> | Failure> => {
    const pids = await processes.find(
      listed.map(({ id }) => id),
      run.left,
    );
    if (pids.kind !== "ok") return pids;
    const look = namespaces.begin(run);
    return async (container) => {
      const pid = pids.byId.get(container.id);
      if (pid === undefined) return pids.unseen ?? { kind: "ok", value: undefined, rejected: 0, exitCode: 0 };
      const found = await look(pid);
      if (found.kind !== "ok") return found;
      return { ...found, value: found.value === undefined ? undefined : { container, sockets: found.value } };
    };
  };

  return {
    name: "lsof",
    interval,
    timeout,
    unavailable: () => missingTool([each.listCommand[0], ...programsOf(command)]),
    stuck: () => containers.stuck + namespaces.stuck,
    run: () =>
      conduct(timeout, async (run) => {
        const found = await containers.readAll<Seen>(run, (listed) => prepare(run, listed));
        if (found.kind !== "ok") return found;
        const { byId, ...rest } = found;
        const pids = [...byId.values()].flatMap(({ sockets }) => sockets.map(({ pid }) => pid));
        const known = await owners.read(pids, run.left);
        if (known !== undefined) return { ...rest, ...publish(byId, known) };
        return { kind: "timeout", detail: "the control groups of processes could not be read in time" };
      }),
  };
};

/** The program, and the one that nsenter starts in turn. */
const programsOf = (command: Command["argv"]): readonly string[] => {
  const inner = basename(command[0]) === "nsenter" ? command[command.indexOf("--") + 1] : undefined;
  return inner === undefined ? [command[0]] : [command[0], inner];
};

const publish = (
  seen: ReadonlyMap<string, Seen>,
  owners: ReadonlyMap<number, CgroupOwner>,
): Pick<Success<SocketReadings>, "metrics" | "readings"> => ({
  metrics: lsofMetrics(
    [...seen.values()].flatMap((one) => ownSockets(one, owners, new Set([...seen.keys()].map(shortId)))),
  ),
  readings: { sockets: { byContainer: new Map([...seen].map(([id, { sockets }]) => [id, sockets])), owners } },
});

/** Those of the container's own processes; nothing, rather than none, where it is known of no process whose it is. */
const ownSockets = (
  { container, sockets }: Seen,
  owners: ReadonlyMap<number, CgroupOwner>,
  listed: ReadonlySet<string>,
): Seen[] => {
  const kindOf = ({ pid }: Socket) => owners.get(pid)?.kind ?? "unknown";
  if (sockets.length > 0 && sockets.every((socket) => kindOf(socket) === "unknown")) return [];
  const isOwn = ({ pid }: Socket): boolean => {
    const owner = owners.get(pid);
    return owner !== undefined && containerOf(owner, listed) === shortId(container.id);
  };
  return [{ container, sockets: sockets.filter(isOwn) }];
};

export const lsof: ProbeKind<SocketReadings> = {
  create,
  parseSaved: (output) => {
    const { value, rejected } = parseLsof(output);
    return { metrics: lsofMetrics([{ container: namesById(undefined), sockets: value }]), parsed: value, rejected };
  },
};
