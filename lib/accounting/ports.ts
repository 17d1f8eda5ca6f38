/** A stretch of time in epoch seconds. Which edge is included never matters: only idempotent functions are asked over it. */
export type Window = { readonly from: number; readonly to: number };

/**
 * What is asked of the monitoring about the pods of one tenant (its namespace and extra label matchers).
 * - `end`: latest `kube_pod_completion_time`, epoch seconds
 * - `name`: the same with the pod's name in `text`, for those who need the name: it makes the answer half as long again
 * - `start`: latest `kube_pod_start_time`, epoch seconds
 * - `finished`: 1 if the phase was Succeeded or Failed at any time in the window, 0 if the pod was seen but neither
 * - `cores`: sum over containers, native sidecars included, of the last CPU request in the window, in cores; of scheduled pods
 * - `unscheduledCores`: the same of series that name no node: pods before they are scheduled, and all pods of a monitoring
 *   that drops the label
 * - `vo`: the pod label that names the VO, in `text` (value 1); pods without the label have no row
 * - `cpu`: CPU seconds per container instance: `part` is cAdvisor's id ("" where it was dropped), `uid` is taken out of it ("" where
 *   none is found)
 * - `memoryRequest`, `unscheduledMemoryRequest`: sum over containers of the memory request, bytes
 * - `memoryUsed`: measured maximum of each container, bytes; `part` is the container's name
 */
export type Fact =
  | "end"
  | "name"
  | "start"
  | "finished"
  | "cores"
  | "unscheduledCores"
  | "vo"
  | "cpu"
  | "memoryRequest"
  | "unscheduledMemoryRequest"
  | "memoryUsed";

/** One pod's value. `part` tells rows of one uid apart where a pod has several (`cpu` and `memoryUsed`). */
export type Row = {
  readonly uid: string;
  readonly value: number;
  readonly text?: string;
  readonly part?: string;
};

/** The first hexadecimal digits of the uids asked for, e.g. ["0","1"] or ["a3"]; used when an hour is still too much. */
export type UidPrefixes = readonly string[];

/** The pods a question is about, where it is not about all: those whose uid begins with one of these, or just these. */
export type Only = { readonly prefixes: UidPrefixes } | { readonly uids: readonly string[] };

/** Width of the cells in which monitoring is looked for, seconds. */
export const CELL = 300;

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
  /**
   * The ends t (multiples of CELL, ascending) of the cells (t - CELL, t] inside the window in which kube-state-metrics
   * was seen working. `window.from` and `window.to` are multiples of CELL.
   */
  seen(window: Window): Promise<readonly number[]>;
  /** Namespaces of which anything was seen in the window, sorted; and whether they were found under a prefixed label. */
  namespaces(window: Window): Promise<{ readonly names: readonly string[]; readonly exportedNames: readonly string[] }>;
  /** Seconds on a clock that only goes forward, to judge what asking costs; absent where that does not matter. */
  readonly clock?: () => number;
  /** Whether any pod of the namespace carried the VO label in the window. */
  voLabelSeen(window: Window): Promise<boolean>;
}
