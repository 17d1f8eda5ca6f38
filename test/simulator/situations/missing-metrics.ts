import { STACK } from "../cluster.ts";
import type { Series } from "../series.ts";
import { ALL_DAYS, at, BATCH, batch, days, jobsOn, pod } from "./batch.ts";
import { dropped, metric, withoutZeroRows } from "./held.ts";
import { allowed, JAN, plain, publishes, refuses } from "./situation.ts";
import type { Situation } from "./situation.ts";

const MONTH = batch(jobsOn(ALL_DAYS));
const END = "kube_pod_completion_time";
const REQUESTS = "kube_pod_container_resource_requests";
const PHASES = "kube_pod_status_phase";

type Drop = {
  readonly name: string;
  readonly after: string;
  readonly drop: (shown: readonly Series[], from?: number) => readonly Series[];
  readonly code: string;
  readonly says: RegExp;
  /** also in the middle of a day */
  readonly atNoon: boolean;
};

const terminal = ({ name, labels }: Series): boolean =>
  name === PHASES && ["Succeeded", "Failed"].includes(labels["phase"] ?? "");

const from = (at: number | undefined) => (at === undefined ? {} : { from: at });

/** Metrics that a relabelling drops of every pod of the cluster. */
const DROPS: readonly Drop[] = [
  {
    name: "completion times",
    after:
      "kube-prometheus addons/ksm-lite.libsonnet; OpenShift minimal-service-monitor.yaml; grafana/k8s-monitoring-helm#314",
    drop: (shown, at) => dropped(shown, metric(END), from(at)),
    code: "metric_missing",
    says: /kube_pod_completion_time/,
    atNoon: true,
  },
  {
    name: "start times",
    after: "sibling of kube-prometheus addons/ksm-lite.libsonnet",
    drop: (shown, at) => dropped(shown, metric("kube_pod_start_time"), from(at)),
    code: "metric_missing",
    says: /kube_pod_start_time/,
    atNoon: false,
  },
  {
    name: "phases",
    after: "sibling of kube-prometheus addons/ksm-lite.libsonnet",
    drop: (shown, at) => dropped(shown, metric(PHASES), from(at)),
    code: "phase_missing",
    says: /kube_pod_status_phase/,
    atNoon: true,
  },
  {
    name: "terminal phases",
    after: "charts that keep the phases Pending and Running only (prometheus-facts: who drops or renames what)",
    drop: (shown, at) => dropped(shown, terminal, from(at)),
    code: "phase_missing",
    says: /kube_pod_status_phase/,
    atNoon: false,
  },
  {
    name: "the phase Succeeded alone",
    after: "charts that keep Pending, Running and Failed, on which alerts are made",
    drop: (shown, at) => dropped(shown, (one) => terminal(one) && one.labels["phase"] === "Succeeded", from(at)),
    code: "phase_missing",
    says: /kube_pod_status_phase/,
    atNoon: false,
  },
  {
    name: "completion times and terminal phases",
    after: "two of these relabellings at once: a pod is seen running, then it is gone",
    drop: (shown, at) => dropped(shown, (one) => terminal(one) || metric(END)(one), from(at)),
    code: "phase_missing",
    says: /kube_pod_status_phase/,
    atNoon: false,
  },
  {
    name: "all but kube_pod_info",
    after: "sibling of kube-state-metrics#1286 (allow lists): cost and inventory tools keep little more",
    drop: (shown, at) =>
      dropped(shown, (one) => one.name.startsWith("kube_pod_") && one.name !== "kube_pod_info", from(at)),
    code: "metric_missing",
    says: /kube_pod_start_time/,
    atNoon: false,
  },
  {
    name: "CPU requests, while a pod of kube-system is seen",
    after: "sibling of kube-state-metrics#1286 (allow lists)",
    drop: (shown, at) => dropped(shown, metric(REQUESTS), from(at)),
    code: "metric_missing",
    says: /kube_pod_container_resource_requests/,
    atNoon: true,
  },
];

const dropSituations = DROPS.flatMap(({ name, after, drop, code, says }): Situation[] => [
  {
    name: `${name} dropped`,
    after,
    cluster: MONTH,
    whole: false,
    held: (shown) => drop(shown),
    runs: [{ right: refuses([code], { says: [says] }) }, allowed(plain(0))],
  },
  {
    name: `${name} dropped from the 20th on`,
    after,
    cluster: MONTH,
    whole: false,
    held: (shown) => drop(shown, at(20)),
    runs: [{ right: refuses([code], { says: [says] }) }, allowed(plain(19))],
  },
]);

const noonSituations = DROPS.filter(({ atNoon }) => atNoon).map(({ name, after, drop, code, says }): Situation => ({
  name: `${name} dropped from the noon of the 20th on`,
  after,
  // Six jobs a day: of those of the 20th, half keep the fact.
  cluster: batch(jobsOn(ALL_DAYS, { perDay: 6 })),
  whole: false,
  held: (shown) => drop(shown, at(20, 12, 55)),
  runs: [{ right: refuses([code], { says: [says] }) }],
}));

const terminalWithoutZeroRows: Situation = {
  name: "terminal phases dropped, and no zero rows kept",
  after: "the two charts at once: a pod's last row is that of Running",
  cluster: MONTH,
  whole: false,
  held: (shown) => withoutZeroRows(dropped(shown, terminal)),
  runs: [{ right: refuses(["phase_missing", "all_left_out"]) }],
};

/** kube-state-metrics may list the jobs' namespace only, so no other pod shows whether requests are kept. */
const CONFINED = batch(jobsOn(ALL_DAYS), { stacks: [{ ...STACK, sees: [BATCH] }] });

const confinedSituations: readonly Situation[] = [
  {
    name: "CPU requests dropped for the last 3 days, nothing but the namespace seen",
    after: "rule: Facts vouch for each other (until then published with a warning, not stored)",
    cluster: CONFINED,
    whole: false,
    held: (shown) => dropped(shown, metric(REQUESTS), { from: at(29) }),
    runs: [
      {
        right: publishes(plain(28), {
          leftOut: { [JAN]: { no_cpu_request: 3 } },
          says: [/kube_pod_container_resource_requests|CPU request/],
        }),
      },
      { name: "again", right: publishes(plain(28), { leftOut: { [JAN]: { no_cpu_request: 3 } }, askedDays: 3 }) },
    ],
  },
  {
    name: "CPU requests dropped for the last 17 days, nothing but the namespace seen",
    after: "rule: Facts vouch for each other (7 days at least)",
    cluster: CONFINED,
    whole: false,
    held: (shown) => dropped(shown, metric(REQUESTS), { from: at(15) }),
    runs: [
      { right: refuses(["metric_missing"], { says: [/kube_pod_container_resource_requests/] }) },
      allowed(plain(14)),
    ],
  },
  {
    name: "CPU requests dropped, DEFAULT_CORES set",
    after: "rule: for requests only while DEFAULT_CORES is unset",
    cluster: MONTH,
    whole: false,
    held: (shown) => dropped(shown, metric(REQUESTS)),
    env: { DEFAULT_CORES: "1" },
    runs: [{ right: publishes({ jobs: 31, coreHours: 62 }) }],
  },
];

/** On days apart, so that a failed job is alone on its day. */
const someFail = jobsOn(ALL_DAYS, {
  plan: (index) => ({
    outcome: index % 3 === 0 ? "Failed" : "Succeeded",
    containers: [{ milliCores: index % 3 === 0 ? 4000 : 2000, measured: false }],
  }),
});
const runsOn = pod(at(20, 7), null, {
  containers: [
    { milliCores: 2000, measured: false },
    { milliCores: 500, measured: false, to: at(20, 12) },
  ],
});
const withFailures = { jobs: 31, coreHours: 11 * 8 + 20 * 4 };

const phaseSituations: readonly Situation[] = [true, false].map((zeroRows) => ({
  name: `failed jobs, and one of two containers that ended, ${zeroRows ? "with" : "without"} zero rows of the phases`,
  after: "kube-state-metrics#3004, PR #3089 (zero rows dropped)",
  cluster: batch([...someFail, runsOn]),
  whole: true,
  held: (shown) => (zeroRows ? shown : withoutZeroRows(shown)),
  runs: [
    {
      right: publishes(withFailures, {
        leftOut: { [JAN]: { not_finished: 1 } },
        silent: [/not seen/],
      }),
    },
  ],
}));

const onlyFailures: Situation = {
  name: "every job fails, without zero rows of the phases",
  after: "kube-state-metrics#3004, PR #3089 (zero rows dropped)",
  cluster: batch(jobsOn(days(5, 12), { plan: () => ({ outcome: "Failed" }) })),
  whole: true,
  held: withoutZeroRows,
  runs: [{ right: publishes(plain(8)) }],
};

/** Three pods that are deleted while they run. */
const DELETED = [12, 13, 14].map((day) => pod(at(day, 7), null, { deleted: at(day, 20) }));
const deletedSituations: readonly Situation[] = [
  {
    name: "pods deleted while they run, and no row of Failed kept",
    after: "rule: where ends are there, no_end is no fault of the monitoring",
    cluster: batch([...jobsOn(ALL_DAYS), ...DELETED]),
    whole: true,
    held: (shown) => dropped(shown, (one) => terminal(one) && one.labels["phase"] === "Failed"),
    runs: [{ right: publishes(plain(31), { leftOut: { [JAN]: { no_end: 3 } } }) }],
  },
  {
    name: "pods deleted while they run, on days on which nothing finishes, without zero rows of the phases",
    after: "rule: no_end",
    cluster: batch([...jobsOn(days(1, 10)), ...DELETED]),
    whole: true,
    held: withoutZeroRows,
    runs: [{ right: publishes(plain(10), { leftOut: { [JAN]: { no_end: 3 } } }) }],
  },
];

export const MISSING_METRICS: readonly Situation[] = [
  ...dropSituations,
  ...noonSituations,
  terminalWithoutZeroRows,
  ...confinedSituations,
  ...phaseSituations,
  onlyFailures,
  ...deletedSituations,
];
