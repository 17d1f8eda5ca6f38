export type Labels = Readonly<Record<string, string>>;

/** The labels of kube-state-metrics' target. */
export const KSM: Labels = { job: "kube-state-metrics", instance: "10.0.0.1:8080" };
/** Those of requests of a pod on a node. */
export const CPU: Labels = { resource: "cpu", unit: "core", node: "n1" };
export const MEMORY: Labels = { resource: "memory", unit: "byte", node: "n1" };

/** The uid of the n-th pod of a test. */
export function uidOf(n: number): string {
  return `${n.toString(16).padStart(2, "0").repeat(4)}-1111-4222-8333-${n.toString().padStart(12, "0")}`;
}

/** The labels of the n-th pod. */
export function podOf(namespace: string, n: number): Labels {
  return { ...KSM, namespace, pod: `pod-${n}`, uid: uidOf(n) };
}

const escaped = (text: string): string => text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");

/** Samples that a test writes series by series, for a real server. */
export class WrittenSamples {
  readonly #series = new Map<string, { readonly at: number; readonly line: string }[]>();
  readonly #from: number;
  readonly #to: number;

  /** @param from when series begin and end unless said otherwise, epoch seconds */
  constructor(from: number, to: number) {
    this.#from = from;
    this.#to = to;
  }

  /** A series scraped every `step` seconds from `from` to `to`. */
  put(
    metric: string,
    labels: Labels,
    value: number | ((at: number) => number) | "NaN" | "+Inf",
    from: number = this.#from,
    to: number = this.#to,
    step = 60,
  ): void {
    const filled = Object.entries(labels).filter(([, text]) => text !== "");
    const inside = filled.map(([name, text]) => `${name}="${escaped(text)}"`);
    const series = `${metric}{${inside.join(",")}}`;
    const samples = this.#series.get(series) ?? [];
    this.#series.set(series, samples);
    for (let at = from; at <= to; at += step)
      samples.push({ at, line: `${series} ${typeof value === "function" ? value(at) : value} ${at}` });
  }

  /** A container's request. */
  container(pod: Labels, container: string, value: number, more: Labels = CPU): void {
    this.put("kube_pod_container_resource_requests", { ...pod, container, ...more }, value);
  }

  /** All five phases, of which one holds. */
  phases(pod: Labels, phase: string, from?: number, to?: number): void {
    for (const each of ["Pending", "Succeeded", "Failed", "Running", "Unknown"])
      this.put("kube_pod_status_phase", { ...pod, phase: each }, each === phase ? 1 : 0, from, to);
  }

  /** Each series in the order of time: promtool drops what comes late without a word. */
  get openmetrics(): string {
    const lines = [...this.#series.values()].flatMap((samples) =>
      samples.toSorted((a, b) => a.at - b.at).map(({ line }) => line),
    );
    return [...lines, "# EOF\n"].join("\n");
  }
}
