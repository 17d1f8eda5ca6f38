import type { Metric } from "../agent/types.ts";
import { containerOf, type CgroupOwner } from "./cgroup.ts";
import { containerLabels, shortId, type ContainerNames } from "./container.ts";
import type { Flow } from "./iftop.ts";
import type { Socket } from "./lsof.ts";
import { nodeMetrics } from "./node-metrics.ts";
import { endpointKey, parseEndpoint, type Endpoint } from "./sockets.ts";

/** What the connections of one container carried, in bytes a second. */
export type ContainerTraffic = {
  readonly container: ContainerNames;
  readonly receive: number;
  readonly transmit: number;
};

const flowKey = (from: Endpoint, to: Endpoint): string => `${endpointKey(from)} ${endpointKey(to)}`;

/** Connections by their two ends, with the one container that has each. */
const ownersOf = (
  sockets: ReadonlyMap<string, readonly Socket[]>,
  cgroups: ReadonlyMap<number, CgroupOwner>,
): ReadonlyMap<string, string | undefined> => {
  const owners = new Map<string, string | undefined>();
  const listed = new Set([...sockets.keys()].map(shortId));
  for (const [id, rows] of sockets) {
    for (const { pid, local, remote } of rows) {
      const owner = cgroups.get(pid);
      // containers of a pod, or on the host's network, see each other's connections
      if (owner === undefined || containerOf(owner, listed) !== shortId(id)) continue;
      const key = flowKey(local, remote);
      // of a connection that two containers share, nobody knows who used it
      owners.set(key, owners.has(key) && owners.get(key) !== id ? undefined : id);
    }
  }
  return owners;
};

/**
 * What each container sent and received, out of iftop's flows and lsof's connections: a flow is a container's if one of its
 * processes, by its control group, has the connection with these two ends. Undefined unless all inputs are fresh: iftop's flows,
 * lsof's rows of each container (by id), the control groups of their processes, and the list of containers. A container without
 * a flow is left out, not 0: behind address translation, its connections have other ends on the interface.
 */
export const joinNetwork = (
  flows: readonly Flow[] | undefined,
  sockets: ReadonlyMap<string, readonly Socket[]> | undefined,
  cgroups: ReadonlyMap<number, CgroupOwner> | undefined,
  containers: readonly ContainerNames[] | undefined,
): readonly ContainerTraffic[] | undefined => {
  if (flows === undefined || sockets === undefined || cgroups === undefined || containers === undefined)
    return undefined;
  const owners = ownersOf(sockets, cgroups);
  const traffic = new Map<string, { receive: number; transmit: number }>();
  const add = (id: string | undefined, receive: number, transmit: number): void => {
    if (id === undefined) return;
    const sum = traffic.get(shortId(id)) ?? { receive: 0, transmit: 0 };
    traffic.set(shortId(id), { receive: sum.receive + receive, transmit: sum.transmit + transmit });
  };
  for (const flow of flows) {
    const source = parseEndpoint(flow.source);
    const destination = parseEndpoint(flow.destination);
    if (source === undefined || destination === undefined) continue;
    add(owners.get(flowKey(source, destination)), flow.in[2], flow.out[2]);
    // iftop may name the ends the other way round, and both may be on this node
    add(owners.get(flowKey(destination, source)), flow.out[2], flow.in[2]);
  }
  return containers.flatMap((container) => {
    const sum = container.id === undefined ? undefined : traffic.get(shortId(container.id));
    return sum === undefined ? [] : [{ container, ...sum }];
  });
};

/** The metrics of containers' traffic. */
export const networkMetrics = (traffic: readonly ContainerTraffic[]): Metric[] =>
  nodeMetrics(
    traffic.flatMap(({ container, receive, transmit }) => [
      {
        metric: "gridmeter_network_container_receive_bytes_per_second" as const,
        labels: containerLabels(container),
        value: receive,
      },
      {
        metric: "gridmeter_network_container_transmit_bytes_per_second" as const,
        labels: containerLabels(container),
        value: transmit,
      },
    ]),
  );
