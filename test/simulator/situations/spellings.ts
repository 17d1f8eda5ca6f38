import { STACK } from "../cluster.ts";
import type { Stack } from "../cluster.ts";
import { simulate } from "../simulate.ts";
import type { Series } from "../series.ts";
import { ALL_DAYS, at, BATCH, batch, jobsOn, pod } from "./batch.ts";
import { aboutPods, during, relabelled, renamed } from "./held.ts";
import { JAN, plain, publishes } from "./situation.ts";
import type { Situation } from "./situation.ts";

/** honor_labels off. */
const EXPORTED: Stack = { ...STACK, exported: true };
const MONTH = batch(jobsOn(ALL_DAYS));
/** One container of 1 core and one of half a core: merged as copies they would be 1. */
const TWO_CONTAINERS = jobsOn(ALL_DAYS, {
  plan: () => ({
    containers: [
      { milliCores: 1000, measured: false },
      { milliCores: 500, measured: false },
    ],
  }),
});
const twoContainers = { jobs: 31, coreHours: 31 * 3 };

/** Twenty minutes past nine on the 14th, while that day's job runs. */
const SWITCH = at(14, 9, 20);
const switched = batch(jobsOn(ALL_DAYS, { perDay: 2 }));
const exported = (): Series[] => simulate({ ...switched, stacks: [EXPORTED] });

const both =
  (...labels: readonly string[]) =>
  (held: Readonly<Record<string, string>>) => ({
    ...held,
    ...Object.fromEntries(
      labels.flatMap((name) => (held[name] === undefined ? [] : [[`exported_${name}`, held[name]]])),
    ),
  });
/** The target's own pod and container stay; the namespace alone is copied back. */
const namespaceOnly = (held: Readonly<Record<string, string>>) => ({
  ...held,
  namespace: held["exported_namespace"] ?? held["namespace"] ?? "",
});

const spelled: readonly Situation[] = [
  {
    name: "honor_labels off",
    after: "helm-charts#1613, #1368; kube-state-metrics#1729",
    cluster: batch(TWO_CONTAINERS, { stacks: [EXPORTED] }),
    whole: true,
    runs: [{ right: publishes(twoContainers, { silent: [/not seen/] }) }],
  },
  {
    name: "honor_labels switched off in mid-month",
    after: "bitnami/charts#7690 (a chart upgrade)",
    cluster: switched,
    whole: true,
    held: (shown) => [...during(shown, { to: SWITCH }), ...during(exported(), { from: SWITCH })],
    runs: [{ right: publishes(plain(62), { silent: [/not seen/] }) }],
  },
  {
    name: "honor_labels switched on in mid-month",
    after: "helm-charts#1613",
    cluster: switched,
    whole: true,
    held: (shown) => [...during(exported(), { to: SWITCH }), ...during(shown, { from: SWITCH })],
    runs: [{ right: publishes(plain(62), { silent: [/not seen/] }) }],
  },
  {
    name: "two stacks at once, one with honor_labels off",
    after: "rule: Two spellings",
    cluster: batch(TWO_CONTAINERS, {
      stacks: [
        STACK,
        {
          job: "kube-prometheus-stack/kube-state-metrics",
          instances: [{ instance: "10.42.3.7:8080", from: 0 }],
          labels: {},
          offset: 31,
          exported: true,
        },
      ],
    }),
    whole: true,
    runs: [{ right: publishes(twoContainers, { silent: [/not seen/] }) }],
  },
  {
    name: "kube-state-metrics in the jobs' namespace, honor_labels off",
    after: "kube-state-metrics#138",
    cluster: batch([...TWO_CONTAINERS, ...ofOthers()], { stacks: [{ ...EXPORTED, home: BATCH }] }),
    whole: true,
    runs: [{ right: publishes(twoContainers, { leftOut: { [JAN]: { not_finished: 0 } } }) }],
  },
  {
    name: "kube-state-metrics in the jobs' namespace, honor_labels on",
    after: "rule: Two spellings",
    cluster: batch([...TWO_CONTAINERS, ...ofOthers()], { stacks: [{ ...STACK, home: BATCH }] }),
    whole: true,
    runs: [{ right: publishes(twoContainers, { leftOut: { [JAN]: { not_finished: 0 } } }) }],
  },
];

/** Larger jobs of another namespace, which must never be counted. */
function ofOthers() {
  return [6, 13].map((day) =>
    pod(at(day, 8), at(day, 18), { in: "other", containers: [{ milliCores: 8000, measured: false }] }),
  );
}

const keptBoth: readonly Situation[] = [
  {
    name: "a relabelling that keeps both spellings of all labels",
    after: "rule: Two spellings",
    cluster: batch(TWO_CONTAINERS),
    whole: true,
    held: (shown) => relabelled(shown, both("namespace", "pod", "container")),
    runs: [{ right: publishes(twoContainers) }],
  },
  {
    name: "a relabelling that copies the namespace back and leaves pod and container exported",
    after: "helm-charts#1368",
    cluster: batch([...TWO_CONTAINERS, ...ofOthers()], { stacks: [EXPORTED] }),
    whole: true,
    held: (shown) => relabelled(shown, namespaceOnly),
    runs: [{ right: publishes(twoContainers) }],
  },
];

const prefixes: readonly Situation[] = [
  {
    name: "PROMETHEUS_LABEL_PREFIX=exported_ though the labels are plain",
    after: "rule: Two spellings",
    cluster: batch(TWO_CONTAINERS),
    whole: true,
    env: { PROMETHEUS_LABEL_PREFIX: "exported_" },
    runs: [{ right: publishes(twoContainers) }],
  },
  {
    name: "PROMETHEUS_LABEL_PREFIX=exported_ and the labels switched on in mid-month",
    after: "helm-charts#1613",
    cluster: switched,
    whole: true,
    held: (shown) => [...during(exported(), { to: SWITCH }), ...during(shown, { from: SWITCH })],
    env: { PROMETHEUS_LABEL_PREFIX: "exported_" },
    runs: [{ right: publishes(plain(62)) }],
  },
  {
    name: "a prefix of the site's own",
    after: "rule: labels_exported remains where a prefix other than these two is found",
    cluster: MONTH,
    whole: false,
    held: () =>
      simulate({ ...MONTH, stacks: [EXPORTED] }).map((one) =>
        aboutPods(one) ? { ...one, labels: renamed(/^exported_/, "orig_")(one.labels) } : one,
      ),
    runs: [
      { right: { exit: 2, codes: ["labels_exported"], published: { [JAN]: "nothing" }, says: [/orig_/] } },
      {
        name: "with the setting",
        env: { PROMETHEUS_LABEL_PREFIX: "orig_" },
        right: publishes(plain(31)),
      },
    ],
  },
];

const IN_NAMESPACE: Situation = {
  name: "a prefix of the site's own, and kube-state-metrics in the jobs' namespace",
  after: "kube-state-metrics#138, with another prefix",
  cluster: batch([...jobsOn(ALL_DAYS), ...ofOthers()], { stacks: [{ ...EXPORTED, home: BATCH }] }),
  whole: false,
  held: (shown) =>
    shown.map((one) => (aboutPods(one) ? { ...one, labels: renamed(/^exported_/, "orig_")(one.labels) } : one)),
  runs: [
    { right: { exit: 2, codes: ["labels_exported"], published: { [JAN]: "nothing" }, says: [/orig_/] } },
    { name: "with the setting", env: { PROMETHEUS_LABEL_PREFIX: "orig_" }, right: publishes(plain(31)) },
  ],
};

export const SPELLINGS: readonly Situation[] = [...spelled, ...keptBoth, ...prefixes, IN_NAMESPACE];
