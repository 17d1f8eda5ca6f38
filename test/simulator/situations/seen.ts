import { STACK } from "../cluster.ts";
import type { Cluster, Stack } from "../cluster.ts";
import { service } from "../services.ts";
import type { Series } from "../series.ts";
import { ALL_DAYS, at, BATCH, batch, days, jobsOn, TWO_MONTHS, WORKING_DAYS } from "./batch.ts";
import { aboutPods, dropped, metric } from "./held.ts";
import { allowed, FEB, JAN, plain, publishes, refuses } from "./situation.ts";
import type { Situation } from "./situation.ts";

const DAILY = jobsOn(ALL_DAYS);
/** kube-state-metrics answers, and lists nothing. */
const blind =
  (...stretches: readonly (readonly [from: number, to: number])[]) =>
  (shown: readonly Series[]): readonly Series[] =>
    stretches.reduce((left, [from, to]) => dropped(left, aboutPods, { from, to }), shown);

/** From the 8th to the 19th. */
const TWELVE_DAYS = [at(8), at(20)] as const;
const LEFT = plain(31 - 12);

/** kube-state-metrics and the pods besides the jobs that it shows. */
type Shown = { readonly name: string; readonly more: Partial<Cluster> };
const sees = (...namespaces: readonly string[]): Pick<Cluster, "stacks"> => ({
  stacks: [{ ...STACK, sees: [BATCH, ...namespaces] }],
});
const WITNESSES: readonly Shown[] = [
  { name: "its own pod and one of kube-system seen before and after", more: {} },
  { name: "a pod of kube-system seen before and after", more: sees("kube-system") },
  { name: "its own pod seen before and after", more: sees("monitoring") },
  {
    name: "an old pod of another namespace seen before and after",
    more: { ...sees("web"), services: [service("web", "shop-6f7c9d8b5-x2k4q", { start: at(-20) })] },
  },
];

const witnessed = WITNESSES.map(({ name, more }): Situation => ({
  name: `up but no pods for 12 days, ${name}`,
  after: "giantswarm/prometheus-rules#878; kube-prometheus#347; kube-state-metrics#1314",
  cluster: batch(DAILY, more),
  whole: false,
  held: blind(TWELVE_DAYS),
  runs: [{ right: refuses(["monitoring_not_seen"]) }, allowed(LEFT, { says: [/2025-01-08/] })],
}));

/** The main endpoint and that of kube-state-metrics about itself, both scraped under one job. */
const main = (outages: Stack["outages"] = []): Stack => ({ ...STACK, labels: { endpoint: "https-main" }, outages });
const SELF: Stack = {
  ...STACK,
  instances: [{ instance: "10.42.0.11:8081", from: 0 }],
  labels: { endpoint: "https-self" },
  sees: [],
};

const notSeen: readonly Situation[] = [
  {
    name: "the main endpoint down for 12 days, that about itself up under the same job",
    after: "kube-prometheus#2643",
    cluster: batch(DAILY, {
      stacks: [main([{ from: TWELVE_DAYS[0], to: TWELVE_DAYS[1], kind: "down" }]), SELF],
    }),
    whole: false,
    runs: [{ right: refuses(["monitoring_not_seen"]) }, allowed(LEFT)],
  },
  {
    name: "up but no pods for a whole day and some hours",
    after: "rule: a whole day unseen",
    cluster: batch(DAILY),
    whole: false,
    held: blind([at(10, 22), at(12, 2)]),
    runs: [{ right: refuses(["monitoring_not_seen"], { says: [/2025-01-11/] }) }, allowed(plain(30))],
  },
  {
    name: "up but no pods for five hours, twice",
    after: "rule: Gaps over 30 minutes are warned of in one line a month",
    cluster: batch(DAILY),
    whole: true,
    held: blind([at(8, 12), at(8, 17)], [at(15, 12), at(15, 17)]),
    runs: [
      {
        right: publishes(plain(31), {
          saysOnce: [/not seen/],
          says: [/not seen.*2025-01-08.*(2025-)?(01-)?15/s],
        }),
      },
    ],
  },
  {
    name: "the main endpoint down for five hours, that about itself up",
    after: "kube-prometheus#2643",
    cluster: batch(DAILY, { stacks: [main([{ from: at(8, 12), to: at(8, 17), kind: "down" }]), SELF] }),
    whole: true,
    runs: [{ right: publishes(plain(31), { saysOnce: [/not seen/], says: [/2025-01-08/] }) }],
  },
];

const ordinary: readonly Situation[] = [
  {
    name: "kube-state-metrics sees one namespace, with jobs on working days only",
    after: "rule: otherwise up counts, with a warning for stretches over a day",
    cluster: batch(jobsOn(WORKING_DAYS), sees()),
    whole: true,
    runs: [{ right: publishes(plain(WORKING_DAYS.length), { says: [/pod/] }) }],
  },
  ...[
    { job: "kubernetes-service-endpoints", labels: { app_kubernetes_io_name: "kube-state-metrics" } },
    { job: "kubernetes-service-endpoints", labels: { service: "prometheus-kube-state-metrics" } },
    { job: "cluster", labels: {}, instances: [{ instance: "kube-state-metrics.kube-system.svc:8080", from: 0 }] },
  ].map((more): Situation => ({
    name: `the same, scraped under another job name: ${more.job}, ${JSON.stringify(more.instances ?? more.labels)}`,
    after: "the chart prometheus and static targets; rule: otherwise up counts",
    cluster: batch(jobsOn(WORKING_DAYS), { stacks: [{ ...STACK, sees: [BATCH], ...more }] }),
    whole: true,
    runs: [{ right: publishes(plain(WORKING_DAYS.length), { says: [/pod/] }) }],
  })),
  {
    name: "kube-state-metrics sees one namespace, with jobs every day",
    after: "rule: otherwise up counts, with a warning for stretches over a day",
    cluster: batch(jobsOn(days(0, 34)), sees()),
    whole: true,
    runs: [{ right: publishes(plain(31), { silent: [/not seen/, /no pod/] }) }],
  },
  {
    name: "kube-state-metrics sees one namespace, two jobs in a month",
    after: "rule: otherwise up counts, with a warning for stretches over a day",
    cluster: batch(jobsOn([3, 22]), sees()),
    whole: true,
    runs: [{ right: publishes(plain(2)) }],
  },
  {
    name: "no up at all, kube-state-metrics' own pod seen",
    after: "rule: a slot is seen if a series about any pod was there",
    cluster: batch(DAILY),
    whole: true,
    held: (shown) => dropped(shown, metric("up")),
    runs: [{ right: publishes(plain(31), { silent: [/not seen/] }) }],
  },
  {
    name: "jobs on working days only",
    after: "rule: a month without jobs on some days is ordinary",
    cluster: batch(jobsOn(WORKING_DAYS)),
    whole: true,
    runs: [{ right: publishes(plain(WORKING_DAYS.length), { silent: [/not seen/] }) }],
  },
  {
    name: "a month without jobs",
    after: "rule: a month without jobs sends a sync record of 0",
    cluster: batch([]),
    whole: true,
    runs: [{ right: publishes(plain(0), { silent: [/not seen/] }) }],
  },
  {
    name: "a site that stops",
    after: "rule: a month that falls to less than a tenth is published with a warning",
    cluster: batch(jobsOn(ALL_DAYS, { perDay: 2 }), TWO_MONTHS),
    whole: true,
    months: [JAN, "2025-03"],
    runs: [
      { right: { exit: 0, published: { [JAN]: plain(62), [FEB]: plain(0) }, says: [/2025-02/], silent: [/not seen/] } },
    ],
  },
  {
    name: "a first month, with ACCOUNTING_SINCE",
    after: "rule: ACCOUNTING_SINCE for a cluster that is younger",
    cluster: batch(jobsOn(days(15, 31)), { from: at(14, 15) }),
    whole: true,
    env: { ACCOUNTING_SINCE: "2025-01-15" },
    runs: [{ right: publishes(plain(17), { silent: [/not seen/] }) }],
  },
  {
    name: "kube-state-metrics is redeployed",
    after: "rule: copies and successors",
    cluster: batch(DAILY, {
      stacks: [
        {
          ...STACK,
          instances: [
            { instance: "10.42.0.11:8080", from: 0 },
            { instance: "10.42.0.23:8080", from: at(15, 9, 10) },
          ],
        },
      ],
    }),
    whole: true,
    runs: [{ right: publishes(plain(31), { silent: [/not seen/] }) }],
  },
];

export const SEEN: readonly Situation[] = [...witnessed, ...notSeen, ...ordinary];
