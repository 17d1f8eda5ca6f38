import { readlink } from "node:fs/promises";
import { isIPv4, isIPv6 } from "node:net";
import { basename } from "node:path";
import type { Metric } from "../../shared/exposition.ts";
import { SlotPerKey } from "../command/slot.ts";
import type { Command, Output, Parsed } from "../command/types.ts";
import { type CgroupOwner, OwnerReader, containerOf } from "./common/cgroup.ts";
import { ContainerProcesses } from "./common/container-processes.ts";
import { type ContainerNames, containerLabels, namesById, shortId } from "./common/container.ts";
import type { ListedContainer } from "./common/docker.ts";
import { nodeMetrics } from "./common/metric-families.ts";
import { ParseError, quoted } from "./common/parse.ts";
import {
  Containers,
  PER_CONTAINER_DEFAULTS,
  type ReadContainer,
  needPlaceholder,
  perContainer,
} from "./common/per-container.ts";
import {
  type Failure,
  type Probe,
  type ProbeKind,
  type Reading,
  type Run,
  type Success,
  conduct,
  fillIn,
  limitsOf,
} from "./common/probe.ts";
import { type ProbeDefaults, type ProbeSettings, USUAL_INTERVAL, missingTool } from "./common/settings.ts";

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
  /**
   * lsof sees the sockets of its own network namespace only, so that it is run in that of the container's process, but with the
   * host's /proc: its process ids are the host's. Without `-l` it would look up users and print a warning for each socket.
   */
  command: ["nsenter", "--target", "{pid}", "--net", "--", "lsof", "-i", "-n", "-P", "-l"],
  maxBytes: 8 * 1024 * 1024,
  options: { ...PER_CONTAINER_DEFAULTS, proc: "/proc" },
} as const satisfies ProbeDefaults;

/** The connections in a container's network namespace, which other containers may share. */
type Seen = { readonly container: ListedContainer; readonly sockets: readonly Socket[] };

const create = (settings: ProbeSettings): Probe<SocketReadings> => {
  const { interval, timeout, maxBytes } = limitsOf("lsof", settings, LSOF_DEFAULTS);
  const each = perContainer("lsof", settings, LSOF_DEFAULTS.options);
  const { commandTimeout } = each;
  const { proc = LSOF_DEFAULTS.options.proc } = settings;
  const command = needPlaceholder("lsof", settings.command ?? LSOF_DEFAULTS.command, "pid");
  const containers = new Containers(each);
  const processes = new ContainerProcesses(proc);
  const namespaces = new Namespaces({ command, maxBytes, commandTimeout, proc });
  const owners = new OwnerReader(proc);

  /** The processes come from the kernel and not from docker inspect, which may hang. */
  const prepare = async (run: Run, listed: readonly ListedContainer[]): Promise<ReadContainer<Seen> | Failure> => {
    const pids = await processes.find(
      listed.map(({ id }) => id),
      run.left,
    );
    if (pids.kind !== "ok") return pids;
    const socketsOf = namespaces.begin(run);
    return async (container) => {
      const pid = pids.byId.get(container.id);
      if (pid === undefined) return pids.unseen ?? { kind: "ok", value: undefined, rejected: 0, exitCode: 0 };
      const found = await socketsOf(pid);
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

export const lsof: ProbeKind<SocketReadings> = {
  create,
  parseSaved: (output) => {
    const { value, rejected } = parseLsof(output);
    return { metrics: lsofMetrics([{ container: namesById(undefined), sockets: value }]), parsed: value, rejected };
  },
};

/** The program, and the one that nsenter starts. */
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

/** The sockets of the container's own processes; no entry where the container of none of the processes is known. */
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

/** Undefined where the process went away, and its namespace perhaps too. */
type Sockets = readonly Socket[] | undefined;

type NamespaceSettings = {
  /** with the placeholder `{pid}` */
  readonly command: Command["argv"];
  readonly maxBytes: number;
  /** seconds for each command */
  readonly commandTimeout: number;
  readonly proc: string;
};

/**
 * Runs lsof once in each network namespace, which the containers of a pod share, and those on the host's network: every lsof reads
 * all processes of the node.
 */
class Namespaces {
  readonly #slots = new SlotPerKey();
  readonly #settings: NamespaceSettings;

  constructor(settings: NamespaceSettings) {
    this.#settings = settings;
  }

  get stuck(): number {
    return this.#slots.stuck;
  }

  /** Gives a function for one run, which reads the connections in the namespace of a process. */
  begin(run: Run): (pid: number) => Promise<Reading<Sockets>> {
    const known = new Map<string, Promise<Reading<Sockets>>>();
    return async (pid) => {
      const key = await namespaceOf(pid, this.#settings.proc);
      const earlier = known.get(key);
      if (earlier !== undefined) return withoutRejected(await earlier);
      const sockets = this.#runLsof(run, key, pid);
      known.set(key, sockets);
      return sockets;
    };
  }

  #runLsof(run: Run, key: string, pid: number): Promise<Reading<Sockets>> {
    const { command, maxBytes, commandTimeout } = this.#settings;
    const argv = fillIn(command, { pid: String(pid) });
    const start = (timeout: number) => this.#slots.run(key, { argv, timeout, maxBytes });
    return run.read("lsof", commandTimeout, start, parseInNamespace);
  }
}

/** Broken rows of an output that several containers share are counted only once. */
const withoutRejected = <T>(reading: Reading<T>): Reading<T> =>
  reading.kind === "ok" ? { ...reading, rejected: 0 } : reading;

/** Identifies a network namespace. Where that may not be read, each process counts as one in a namespace of its own. */
const namespaceOf = (pid: number, proc: string): Promise<string> =>
  readlink(`${proc}/${pid}/ns/net`).catch(() => `the one of process ${pid}`);

const parseInNamespace = (output: Output): Parsed<Sockets> =>
  output.exitCode !== 0 && /^nsenter: cannot open \/proc\/\d+\/ns\/net: No such file/m.test(output.stderr)
    ? { value: undefined, rejected: 0 }
    : parseLsof(output);

/** An established connection. The same one may come several times, of processes that share it. */
export type Socket = {
  readonly pid: number;
  readonly type: "IPv4" | "IPv6";
  readonly protocol: "TCP" | "UDP";
  readonly local: Endpoint;
  readonly remote: Endpoint;
  /** as printed: `10.0.0.1:41001->10.0.0.2:80` */
  readonly text: string;
};

/**
 * Reads the established connections that `lsof -i -n -P` prints. If there is none, lsof prints nothing and exits with 1. A broken row
 * of a connection is left out and counted (openpai#2763: warnings of stderr in the middle of rows).
 *
 * @throws {ParseError} when lsof or nsenter failed, or the output is not lsof's
 */
export const parseLsof = (output: Output): Parsed<readonly Socket[]> => {
  const { stdout, stderr, exitCode } = output;
  const lines = stdout
    .split("\n")
    .map((line) => line.slice(0, LONGEST_ROW))
    .filter((line) => line.trim() !== "");
  const failed =
    exitCode > 1 || exitCode < 0 || (exitCode === 1 && lines.length === 0 && errorLines(stderr).length > 0);
  // Its warnings name mount points, which users may choose: no text of it says that it can never work.
  if (failed) throw new ParseError(`lsof exited with ${exitCode} and printed ${quoted(output)}`);
  if (lines.length > 0 && !lines.some(isHeading)) {
    throw new ParseError(`lsof printed no heading: ${quoted(output)}`);
  }
  const connections = lines.filter(isConnection);
  const sockets = connections.map(readRow).filter((row) => row !== undefined);
  return { value: sockets, rejected: connections.length - sockets.length };
};

/** lsof exits with 1 when it finds nothing, and also when it fails: then it prints a message that is no mere warning. */
const errorLines = (stderr: string): string[] =>
  stderr
    .split("\n")
    .map((line) => line.trim())
    .filter(
      (line) =>
        line !== "" && !/^lsof: (?:no pwd entry for UID|WARNING: )|^Output information may be incomplete/i.test(line),
    );

const isHeading = (line: string): boolean =>
  /^COMMAND {1,64}PID /.test(line) && line.slice(0, LONGEST_ROW).trimEnd().endsWith(" NAME");

/** Whether a row is of a connection. Others (listening, closing, unconnected UDP) are ignored. */
const isConnection = (line: string): boolean =>
  line.includes("(ESTABLISHED)") || (line.includes(" UDP ") && line.includes("->", line.indexOf(" UDP ")));

const ROW =
  /^(\S{1,64}) +(\d{1,10}) +(?:\d{1,10} +)?(\S{1,64}) +(\d{1,10}[a-zA-Z]{0,2}) +(IPv4|IPv6) +(\S{1,32}) +(\S{1,32}) +(TCP|UDP) +(\S{1,200})(?: \(([A-Z_0-9]{1,32})\))?$/;

/** A row is cut here. Its longest columns are two addresses. */
const LONGEST_ROW = 1024;

const readRow = (line: string): Socket | undefined => {
  const [, , pid, , , type, , , protocol, text, state] = ROW.exec(line) ?? [];
  if ((type !== "IPv4" && type !== "IPv6") || (protocol !== "TCP" && protocol !== "UDP")) return undefined;
  if (protocol === "TCP" && state !== "ESTABLISHED") return undefined;
  const [local, remote, ...rest] = text?.split("->").map(parseEndpoint) ?? [];
  if (pid === undefined || text === undefined || local === undefined || remote === undefined) return undefined;
  return rest.length > 0 ? undefined : { pid: Number(pid), type, protocol, local, remote, text };
};

/** An address and a port. */
export type Endpoint = { readonly address: string; readonly port: number };

/**
 * Reads `10.0.0.1:80` and `[fd00::1]:80`, as lsof and `iftop -n -N -P` print them. Undefined for names, for an address without a
 * port, and for an IPv6 address that iftop has cut at the end of its column: several addresses may begin with it.
 */
export const parseEndpoint = (text: string): Endpoint | undefined => {
  const [, six, four, digits] = /^(?:\[([0-9a-fA-F:.]{2,45})\]|([0-9.]{7,15})):(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  if (digits === undefined || port > 65_535) return undefined;
  if (four !== undefined) return isIPv4(four) ? { address: four, port } : undefined;
  if (six === undefined || !isIPv6(six)) return undefined;
  // an IPv4 connection of an IPv6 socket: iftop sees its packets as IPv4
  const mapped = /^::ffff:([0-9.]{7,15})$/i.exec(six)?.[1];
  return { address: mapped ?? six.toLowerCase(), port };
};

/** A text by which endpoints are compared. */
export const endpointKey = ({ address, port }: Endpoint): string => `${address} ${port}`;

/** How many established connections each container has. One that several processes share counts once. */
export const lsofMetrics = (
  all: readonly { readonly container: ContainerNames; readonly sockets: readonly Socket[] }[],
): Metric[] =>
  nodeMetrics(
    all.map(({ container, sockets }) => ({
      metric: "gridmeter_network_container_sockets",
      labels: containerLabels(container),
      value: new Set(sockets.map(({ text }) => text)).size,
    })),
  );
