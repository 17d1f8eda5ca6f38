import type { Metric } from "../../shared/exposition.ts";
import type { Output } from "../command/types.ts";
import type { Probe, ProbeKind, Saved } from "./common/probe.ts";
import { type ProbeDefaults, type ProbeName, type ProbeSettings, isProbeName } from "./common/settings.ts";
import { AMD_SMI_DEFAULTS, type AmdSmiReadings, amdSmi } from "./amd-smi.ts";
import { CRICTL_STATS_DEFAULTS, type CriReadings, crictlStats } from "./crictl-stats.ts";
import { custom } from "./custom.ts";
import { DOCKER_DAEMON_DEFAULTS, type DaemonReadings, dockerDaemon } from "./docker-daemon.ts";
import { DOCKER_INSPECT_DEFAULTS, type InspectReadings, dockerInspect } from "./docker-inspect.ts";
import { DOCKER_LOGS_DEFAULTS, type LogReadings, dockerLogs } from "./docker-logs.ts";
import { DOCKER_STATS_DEFAULTS, type StatsReadings, dockerStats } from "./docker-stats.ts";
import { IFTOP_DEFAULTS, type TrafficReadings, iftop } from "./iftop.ts";
import { LSOF_DEFAULTS, type SocketReadings, lsof } from "./lsof.ts";
import { NVIDIA_SMI_DEFAULTS, type NvidiaReadings, nvidiaSmi } from "./nvidia-smi.ts";
import { PS_DEFAULTS, type ProcessReadings, ps } from "./ps.ts";
import { type AmdReadings, ROCM_SMI_DEFAULTS, rocmSmi } from "./rocm-smi.ts";

/**
 * Makes a probe: one of gridmeter's own by its name, or a custom one by any other name and a `command`. Nothing is run yet.
 *
 * @throws GridmeterError config_invalid for limits that are not finite or not above 0, a command without its placeholder, an empty
 * marker, and an unknown name without a command
 */
export const createProbe = (name: string, settings: ProbeSettings = {}): Probe<Readings> =>
  kindOf(name).create(settings);

/**
 * Reads a saved output of a probe's command: for docker-inspect the JSON of containers; for docker-logs the log of one, for lsof the
 * rows of one, whose metrics do not name the container then. Nothing is run.
 *
 * @throws {ParseError} if the output cannot be read
 * @throws GridmeterError config_invalid if docker-logs has no marker
 */
export const parseSaved = (name: string, output: Output, settings: ProbeSettings = {}): Saved =>
  kindOf(name).parseSaved(output, settings);

const kindOf = (name: string): ProbeKind<Readings> => (isProbeName(name) ? KINDS[name] : custom(name));

const KINDS: Readonly<Record<ProbeName, ProbeKind<Readings>>> = {
  "docker-daemon": dockerDaemon,
  "docker-stats": dockerStats,
  "docker-inspect": dockerInspect,
  "docker-logs": dockerLogs,
  "nvidia-smi": nvidiaSmi,
  "amd-smi": amdSmi,
  "rocm-smi": rocmSmi,
  iftop,
  lsof,
  ps,
  "crictl-stats": crictlStats,
};

/** The settings of each probe with their defaults, for the configuration and its documentation. */
export const PROBE_DEFAULTS = {
  "docker-daemon": DOCKER_DAEMON_DEFAULTS,
  "docker-stats": DOCKER_STATS_DEFAULTS,
  "docker-inspect": DOCKER_INSPECT_DEFAULTS,
  "docker-logs": DOCKER_LOGS_DEFAULTS,
  "nvidia-smi": NVIDIA_SMI_DEFAULTS,
  "amd-smi": AMD_SMI_DEFAULTS,
  "rocm-smi": ROCM_SMI_DEFAULTS,
  iftop: IFTOP_DEFAULTS,
  lsof: LSOF_DEFAULTS,
  ps: PS_DEFAULTS,
  "crictl-stats": CRICTL_STATS_DEFAULTS,
} as const satisfies { readonly [Name in ProbeName]: ProbeDefaults };

/**
 * The values that probes' data are joined with, a key a probe. A key is missing if the probe did not read it, or if it is too old: the
 * metrics that are joined with it are missing then.
 */
export type Readings = Partial<
  DaemonReadings &
    StatsReadings &
    InspectReadings &
    LogReadings &
    NvidiaReadings &
    AmdSmiReadings &
    AmdReadings &
    TrafficReadings &
    SocketReadings &
    ProcessReadings &
    CriReadings
>;

/** Metrics that join the readings of several probes, by the probe that publishes them, without probes that have none. */
export type JoinedMetrics = ReadonlyMap<string, readonly Metric[]>;
