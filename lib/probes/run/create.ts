import type { Readings } from "../readings.ts";
import type { Probe } from "../../agent/probe.ts";
import type { Output } from "../../agent/types.ts";
import { crictlStats } from "./crictl-stats.ts";
import { custom } from "./custom.ts";
import { dockerDaemon } from "./docker-daemon.ts";
import { dockerInspect } from "./docker-inspect.ts";
import { dockerLogs } from "./docker-logs.ts";
import { dockerStats } from "./docker-stats.ts";
import { iftop } from "./iftop.ts";
import type { ProbeKind, Saved } from "./kind.ts";
import { lsof } from "./lsof.ts";
import { nvidiaSmi } from "./nvidia-smi.ts";
import { ps } from "./ps.ts";
import { rocmSmi } from "./rocm-smi.ts";
import { isProbeName, type ProbeName, type ProbeSettings } from "./settings.ts";

export { PROBE_DEFAULTS } from "./defaults.ts";
export { CUSTOM_DEFAULTS } from "./custom.ts";
export type { ProbeDefaults } from "./settings.ts";
export type { Saved } from "./kind.ts";
export { PROBE_NAMES, isProbeName, type ProbeName, type ProbeOption, type ProbeSettings } from "./settings.ts";

const KINDS: Readonly<Record<ProbeName, ProbeKind<Readings>>> = {
  "docker-daemon": dockerDaemon,
  "docker-stats": dockerStats,
  "docker-inspect": dockerInspect,
  "docker-logs": dockerLogs,
  "nvidia-smi": nvidiaSmi,
  "rocm-smi": rocmSmi,
  iftop,
  lsof,
  ps,
  "crictl-stats": crictlStats,
};

const kindOf = (name: string): ProbeKind<Readings> => (isProbeName(name) ? KINDS[name] : custom(name));

/**
 * Makes a probe that can be run: one of gridmeter's own by its name, or a custom one by any other name and a `command`. What
 * is not set is as PROBE_DEFAULTS has it. Nothing is run yet.
 *
 * @throws GridmeterError config_invalid for limits that are not finite or not above 0, a command without its place, an empty
 * marker, and an unknown name without a command
 */
export const createProbe = (name: string, settings: ProbeSettings = {}): Probe<Readings> =>
  kindOf(name).create(settings);

/**
 * Reads a saved output of a probe's command: for docker-inspect the JSON of one container or several, for docker-logs the log
 * of one, for lsof the rows of one; their metrics do not say then which container that was. Nothing is run.
 *
 * @throws {ParseError} if nothing can be read
 * @throws GridmeterError config_invalid if docker-logs has no marker
 */
export const parseSaved = (name: string, output: Output, settings: ProbeSettings = {}): Saved =>
  kindOf(name).parseSaved(output, settings);
