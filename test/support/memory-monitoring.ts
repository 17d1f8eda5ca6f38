import {
  CELL,
  type Fact,
  type Monitoring,
  type Only,
  type Presence,
  type Row,
  type Sighting,
  type Window,
} from "../../lib/accounting/model/monitoring.ts";
import type { Selection } from "../../lib/accounting/model/tenant.ts";
import { GridmeterError } from "../../lib/shared/errors.ts";
import type { Random } from "../simulator/random.ts";
import { lastIn, maxIn } from "../simulator/series.ts";
import type { Series } from "../simulator/series.ts";
import { matches } from "./matchers.ts";
import { Facts } from "./memory-facts.ts";

export type MemoryOptions = {
  /** seconds; facts over a longer window are refused with `prometheus_too_large` */
  readonly maxWindow?: number;
  /** facts of more rows are refused with `prometheus_too_large` */
  readonly maxRows?: number;
  /** answers come after a random number of turns of the event loop, so in random order */
  readonly shuffle?: Random;
  /** retention: samples before this are gone, epoch seconds */
  readonly forgetBefore?: number;
};

/**
 * The monitoring of a simulated cluster, evaluated in memory as Prometheus would: closed windows, copies merged by max.
 * `monitoringSelector` is not understood. `series` as `simulate(cluster)` makes them.
 */
export class MemoryMonitoring implements Monitoring {
  readonly #all: readonly Series[];
  readonly #facts: Facts;
  readonly #selection: Selection;
  readonly #options: MemoryOptions;
  /** of renamed labels */
  readonly #prefix: string;
  /** How many times facts were asked for and answered; refusals not counted. */
  answered = 0;

  constructor(series: readonly Series[], selection: Selection, options: MemoryOptions = {}) {
    const { namespace, labelPrefix, matchers, voLabel } = selection;
    if (selection.monitoringSelector !== undefined) throw new Error("MemoryMonitoring knows no monitoringSelector.");
    this.#selection = selection;
    this.#prefix = labelPrefix === "" ? "exported_" : labelPrefix;
    this.#options = options;
    this.#all = series.filter((one) => matchers.every((matcher) => matches(one.labels, matcher)));
    const own = new Map<string, Series[]>();
    for (const one of this.#all) {
      if (labelOf(one, "namespace", this.#prefix) !== namespace) continue;
      const family = own.get(one.name) ?? [];
      own.set(one.name, family);
      family.push(one);
    }
    this.#facts = new Facts(own, this.#prefix, voLabel);
  }

  async facts(fact: Fact, window: Window, take: (row: Row) => void, only?: Only): Promise<void> {
    await this.#delay();
    const { maxWindow = Infinity, maxRows = Infinity } = this.#options;
    const length = window.to - window.from;
    if (length > maxWindow) throw tooLarge(`a window of ${length} s`);
    const rows = this.#facts.rows(fact, this.#kept(window)).filter(({ uid }) => isAsked(uid, only));
    if (rows.length > maxRows) throw tooLarge(`${rows.length} rows`);
    this.answered += 1;
    rows.forEach(take);
  }

  async seen(window: Window): Promise<Sighting> {
    await this.#delay();
    const named = (test: (one: Series) => boolean): Series[] => this.#all.filter(test);
    const up = named((one) => one.name === "up" && (one.labels["job"] ?? "").includes("kube-state-metrics"));
    const pods = named((one) => one.name === "kube_pod_start_time" || one.labels["phase"] === "Running");
    const cells: number[] = [];
    for (let end = window.from + CELL; end <= window.to; end += CELL) {
      const { from, to } = this.#kept({ from: end - CELL, to: end });
      if (to <= from) continue;
      const isUp = up.some((one) => (maxIn(one, from, to) ?? 0) > 0);
      if (isUp || pods.some((one) => lastIn(one, from, to) !== undefined)) cells.push(end);
    }
    return { cells, partly: [], upOnly: [], silent: [] };
  }

  async presence(of: Presence, window: Window): Promise<ReadonlySet<number>> {
    await this.#delay();
    if (of === "both phases") {
      const [succeeded, failed] = [this.#daysOf("Succeeded", window), this.#daysOf("Failed", window)];
      return new Set([...succeeded].filter((day) => failed.has(day)));
    }
    return this.#daysOf(of, window);
  }

  /** Days on which there is any such series; of zero phases, with the value 0. */
  #daysOf(of: SeriesOf, window: Window): ReadonlySet<number> {
    const { namespace } = this.#selection;
    const isOwn = (one: Series): boolean => labelOf(one, "namespace", this.#prefix) === namespace;
    const series = this.#all.filter((one) => isOf(of, one, this.#prefix) && (of !== "own pods" || isOwn(one)));
    const isThere = (value: number | undefined): boolean => (of === "zero phases" ? value === 0 : value !== undefined);
    const found = new Set<number>();
    for (let day = window.from; day < window.to; day += DAY) {
      const { from, to } = this.#kept({ from: day, to: day + DAY });
      if (to > from && series.some((one) => isThere(lastIn(one, from, to)))) found.add(day);
    }
    return found;
  }

  async sample(window: Window, most: number): Promise<readonly string[]> {
    return this.#facts
      .rows("start", this.#kept(window))
      .toSorted((a, b) => b.value - a.value)
      .slice(0, most)
      .map(({ uid }) => uid);
  }

  async namespaces(window: Window): Promise<{ names: readonly string[]; prefixes: readonly string[] }> {
    await this.#delay();
    const { from, to } = this.#kept(window);
    const found = this.#all.filter((one) => one.name.startsWith("kube_") && lastIn(one, from, to) !== undefined);
    const names = found.map((one) => labelOf(one, "namespace", this.#prefix)).filter((name) => name !== "");
    return { names: [...new Set(names)].sort(), prefixes: [] };
  }

  async voLabelSeen(window: Window): Promise<boolean> {
    await this.#delay();
    return this.#selection.voLabel !== undefined && this.#facts.rows("vo", this.#kept(window)).length > 0;
  }

  async voLabelSplit(window: Window): Promise<number> {
    const { from, to } = this.#kept(window);
    const { namespace, voLabel } = this.#selection;
    const split = this.#all.filter(
      (one) =>
        labelOf(one, "namespace", this.#prefix) === namespace &&
        one.labels[`${voLabel ?? ""}_conflict1`] !== undefined &&
        lastIn(one, from, to) !== undefined,
    );
    return new Set(split.map((one) => labelOf(one, "uid", this.#prefix))).size;
  }

  #kept({ from, to }: Window): Window {
    return { from: Math.max(from, this.#options.forgetBefore ?? 0), to };
  }

  async #delay(): Promise<void> {
    const turns = this.#options.shuffle?.int(0, 6) ?? 0;
    for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  }
}

const DAY = 86_400;

/** A pod's label: the renamed one where it is filled, else the plain one. */
function labelOf(one: Series, name: string, prefix: string): string {
  return one.labels[`${prefix}${name}`] ?? one.labels[name] ?? "";
}

/** Whether a series shows that somebody reports the metric. */
type SeriesOf = Exclude<Presence, "both phases"> | "Succeeded" | "Failed";

function isOf(of: SeriesOf, one: Series, prefix: string): boolean {
  const { name, labels } = one;
  switch (of) {
    case "ends":
      return name === "kube_pod_completion_time";
    case "starts":
      return name === "kube_pod_start_time";
    case "phases":
      return name === "kube_pod_status_phase" && ["Succeeded", "Failed"].includes(labels["phase"] ?? "");
    case "requests":
      return name === "kube_pod_container_resource_requests" && labels["resource"] === "cpu";
    case "Succeeded":
    case "Failed":
      return name === "kube_pod_status_phase" && labels["phase"] === of;
    case "zero phases":
      return name === "kube_pod_status_phase" && labels["phase"] === "Pending";
    case "own pods":
      return name === "kube_pod_info" || name === "kube_pod_container_resource_requests";
    case "kube-system":
      return name.startsWith("kube_pod_") && labelOf(one, "namespace", prefix) === "kube-system";
  }
}

/** Whether a question is about the pod. */
export function isAsked(uid: string, only: Only | undefined): boolean {
  if (only === undefined) return true;
  return "uids" in only ? only.uids.includes(uid) : only.prefixes.some((prefix) => uid.startsWith(prefix));
}

function tooLarge(what: string): GridmeterError {
  return new GridmeterError("prometheus_too_large", `The in-memory monitoring refused ${what}, as it was told to.`);
}
