import type { Metric } from "../agent/types.ts";
import type { DaemonReadings } from "./run/docker-daemon.ts";
import type { StatsReadings } from "./run/docker-stats.ts";
import type { InspectReadings } from "./run/docker-inspect.ts";
import type { LogReadings } from "./run/docker-logs.ts";
import type { NvidiaReadings } from "./run/nvidia-smi.ts";
import type { AmdReadings } from "./run/rocm-smi.ts";
import type { TrafficReadings } from "./run/iftop.ts";
import type { SocketReadings } from "./run/lsof.ts";
import type { ProcessReadings } from "./run/ps.ts";
import type { CriReadings } from "./run/crictl-stats.ts";

/**
 * What probes read, for joins: each probe gives its own key. A key that is not there was not read, or is not fresh any more;
 * whatever is joined with it is absent then.
 */
export type Readings = Partial<
  DaemonReadings &
    StatsReadings &
    InspectReadings &
    LogReadings &
    NvidiaReadings &
    AmdReadings &
    TrafficReadings &
    SocketReadings &
    ProcessReadings &
    CriReadings
>;

/** Metrics that need several probes' readings, by the probe that publishes them. Empty ones are left out. */
export type JoinedMetrics = ReadonlyMap<string, readonly Metric[]>;
