import { CELL } from "../../lib/accounting/ports.ts";
import type { Fact, Monitoring, Row, UidPrefixes, Window } from "../../lib/accounting/ports.ts";
import type { Selection } from "../../lib/accounting/tenant.ts";
import { GridmeterError } from "../../lib/errors.ts";
import type { Random } from "../simulator/random.ts";
import { lastIn, maxIn } from "../simulator/series.ts";
import type { Series } from "../simulator/series.ts";
import { matches } from "./matchers.ts";

export type MemoryOptions = {
  /** seconds; a longer window is refused with `prometheus_too_large` */
  readonly maxWindow?: number;
  /** an answer of more rows is refused with `prometheus_too_large` */
  readonly maxRows?: number;
  /** answers come after a random number of turns of the event loop, so in random order */
  readonly shuffle?: Random;
  /** retention: samples before this are gone, epoch seconds */
  readonly forgetBefore?: number;
};

type Sum = Map<string, { readonly uid: string; readonly pod: string; parts: Map<string, number> }>;

/** The monitoring of a simulated cluster, evaluated in memory as Prometheus would: closed windows, copies merged by max. */
export class MemoryMonitoring implements Monitoring {
  readonly #all: readonly Series[];
  readonly #own: ReadonlyMap<string, readonly Series[]>;
  readonly #selection: Selection;
  readonly #options: MemoryOptions;

  constructor(series: readonly Series[], selection: Selection, options: MemoryOptions = {}) {
    this.#selection = selection;
    this.#options = options;
    this.#all = series.filter((one) => selection.matchers.every((matcher) => matches(one.labels, matcher)));
    const own = new Map<string, Series[]>();
    for (const one of this.#all) {
      if (one.labels[`${selection.labelPrefix}namespace`] !== selection.namespace) continue;
      const family = own.get(one.name) ?? [];
      own.set(one.name, family);
      family.push(one);
    }
    this.#own = own;
  }

  async facts(fact: Fact, window: Window, prefixes?: UidPrefixes): Promise<readonly Row[]> {
    await this.#delay();
    const { maxWindow = Infinity, maxRows = Infinity } = this.#options;
    const length = window.to - window.from;
    if (length > maxWindow) throw tooLarge(`a window of ${length} s`);
    const rows = this.#evaluate(fact, this.#kept(window)).filter(
      ({ uid }) => prefixes === undefined || prefixes.some((prefix) => uid.startsWith(prefix)),
    );
    if (rows.length > maxRows) throw tooLarge(`${rows.length} rows`);
    return rows;
  }

  async seen(window: Window): Promise<readonly number[]> {
    await this.#delay();
    const cells: number[] = [];
    const evidence = this.#evidence(this.#kept(window));
    for (let end = window.from + CELL; end <= window.to; end += CELL) {
      const cell = this.#kept({ from: end - CELL, to: end });
      if (evidence.some((one) => (maxIn(one, cell.from, cell.to) ?? 0) > 0)) cells.push(end);
    }
    return cells;
  }

  async namespaces(window: Window): Promise<{ names: readonly string[]; exportedNames: readonly string[] }> {
    await this.#delay();
    const { from, to } = this.#kept(window);
    const found = this.#all.filter((one) => one.name.startsWith("kube_") && lastIn(one, from, to) !== undefined);
    const named = (label: string): string[] =>
      [...new Set(found.map((one) => one.labels[label]).filter((name) => name !== undefined))].sort();
    return { names: named(`${this.#selection.labelPrefix}namespace`), exportedNames: named("exported_namespace") };
  }

  async voLabelSeen(window: Window): Promise<boolean> {
    await this.#delay();
    return this.#evaluate("vo", this.#kept(window)).length > 0;
  }

  #evaluate(fact: Fact, { from, to }: Window): Row[] {
    const requests = (resource: string): Series[] => {
      const always = new Set(
        this.#family("kube_pod_init_container_info")
          .filter((one) => one.labels["restart_policy"] === "Always" && lastIn(one, from, to) !== undefined)
          .map((one) => this.#container(one)),
      );
      return [
        ...this.#family("kube_pod_container_resource_requests"),
        ...this.#family("kube_pod_init_container_resource_requests").filter((one) => always.has(this.#container(one))),
      ].filter((one) => one.labels["resource"] === resource);
    };
    switch (fact) {
      case "end":
        return this.#sum(this.#family("kube_pod_completion_time"), (one) => maxIn(one, from, to));
      case "start":
        return this.#sum(this.#family("kube_pod_start_time"), (one) => maxIn(one, from, to));
      case "finished": {
        const terminal = this.#family("kube_pod_status_phase").filter((one) =>
          /^(?:Succeeded|Failed)$/.test(one.labels["phase"] ?? ""),
        );
        return this.#sum(terminal, (one) => maxIn(one, from, to));
      }
      case "cores":
        return this.#sum(
          requests("cpu"),
          (one) => lastIn(one, from, to),
          (one) => this.#container(one),
        );
      case "memoryRequest":
        return this.#sum(
          requests("memory"),
          (one) => lastIn(one, from, to),
          (one) => this.#container(one),
        );
      case "vo":
        return this.#vo(from, to);
      case "cpu": {
        const series = this.#measured("container_cpu_usage_seconds_total");
        const one = this.#sum(
          series,
          (held) => maxIn(held, from, to),
          (held) => held.labels["id"] ?? "",
          true,
        );
        return one;
      }
      case "memoryUsed": {
        const series = this.#measured("container_memory_working_set_bytes");
        return this.#sum(
          series,
          (one) => maxIn(one, from, to),
          (one) => this.#container(one),
        );
      }
    }
  }

  #vo(from: number, to: number): Row[] {
    const { voLabel } = this.#selection;
    if (voLabel === undefined) return [];
    const found = new Map<string, Row>();
    for (const one of this.#family("kube_pod_labels")) {
      const text = one.labels[voLabel];
      if (text === undefined || lastIn(one, from, to) === undefined) continue;
      const uid = this.#uid(one);
      found.set(`${uid} ${text}`, { uid, pod: this.#pod(one), value: 1, text });
    }
    return [...found.values()];
  }

  /** Merges copies of a part by max, then adds up the parts of a pod; or a row for each part. */
  #sum(
    series: readonly Series[],
    value: (one: Series) => number | undefined,
    part: (one: Series) => string = () => "",
    apart = false,
  ): Row[] {
    const pods: Sum = new Map();
    for (const one of series) {
      const uid = this.#uid(one);
      const measured = value(one);
      if (uid === "" || measured === undefined) continue;
      const pod = this.#pod(one);
      const held = pods.get(uid) ?? { uid, pod, parts: new Map<string, number>() };
      pods.set(uid, held);
      const key = part(one);
      held.parts.set(key, Math.max(held.parts.get(key) ?? -Infinity, measured));
    }
    return [...pods.values()].flatMap(({ uid, pod, parts }) =>
      apart
        ? [...parts].map(([key, each]) => ({ uid, pod, value: each, part: key }))
        : [{ uid, pod, value: [...parts.values()].reduce((sum, each) => sum + each, 0) }],
    );
  }

  /** The containers themselves: neither the pod-level copies nor the pause container. */
  #measured(name: string): readonly Series[] {
    const label = `${this.#selection.labelPrefix}container`;
    return this.#family(name).filter((one) => !["", "POD"].includes(one.labels[label] ?? ""));
  }

  #evidence({ from, to }: Window): readonly Series[] {
    const up = this.#all.filter((one) => one.name === "up" && (one.labels["job"] ?? "").includes("kube-state-metrics"));
    if (up.some((one) => lastIn(one, from, to) !== undefined)) return up;
    return this.#all.filter((one) => one.name.startsWith("kube_pod_"));
  }

  #family(name: string): readonly Series[] {
    return this.#own.get(name) ?? [];
  }

  #pod(one: Series): string {
    return one.labels[`${this.#selection.labelPrefix}pod`] ?? "";
  }

  #container(one: Series): string {
    return `${this.#uid(one)} ${one.labels[`${this.#selection.labelPrefix}container`] ?? ""}`;
  }

  /** The label, or what cAdvisor's cgroup path says (the systemd driver writes the uid with underscores). */
  #uid(one: Series): string {
    const label = one.labels["uid"];
    if (label !== undefined) return label;
    const found = /pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})/.exec(one.labels["id"] ?? "");
    return (found?.[1] ?? "").replaceAll("_", "-");
  }

  #kept({ from, to }: Window): Window {
    return { from: Math.max(from, this.#options.forgetBefore ?? 0), to };
  }

  async #delay(): Promise<void> {
    const turns = this.#options.shuffle?.int(0, 6) ?? 0;
    for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  }
}

function tooLarge(what: string): GridmeterError {
  return new GridmeterError("prometheus_too_large", `The in-memory monitoring refused ${what}, as it was told to.`);
}
