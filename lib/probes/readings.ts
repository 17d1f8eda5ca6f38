import type { Metric } from "../agent/types.ts";
import type { CgroupOwner } from "./cgroup.ts";
import type { ContainerNames } from "./container.ts";
import type { DockerContainer } from "./docker-inspect.ts";
import type { DockerDaemon } from "./docker-daemon.ts";
import type { DockerLogs } from "./docker-logs.ts";
import type { DockerStatsRow } from "./docker-stats.ts";
import type { Iftop } from "./iftop.ts";
import type { Socket } from "./lsof.ts";
import type { NvidiaSmi } from "./nvidia-smi.ts";
import type { Process } from "./ps.ts";
import type { LongStanding } from "./ps-watch.ts";
import type { RocmSmi } from "./rocm-smi.ts";

/**
 * What probes read, for joins: each probe gives its own key. A key that is not there was not read, or is not fresh any more;
 * whatever is joined with it is absent then.
 */
export type Readings = {
  readonly daemon?: DockerDaemon;
  readonly stats?: readonly DockerStatsRow[];
  readonly containers?: readonly DockerContainer[];
  /** what a container runtime without docker runs */
  readonly criContainers?: readonly ContainerNames[];
  /** by container id; containers whose log could not be read are missing */
  readonly logs?: ReadonlyMap<string, DockerLogs>;
  /** `owners`: the control groups of the processes that hold GPUs */
  readonly nvidia?: { readonly log: NvidiaSmi; readonly owners: ReadonlyMap<number, CgroupOwner> };
  readonly amd?: { readonly report: RocmSmi; readonly owners: ReadonlyMap<number, CgroupOwner> };
  readonly traffic?: Iftop;
  /** by container id, and the control groups of the sockets' processes */
  readonly sockets?: {
    readonly byContainer: ReadonlyMap<string, readonly Socket[]>;
    readonly owners: ReadonlyMap<number, CgroupOwner>;
  };
  /** `longStanding` is there once processes were seen twice */
  readonly processes?: { readonly all: readonly Process[]; readonly longStanding?: LongStanding };
};

/** Metrics that need several probes' readings, by the probe that publishes them. Empty ones are left out. */
export type JoinedMetrics = ReadonlyMap<string, readonly Metric[]>;
