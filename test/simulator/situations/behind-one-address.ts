import type { Cluster } from "../cluster.ts";
import type { Series } from "../series.ts";
import { simulate } from "../simulate.ts";
import { ALL_DAYS, at, batch, jobsOn, pod } from "./batch.ts";
import { during } from "./held.ts";
import { JAN, plain, publishes, refuses } from "./situation.ts";
import type { Published, Right, Run, Situation } from "./situation.ts";

/** Three jobs a day. */
const MONTH = batch(jobsOn(ALL_DAYS, { perDay: 3 }));
/** A replica that scraped nothing from the 10th to the 15th. */
const lacking = (shown: readonly Series[]): readonly Series[] => [
  ...during(shown, { to: at(10) }),
  ...during(shown, { from: at(16) }),
];
const disagree = refuses(["answers_disagree"], { exit: 4, says: [/\d+ of \d+ pods/] });
const RULE = "rule: Mixed answers (a load balancer before two Prometheus)";

/** Never less than what there was, with exit code 0. */
const refusedOrRight: Run = {
  right: disagree,
  or: [publishes(plain(93)), refuses(["monitoring_not_seen"]), refuses(["metric_missing"]), refuses(["phase_missing"])],
};
const lackingFor = (what: string, asked: RegExp, run: Run): Situation => ({
  name: `two replicas with other data, ${what} asked of the one that lacks six days`,
  after: RULE,
  cluster: MONTH,
  whole: true,
  replica: { held: lacking, asked },
  runs: [run],
});

/** Questions that are asked side by side come in another order each time. */
const ONE_BY_ONE = { QUERY_CONCURRENCY: "1" };

const replicas: readonly Situation[] = [
  lackingFor("ends", /kube_pod_completion_time/, refusedOrRight),
  lackingFor("phases", /kube_pod_status_phase/, refusedOrRight),
  lackingFor("ends and phases", /kube_pod_completion_time|kube_pod_status_phase/, refusedOrRight),
  lackingFor("all but requests", /kube_pod_completion_time|kube_pod_status_phase|kube_pod_start_time/, refusedOrRight),
  lackingFor("starts", /kube_pod_start_time/, refusedOrRight),
  lackingFor("requests", /resource_requests/, refusedOrRight),
  {
    name: "two replicas with other data, asked in turn, the whole one first",
    after: RULE,
    cluster: MONTH,
    whole: true,
    replica: { held: lacking, asked: "in turn" },
    env: ONE_BY_ONE,
    runs: [refusedOrRight],
  },
  {
    name: "two replicas with other data, asked in turn, the lacking one first",
    after: RULE,
    cluster: MONTH,
    whole: true,
    held: lacking,
    replica: { held: (shown) => shown, asked: "in turn" },
    env: ONE_BY_ONE,
    runs: [refusedOrRight],
  },
  {
    name: "two replicas with the same data, asked in turn",
    after: RULE,
    cluster: MONTH,
    whole: true,
    replica: { held: (shown) => shown, asked: "in turn" },
    runs: [{ right: publishes(plain(93), { silent: [/not seen/] }) }],
  },
];

/** Two clusters behind one address, told apart by a label. */
const REGIONS = ["a", "b"] as const;
const clusterOf = (region: string): Cluster =>
  batch(ALL_DAYS.map((day) => pod(at(day, 8), at(day, 10), { pod: `job-${day}-${region}` })));
const BOTH = batch(REGIONS.flatMap((region) => clusterOf(region).jobs));
const inRegions = (): readonly Series[] =>
  REGIONS.flatMap((region) =>
    simulate(clusterOf(region)).map((one) => ({ ...one, labels: { ...one.labels, region } })),
  );
const overlap: Right = {
  exit: 2,
  codes: ["tenants_overlap"],
  published: { [JAN]: "nothing" },
  // An example of what both would count.
  says: [/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/],
};

const tenants = (
  name: string,
  list: NonNullable<Situation["tenants"]>,
  right: Right | Published,
  more: Partial<Run> = {},
): Situation => ({
  name,
  after: "rule: A uid counts once",
  cluster: BOTH,
  whole: "jobs" in right,
  held: inRegions,
  tenants: list,
  runs: [{ right: "jobs" in right ? publishes(right) : right, ...more }],
});

const CLUSTER = `cluster="@CLUSTER@"`;
const of = (name: string, more: Readonly<Record<string, string>>): Readonly<Record<string, string>> => ({
  name,
  NAMESPACE: "batch",
  ...more,
});

/** Each tenant asks for one of two copies of the same series, which a label of the scrape tells apart. */
function twoReplicas(label: string): Situation {
  const copies = (shown: readonly Series[]): readonly Series[] =>
    REGIONS.flatMap((copy) => shown.map((one) => ({ ...one, labels: { ...one.labels, [label]: `ksm-${copy}` } })));
  return {
    name: `two tenants that ask for two copies of the same pods, told apart by ${label}`,
    after: "rule: name, node, instance, job and replica labels never distinguish jobs; a uid counts once",
    cluster: MONTH,
    whole: false,
    held: copies,
    tenants: REGIONS.map((copy) => of(copy, { PROMETHEUS_LABELS: `${CLUSTER},${label}="ksm-${copy}"` })),
    runs: [{ right: overlap }],
  };
}

const uids: readonly Situation[] = [
  tenants(
    "two tenants of one namespace whose matchers overlap",
    [
      of("one", { PROMETHEUS_LABELS: `${CLUSTER},region="a"` }),
      of("all", { PROMETHEUS_LABELS: `${CLUSTER},region=~"a|b"` }),
    ],
    overlap,
  ),
  tenants(
    "two tenants of one namespace, one with a matcher and one without",
    [of("one", { PROMETHEUS_LABELS: `${CLUSTER},region="b"` }), of("all", { PROMETHEUS_LABELS: CLUSTER })],
    overlap,
  ),
  tenants(
    "two tenants of one namespace at two addresses of one server",
    [
      of("one", { PROMETHEUS_LABELS: CLUSTER }),
      of("other", { PROMETHEUS_LABELS: CLUSTER, PROMETHEUS_SERVER: "@LOCALHOST@" }),
    ],
    overlap,
  ),
  ...["prometheus_replica", "job"].map(twoReplicas),
  tenants(
    "two tenants of one namespace whose matchers exclude each other",
    [of("a", { PROMETHEUS_LABELS: `${CLUSTER},region="a"` }), of("b", { PROMETHEUS_LABELS: `${CLUSTER},region="b"` })],
    plain(62),
  ),
  tenants(
    "two tenants of one namespace whose matchers exclude each other by a pattern",
    [
      of("a", { PROMETHEUS_LABELS: `${CLUSTER},region="a"` }),
      of("rest", { PROMETHEUS_LABELS: `${CLUSTER},region!="a"` }),
    ],
    plain(62),
  ),
];

export const BEHIND_ONE_ADDRESS: readonly Situation[] = [...replicas, ...uids];
