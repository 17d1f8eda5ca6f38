import type { Fact, Row, Window } from "../../lib/accounting/model/monitoring.ts";
import { GridmeterError } from "../../lib/shared/errors.ts";
import { lastIn, maxIn } from "../simulator/series.ts";
import type { Series } from "../simulator/series.ts";

type Value = (one: Series, from: number, to: number) => number | undefined;

const DAY = 86_400;

/** The moment of the last sample in the closed window. */
export function lastSampleAt(one: Series, from: number, to: number): number | undefined {
  return lastMoment(one, from, to, () => true);
}

/** The moment of the last sample in the closed window whose value is 1. */
function lastHeld(one: Series, from: number, to: number): number | undefined {
  return lastMoment(one, from, to, (segment) => segment.value === 1);
}

function lastMoment(
  { segments, schedule }: Series,
  from: number,
  to: number,
  test: (segment: Series["segments"][number]) => boolean,
): number | undefined {
  return segments
    .filter(test)
    .map((segment) => schedule.last(Math.max(segment.from, from), Math.min(segment.to, Math.floor(to) + 1)))
    .reduce((latest, at) => (at !== undefined && at > (latest ?? -Infinity) ? at : latest), undefined);
}

/** The series of one namespace, and where their labels stand. */
export class Facts {
  readonly #families: ReadonlyMap<string, readonly Series[]>;
  readonly #labelPrefix: string;
  readonly #voLabel: string | undefined;

  constructor(families: ReadonlyMap<string, readonly Series[]>, labelPrefix: string, voLabel: string | undefined) {
    this.#families = families;
    this.#labelPrefix = labelPrefix;
    this.#voLabel = voLabel;
  }

  /** The rows of one fact over a closed window, as the port (lib/accounting/model/monitoring.ts) describes them. */
  rows(fact: Fact, window: Window): Row[] {
    switch (fact) {
      case "end":
        return this.#totals(this.#family("kube_pod_completion_time"), maxIn, window);
      case "name": {
        const ends = this.#family("kube_pod_completion_time");
        const names = new Map(ends.map((one) => [uidOf(one), this.#label(one, "pod")]));
        return this.#totals(ends, maxIn, window).map((row) => ({ ...row, text: names.get(row.uid) ?? "" }));
      }
      case "start":
        return this.#totals(this.#family("kube_pod_start_time"), maxIn, window);
      case "succeeded":
        return this.#totals(this.#phase("Succeeded"), maxIn, window);
      case "failed":
        return this.#totals(this.#phase("Failed"), maxIn, window);
      case "runningUntil": {
        const open = this.#family("kube_pod_status_phase").filter(
          (one) => !["Succeeded", "Failed"].includes(one.labels["phase"] ?? ""),
        );
        return this.#totals(open, lastHeld, window);
      }
      case "lastDay":
        return this.#totals(this.#family("kube_pod_status_phase"), lastSampleAt, window).map((row) => ({
          ...row,
          value: Math.floor(row.value / DAY) * DAY,
        }));
      case "cores":
        return this.#requested("cpu", true, window);
      case "unscheduledCores":
        return this.#requested("cpu", false, window);
      case "coresAt":
        return this.#copies("cpu", window);
      case "memoryRequest":
        return this.#requested("memory", true, window);
      case "unscheduledMemoryRequest":
        return this.#requested("memory", false, window);
      case "memoryRequestAt":
        return this.#copies("memory", window);
      case "vo":
        return this.#vo(window).map(({ at: _at, ...row }) => row);
      case "voAt":
        return this.#vo(window);
      case "cpu": {
        const series = this.#measured("container_cpu_usage_seconds_total");
        return this.#parts(series, maxIn, window, (one) => one.labels["id"] ?? "");
      }
      case "memoryUsed": {
        const series = this.#measured("container_memory_working_set_bytes");
        return this.#parts(series, maxIn, window, (one) => this.#label(one, "container"));
      }
    }
  }

  /** A row for each part of each pod; copies of a part are merged by max. */
  #parts(series: readonly Series[], value: Value, window: Window, part: (one: Series) => string): Row[] {
    const rows = new Map<string, Row & { readonly part: string }>();
    for (const one of series) {
      const measured = value(one, window.from, window.to);
      if (measured === undefined) continue;
      const uid = uidOf(one);
      const named = part(one);
      const held = rows.get(`${uid} ${named}`);
      if (held !== undefined && held.value >= measured) continue;
      rows.set(`${uid} ${named}`, { uid, value: measured, part: named });
    }
    return [...rows.values()];
  }

  /** A row for each pod: the sum over its parts. */
  #totals(series: readonly Series[], value: Value, window: Window, part: (one: Series) => string = () => ""): Row[] {
    const pods = new Map<string, Row>();
    for (const { uid, value: measured } of this.#parts(series, value, window, part)) {
      pods.set(uid, { uid, value: (pods.get(uid)?.value ?? 0) + measured });
    }
    return [...pods.values()];
  }

  /** A row for each value of each container. */
  #requested(resource: string, scheduled: boolean, window: Window): Row[] {
    const rows = this.#requests(resource, scheduled, window).map((one) => ({
      uid: uidOf(one),
      part: this.#label(one, "container"),
      value: lastIn(one, window.from, window.to) ?? Number.NaN,
    }));
    return [...new Map(rows.map((row) => [JSON.stringify(row), row])).values()];
  }

  #copies(resource: string, window: Window): Row[] {
    return this.#requestSeries(resource, window).map((one) => ({
      uid: uidOf(one),
      part: this.#label(one, "container"),
      value: lastIn(one, window.from, window.to) ?? Number.NaN,
      at: lastSampleAt(one, window.from, window.to) ?? window.from,
      copy: JSON.stringify(one.labels),
    }));
  }

  #phase(phase: string): readonly Series[] {
    return this.#family("kube_pod_status_phase").filter((one) => one.labels["phase"] === phase);
  }

  #requests(resource: string, scheduled: boolean, window: Window): readonly Series[] {
    const key = (one: Series): string => `${uidOf(one)} ${this.#label(one, "container")}`;
    const always = new Set(
      this.#family("kube_pod_init_container_info")
        .filter((one) => one.labels["restart_policy"] === "Always" && lastIn(one, window.from, window.to) !== undefined)
        .map(key),
    );
    const isSidecar = (one: Series): boolean => one.name.includes("_init_") && always.has(key(one));
    const wanted = this.#requestSeries(resource, window).filter(
      (one) => (!one.name.includes("_init_") || isSidecar(one)) && (this.#label(one, "node") !== "") === scheduled,
    );
    const own = (one: Series): boolean => (one.labels[`${this.#labelPrefix}node`] ?? "") !== "";
    // Where the target has a node of its own, a pod's series from before scheduling seems to name one.
    const best = new Set(wanted.filter(own).map(key));
    return wanted.filter((one) => own(one) || !best.has(key(one)));
  }

  /** Copies of any container, ordinary init containers included: whoever asks knows which of them add. */
  #requestSeries(resource: string, { from, to }: Window): readonly Series[] {
    const names = ["kube_pod_container_resource_requests", "kube_pod_init_container_resource_requests"];
    return names
      .flatMap((name) => this.#family(name))
      .filter((one) => one.labels["resource"] === resource && lastIn(one, from, to) !== undefined);
  }

  #vo({ from, to }: Window): Row[] {
    const label = this.#voLabel;
    if (label === undefined) throw new GridmeterError("config_invalid", "The VO label is not set.");
    const rows = new Map<string, Row>();
    for (const one of this.#family("kube_pod_labels")) {
      const text = one.labels[label];
      const at = lastSampleAt(one, from, to);
      if (text === undefined || at === undefined) continue;
      const row = { uid: uidOf(one), value: 1, text, at };
      const key = JSON.stringify([row.uid, text]);
      if (at >= (rows.get(key)?.at ?? at)) rows.set(key, row);
    }
    return [...rows.values()];
  }

  /** The containers themselves: neither the pod-level copies nor the pause container. */
  #measured(name: string): readonly Series[] {
    return this.#family(name).filter((one) => !["", "POD"].includes(this.#label(one, "container")));
  }

  #family(name: string): readonly Series[] {
    return this.#families.get(name) ?? [];
  }

  #label(one: Series, name: string): string {
    return one.labels[`${this.#labelPrefix}${name}`] ?? one.labels[name] ?? "";
  }
}

/** The label, or what cAdvisor's cgroup path says (the systemd driver writes the uid with underscores). */
function uidOf(one: Series): string {
  const { uid, id = "" } = one.labels;
  const found = /pod(?<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})/.exec(id)?.groups?.["uid"];
  return uid ?? (found ?? "").replaceAll("_", "-");
}
