import { type Job, jobsIn } from "./jobs.ts";
import type { Layout, Stretch } from "./shape.ts";

export const NAMESPACE = "grid";
/** Scrapes do not fall on whole minutes. */
const OFFSET = 17;

type Segment = Stretch & { readonly value: number };

/** A series' labels, sorted by name as Prometheus wants them, and its values in time. */
export type Series = {
  readonly labels: readonly (readonly [name: string, value: string])[];
  readonly segments: readonly Segment[];
};

const SCRAPED_BY = [
  ["instance", "10.42.0.7:8080"],
  ["job", "kube-state-metrics"],
] as const;
const PHASES = ["Failed", "Pending", "Running", "Succeeded", "Unknown"] as const;

/** What kube-state-metrics exports of a job and accounting reads: the end, the start, the CPU request and all five phases. */
function seriesOf(job: Job): readonly Series[] {
  const pod = [
    ["namespace", NAMESPACE],
    ["pod", job.pod],
  ] as const;
  const uid = ["uid", job.uid] as const;
  const one = (name: string, segments: readonly Segment[]): Series => ({
    labels: [["__name__", name], ...SCRAPED_BY, ...pod, uid],
    segments,
  });
  const life = { from: job.start, to: job.gone };
  return [
    one("kube_pod_completion_time", [{ from: job.end, to: job.gone, value: job.end }]),
    one("kube_pod_start_time", [{ ...life, value: job.start }]),
    {
      labels: [
        ["__name__", "kube_pod_container_resource_requests"],
        ["container", "main"],
        ...SCRAPED_BY,
        ["namespace", NAMESPACE],
        ["node", job.node],
        ["pod", job.pod],
        ["resource", "cpu"],
        uid,
        ["unit", "core"],
      ],
      segments: [{ ...life, value: job.cores }],
    },
    ...PHASES.map((phase) => ({
      labels: [["__name__", "kube_pod_status_phase"], ...SCRAPED_BY, pod[0], ["phase", phase], pod[1], uid] as const,
      segments: [
        { from: job.start, to: job.end, value: phase === "Running" ? 1 : 0 },
        { from: job.end, to: job.gone, value: phase === job.outcome ? 1 : 0 },
      ],
    })),
  ];
}

/** kube-state-metrics reports its own pod as it does any other. */
function ownPod(layout: Layout): readonly Series[] {
  const life = { from: layout.from, to: layout.to };
  const pod = [
    ["namespace", "monitoring"],
    ["pod", "kube-state-metrics-7d9c8b5f6c-x2k4q"],
  ] as const;
  const uid = ["uid", "5f0c7e52-6a5b-4d0e-9a3c-0d1f6b1f7a11"] as const;
  const ip = ["pod_ip", "10.42.0.7"] as const;
  return [
    {
      labels: [["__name__", "kube_pod_info"], ...SCRAPED_BY, pod[0], ["node", "node-1"], pod[1], ip, uid],
      segments: [{ ...life, value: 1 }],
    },
    {
      labels: [["__name__", "kube_pod_start_time"], ...SCRAPED_BY, ...pod, uid],
      segments: [{ ...life, value: layout.from - 3600 }],
    },
    ...PHASES.map((phase) => ({
      labels: [["__name__", "kube_pod_status_phase"], ...SCRAPED_BY, pod[0], ["phase", phase], pod[1], uid] as const,
      segments: [{ ...life, value: phase === "Running" ? 1 : 0 }],
    })),
  ];
}

/** All series that may have a sample in [from, to): those of the jobs, of kube-state-metrics' own pod, and its `up`. */
export function* seriesIn(layout: Layout, from: number, to: number): Generator<Series> {
  yield { labels: [["__name__", "up"], ...SCRAPED_BY], segments: [{ from: layout.from, to: layout.to, value: 1 }] };
  yield* ownPod(layout);
  for (const job of jobsIn(layout, from, to)) yield* seriesOf(job);
}

/** Calls back for every sample of the series in [from, to), ascending. Times in epoch seconds. */
export function eachSample(
  { segments }: Series,
  layout: Layout,
  { from, to }: Stretch,
  sample: (time: number, value: number) => void,
): void {
  const { scrapeSeconds } = layout;
  for (const segment of segments) {
    const begin = Math.max(segment.from, from, layout.from);
    const end = Math.min(segment.to, to, layout.to);
    const first = Math.ceil((begin - OFFSET) / scrapeSeconds) * scrapeSeconds + OFFSET;
    for (let time = first; time < end; time += scrapeSeconds) sample(time, segment.value);
  }
}
