import { basename } from "node:path";
import type { Probe } from "../../agent/probe.ts";
import { SlotPerKey } from "../../agent/slot-per-key.ts";
import type { Command } from "../../agent/types.ts";
import { missingTool } from "../availability.ts";
import type { CgroupOwner } from "../cgroup.ts";
import { shortId } from "../container.ts";
import { dockerInspectCommand, parseDockerInspect, type DockerContainer } from "../docker-inspect.ts";
import { lsofMetrics, parseLsof, type Socket } from "../lsof.ts";
import { namesById } from "./container-names.ts";
import { Containers, perContainer } from "./containers.ts";
import { PROBE_DEFAULTS } from "./defaults.ts";
import type { ProbeKind } from "./kind.ts";
import { limitsOf } from "./limits.ts";
import { Namespaces } from "./lsof-namespaces.ts";
import { OwnerReader } from "./owners.ts";
import { needPlace } from "./per-container.ts";
import type { Reading } from "./reading.ts";
import { conduct, type Run, type Success } from "./run.ts";
import type { ProbeSettings } from "./settings.ts";

const DEFAULTS = PROBE_DEFAULTS.lsof;

/** The connections in a container's network namespace, which other containers may share. */
type Seen = { readonly container: DockerContainer; readonly sockets: readonly Socket[] };

const create = (settings: ProbeSettings): Probe => {
  const { interval, timeout, maxBytes } = limitsOf("lsof", settings, DEFAULTS);
  const each = perContainer("lsof", settings, DEFAULTS.options);
  const { commandTimeout } = each;
  const { proc = DEFAULTS.options.proc } = settings;
  const command = needPlace("lsof", settings.command ?? DEFAULTS.command, "pid");
  const containers = new Containers(each);
  const inspects = new SlotPerKey();
  const namespaces = new Namespaces({ command, maxBytes, commandTimeout, proc });
  const owners = new OwnerReader(proc);

  /** An inspect of its own, since that of the probe docker-inspect may hang. */
  const see = async (
    run: Run,
    look: ReturnType<Namespaces["begin"]>,
    id: string,
  ): Promise<Reading<Seen | undefined>> => {
    const { argv, maxBytes: most } = dockerInspectCommand(id);
    const start = (seconds: number) => inspects.run(id, { argv, timeout: seconds, maxBytes: most });
    const inspected = await run.read("docker inspect", commandTimeout, start, parseDockerInspect);
    if (inspected.kind !== "ok") return inspected;
    const [container] = inspected.value;
    if (container?.pid === undefined) return { ...inspected, value: undefined };
    const found = await look(container.pid);
    if (found.kind !== "ok") return found;
    return { ...found, value: found.value === undefined ? undefined : { container, sockets: found.value } };
  };

  return {
    name: "lsof",
    interval,
    timeout,
    unavailable: () => missingTool([each.listCommand[0], "docker", ...programsOf(command)]),
    stuck: () => containers.stuck + inspects.stuck + namespaces.stuck,
    run: () =>
      conduct(timeout, async (run) => {
        const look = namespaces.begin(run);
        const found = await containers.readAll<Seen>(run, (id) => see(run, look, id));
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
): Pick<Success, "metrics" | "readings"> => ({
  metrics: lsofMetrics([...seen.values()].flatMap((one) => ownSockets(one, owners))),
  readings: { sockets: { byContainer: new Map([...seen].map(([id, { sockets }]) => [id, sockets])), owners } },
});

/** Those of the container's own processes; nothing, rather than none, where it is known of no process whose it is. */
const ownSockets = ({ container, sockets }: Seen, owners: ReadonlyMap<number, CgroupOwner>): Seen[] => {
  const kindOf = ({ pid }: Socket) => owners.get(pid)?.kind ?? "unknown";
  if (sockets.length > 0 && sockets.every((socket) => kindOf(socket) === "unknown")) return [];
  const isOwn = ({ pid }: Socket): boolean => {
    const owner = owners.get(pid);
    return owner?.kind === "container" && owner.ids.some((id) => shortId(id) === shortId(container.id ?? ""));
  };
  return [{ container, sockets: sockets.filter(isOwn) }];
};

export const lsof: ProbeKind = {
  create,
  parseSaved: (output) => {
    const { value, rejected } = parseLsof(output);
    return { metrics: lsofMetrics([{ container: namesById(undefined), sockets: value }]), parsed: value, rejected };
  },
};
