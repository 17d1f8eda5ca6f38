import { STACK } from "../cluster.ts";
import type { Series } from "../series.ts";
import { ALL_DAYS, at, batch, days, jobsOn, pod } from "./batch.ts";
import { JAN, plain, publishes } from "./situation.ts";
import type { Situation } from "./situation.ts";

/** All days but the 15th have an ordinary job. */
const OTHERS = days(1, 31).filter((day) => day !== 15);
const REDEPLOYED = {
  ...STACK,
  instances: [
    { instance: "10.42.0.11:8080", from: 0 },
    { instance: "10.42.0.23:8080", from: at(15, 8, 40) },
  ],
};
const COPY = { ...STACK, instances: [{ instance: "10.42.0.12:8080", from: 0 }], offset: 31 };

const resizedOn15th = (milliCores: readonly [before: number, after: number]) =>
  pod(at(15, 8), at(15, 10), {
    containers: [
      {
        milliCores: milliCores[0],
        measured: false,
        resized: { at: at(15, 9), milliCores: milliCores[1] },
      },
    ],
  });

const resized: readonly Situation[] = [
  {
    name: "a request lowered in place after kube-state-metrics was redeployed",
    after: "kube-state-metrics#2980, #2665",
    cluster: batch([...jobsOn(OTHERS), resizedOn15th([2000, 1000])], { stacks: [REDEPLOYED] }),
    whole: true,
    runs: [{ right: publishes({ jobs: 31, coreHours: 30 * 4 + 2 }) }],
  },
  {
    name: "a request raised in place after kube-state-metrics was redeployed",
    after: "kube-state-metrics#2980, #2665",
    cluster: batch([...jobsOn(OTHERS), resizedOn15th([2000, 3000])], { stacks: [REDEPLOYED] }),
    whole: true,
    runs: [{ right: publishes({ jobs: 31, coreHours: 30 * 4 + 6 }) }],
  },
  {
    name: "a request lowered in place after one of two copies of kube-state-metrics had ended",
    after: "kube-state-metrics#2980, #2665",
    cluster: batch([...jobsOn(OTHERS), resizedOn15th([2000, 1000])], {
      stacks: [STACK, { ...COPY, life: { from: at(2), to: at(15, 8, 40) } }],
    }),
    whole: true,
    runs: [{ right: publishes({ jobs: 31, coreHours: 30 * 4 + 2 }) }],
  },
];

/** What kube_pod_labels says of some pods; the labels of their jobs are left as they are. */
const labelled =
  (which: (series: Series) => boolean, labels: Readonly<Record<string, string>>) =>
  (shown: readonly Series[]): readonly Series[] =>
    shown.map((one) => {
      if (one.name !== "kube_pod_labels" || !which(one)) return one;
      const { label_vo: _, ...rest } = one.labels;
      return { ...one, labels: { ...rest, ...labels } };
    });

const withVo = jobsOn(ALL_DAYS, { plan: () => ({ labels: { vo: "atlas" } }) });
const podOf15th = ({ labels }: Series): boolean => labels["pod"] === "job-15-0";

const labels: readonly Situation[] = [
  {
    name: "a VO label changed after one of two copies of kube-state-metrics had ended",
    after: "rule: facts that may change take the value of the copy with the newest sample",
    cluster: batch(withVo, { stacks: [STACK, { ...COPY, life: { from: at(2), to: at(15, 9) } }] }),
    whole: true,
    // The copy that ended knew the pod's first label.
    held: labelled((one) => podOf15th(one) && one.labels["instance"] === "10.42.0.12:8080", { label_vo: "cms" }),
    env: { VO_LABEL: "vo" },
    runs: [{ right: publishes(plain(31), { vos: { atlas: 31 } }) }],
  },
  {
    name: "a VO label that kube-state-metrics split, since two labels of a pod have one name",
    after: "rule: a VO label that kube-state-metrics split (label_vo_conflict1) is warned of",
    cluster: batch(withVo),
    whole: true,
    held: labelled(podOf15th, { label_vo_conflict1: "atlas", label_vo_conflict2: "cms" }),
    env: { VO_LABEL: "vo" },
    runs: [{ right: publishes(plain(31), { vos: { atlas: 30, "example.vo": 1 }, says: [/conflict/] }) }],
  },
];

export const NEWEST: readonly Situation[] = [
  ...resized,
  ...labels,
  {
    name: "two copies of kube-state-metrics that agree",
    after: "rule: constant facts are merged by max",
    cluster: batch(withVo, { stacks: [STACK, COPY] }),
    whole: true,
    env: { VO_LABEL: "vo" },
    runs: [{ right: publishes(plain(31), { vos: { atlas: 31 }, leftOut: { [JAN]: { no_cpu_request: 0 } } }) }],
  },
];
