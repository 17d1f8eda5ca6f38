/** A stretch of time in epoch seconds. Which edge is included never matters: only idempotent functions are asked over it. */
export type Window = { readonly from: number; readonly to: number };

/**
 * What is asked of the monitoring about the pods of one tenant (its namespace and extra label matchers).
 * - `end`: latest `kube_pod_completion_time`, epoch seconds
 * - `name`: the same with the pod's name in `text`, for those who need the name: it makes the answer half as long again
 * - `start`: latest `kube_pod_start_time`, epoch seconds
 * - `succeeded`, `failed`: 1 if the phase was Succeeded (Failed) at any time in the window, 0 if the pod was seen but in
 *   another phase; no row where kube-state-metrics writes only the phase that holds
 * - `runningUntil`: the last moment at which the phase was neither Succeeded nor Failed, epoch seconds, at most 300 s early
 * - `lastDay`: the start of the last UTC day on which the pod was seen, epoch seconds
 * - `cores`: the last CPU request in the window of each container (`part`), native sidecars included, in cores; of scheduled
 *   pods. Copies that disagree have a row for each value
 * - `unscheduledCores`: the same of series that name no node: pods before they are scheduled, and all pods of a monitoring
 *   that drops the label
 * - `coresAt`: the same of each copy, with the moment of the copy's last sample in `at`; scheduled or not, and of ordinary init
 *   containers too
 * - `vo`: the pod label that names the VO, in `text` (value 1); pods without the label have no row, copies that disagree several
 * - `voAt`: the same of each copy, with the moment of the copy's last sample in `at`
 * - `cpu`: CPU seconds per container instance: `part` is cAdvisor's id ("" where it was dropped), `uid` is taken out of it ("" where
 *   none is found)
 * - `memoryRequest`, `unscheduledMemoryRequest`, `memoryRequestAt`: as those of cores, bytes
 * - `memoryUsed`: measured maximum of each container, bytes; `part` is the container's name
 */
export type Fact =
  | "end"
  | "name"
  | "start"
  | "succeeded"
  | "failed"
  | "runningUntil"
  | "lastDay"
  | "cores"
  | "unscheduledCores"
  | "coresAt"
  | "vo"
  | "voAt"
  | "cpu"
  | "memoryRequest"
  | "unscheduledMemoryRequest"
  | "memoryRequestAt"
  | "memoryUsed";

/** One pod's value. `part` separates rows of one uid where a pod has several (containers, cgroups). */
export type Row = {
  readonly uid: string;
  readonly value: number;
  readonly text?: string;
  readonly part?: string;
  /** the moment of the copy's last sample, epoch seconds */
  readonly at?: number;
  /** which copy it is of those of a request: the same in every window */
  readonly copy?: string;
};

/** The first hexadecimal digits of the uids asked for, e.g. ["0","1"] or ["a3"]; used when an hour is still too much. */
export type UidPrefixes = readonly string[];

/** The pods a question is about, where it is not about all: those whose uid begins with one of these, or just these. */
export type Only = { readonly prefixes: UidPrefixes } | { readonly uids: readonly string[] };

/** Width of the cells in which monitoring is looked for, seconds. */
export const CELL = 300;

/**
 * When the monitoring was seen.
 * - `cells`: the ends t (multiples of CELL, ascending) of the cells (t - CELL, t] in which kube-state-metrics was seen working
 * - `partly`: stretches in which only the pods of single nodes were missing: gaps that never make a day unseen
 * - `upOnly`: stretches of which `cells` holds every cell only because `up` was 1, no pod was seen
 * - `silent`: stretches that are gaps although `up` was 1: Prometheus has data, but no pod
 */
export type Sighting = {
  readonly cells: readonly number[];
  readonly partly: readonly Window[];
  readonly upOnly: readonly Window[];
  readonly silent: readonly Window[];
};

/**
 * What a run asks of whether anybody reports it at all: metrics; `phases`: rows of Succeeded or Failed, `both phases`: of either;
 * `zero phases`: rows of value 0; `kube-system`: any pod of that namespace; `own pods`: any pod of the tenant's namespace.
 */
export type Presence =
  | "ends"
  | "starts"
  | "phases"
  | "both phases"
  | "zero phases"
  | "requests"
  | "kube-system"
  | "own pods";

/**
 * The monitoring of one tenant's cluster. Implemented over Prometheus, and in memory for tests.
 * A refused query is thrown as a GridmeterError: `prometheus_too_large` (also too slow), `prometheus_unavailable` (not now), or a
 * `CutShort` for an answer that stopped in the middle; the caller asks for less.
 */
export interface Monitoring {
  /**
   * Hands over one row for each uid (and part) that has any, while the answer arrives. Where a try fails halfway the rows
   * come again, so taking one twice must not matter; and they hold only if this does not throw.
   */
  facts(fact: Fact, window: Window, take: (row: Row) => void, only?: Only): Promise<void>;
  /** When kube-state-metrics was seen inside the window, of which both ends are multiples of CELL. */
  seen(window: Window): Promise<Sighting>;
  /**
   * The starts of the UTC days of the window on which there was any such series in any visible namespace. `window` begins and ends at midnight.
   */
  presence(of: Presence, window: Window): Promise<ReadonlySet<number>>;
  /** At most `most` uids of pods seen in the window, spread over it. */
  sample(window: Window, most: number): Promise<readonly string[]>;
  /**
   * Namespaces of which anything was seen in the window, sorted: `names` under the labels that are read. `prefixes` are those
   * of other labels under which the tenant's own namespace is found.
   */
  namespaces(window: Window): Promise<{ readonly names: readonly string[]; readonly prefixes: readonly string[] }>;
  /**
   * Another prefix of the labels of the pods that carry the tenant's namespace in the window: that is then the namespace of
   * kube-state-metrics itself, and they are pods of any namespace.
   */
  readonly strayPrefix?: (window: Window) => Promise<string | undefined>;
  /** Whether any pod of the namespace carried the VO label in the window. */
  voLabelSeen(window: Window): Promise<boolean>;
  /** How many pods carry the VO label split in two, because two labels of the pod have one name in Prometheus (`label_vo_conflict1`). */
  voLabelSplit(window: Window): Promise<number>;
}
