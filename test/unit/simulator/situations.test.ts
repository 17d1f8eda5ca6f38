import { describe, expect, test } from "vitest";
import { NONE, samples, simulate, STACK, truth } from "../../simulator/index.ts";
import type { Series } from "../../simulator/index.ts";
import { at, batch, BATCH, jobsOn, pod } from "../../simulator/situations/batch.ts";
import { dropped, during, metric, relabelled, renamed, withoutZeroRows } from "../../simulator/situations/held.ts";
import * as all from "../../simulator/situations/index.ts";
import type { Situation } from "../../simulator/situations/index.ts";

const SITUATIONS: readonly Situation[] = [
  ...all.BEHIND_ONE_ADDRESS,
  ...all.LEFT_OUT_SITUATIONS,
  ...all.MISSING_METRICS,
  ...all.NEWEST,
  ...all.SEEN,
  ...all.SHARDS,
  ...all.SPELLINGS,
];

describe("what must come of a situation in which nothing is lost is the truth of its cluster", () => {
  const whole = SITUATIONS.filter((one) => one.whole);

  test.each(whole)("$name", ({ cluster, runs: [{ right, or = [] }] }) => {
    let figures = 0;
    for (const { published, leftOut = {} } of [right, ...or]) {
      for (const [month, wanted] of Object.entries(published)) {
        const { jobs, milliCoreSeconds, leftOut: reasons } = truth(cluster, month).get(BATCH) ?? NONE;
        if (wanted === "nothing") continue;
        expect({ jobs, coreHours: milliCoreSeconds / 3_600_000 }).toEqual(wanted);
        // Pods without an end belong to no day in the simulator's truth.
        const { no_end: _, ...others } = leftOut[month] ?? {};
        expect(reasons).toMatchObject(others);
        figures += 1;
      }
    }
    if (right.exit === 0) expect(figures).toBeGreaterThan(0);
  });
});

test("every situation says what it serves", () => {
  for (const { name, after } of SITUATIONS)
    expect({ name, after }).toEqual({ name, after: expect.stringMatching(/\w/) });
});

describe("what Prometheus holds of what the cluster shows", () => {
  const shown = simulate(batch(jobsOn([3, 6])));
  const timesOf = (series: readonly Series[], name: string): number[] =>
    series.filter(metric(name)).flatMap((one) => [...samples(one)].map(([time]) => time));
  const ascending = (times: readonly number[]): number[] => times.toSorted((a, b) => a - b);
  const END = "kube_pod_completion_time";

  test("a metric is dropped in a stretch, and others are not", () => {
    const held = dropped(shown, metric(END), { from: at(5) });
    expect(timesOf(held, END)).toEqual(timesOf(shown, END).filter((time) => time < at(5)));
    expect(timesOf(held, END).length).toBeGreaterThan(0);
    expect(timesOf(held, "kube_pod_start_time")).toEqual(timesOf(shown, "kube_pod_start_time"));
    expect(dropped(shown, metric(END)).filter(metric(END))).toEqual([]);
  });

  test("two stretches together hold all, each sample once", () => {
    const held = [...during(shown, { to: at(3, 9) }), ...during(shown, { from: at(3, 9) })];
    for (const name of [END, "up", "kube_pod_status_phase"])
      expect(ascending(timesOf(held, name))).toEqual(ascending(timesOf(shown, name)));
  });

  test("without zero rows a pod has one phase at a time, and the one that holds", () => {
    const phases = withoutZeroRows(shown).filter(metric("kube_pod_status_phase"));
    expect(new Set(phases.flatMap((one) => [...samples(one)].map(([, value]) => value)))).toEqual(new Set([1]));
    const running = (series: readonly Series[]): Series[] =>
      series.filter(({ labels }) => labels["phase"] === "Running" && labels["pod"] === "job-3-0");
    const last = [...samples(running(phases)[0]!)].at(-1)?.[0];
    expect(last).toBeLessThan(at(3, 10));
  });

  test("labels are renamed in a stretch only", () => {
    const held = relabelled(shown, renamed(/^namespace$/, "orig_namespace"), { from: at(5) });
    const where = (label: string): number[] =>
      held.filter(({ name, labels }) => name === END && labels[label] === BATCH).flatMap((one) => timesOf([one], END));
    expect(where("namespace").every((time) => time < at(5))).toBe(true);
    expect(where("orig_namespace").every((time) => time >= at(5))).toBe(true);
    expect(where("namespace").length).toBe(where("orig_namespace").length);
    expect(timesOf(held, "up")).toEqual(timesOf(shown, "up"));
  });
});

describe("one of several kube-state-metrics", () => {
  const jobs = jobsOn([3, 6, 9], { perDay: 3 });
  const even = ({ uid }: { readonly uid: string }): boolean => Number.parseInt(uid.slice(-1), 16) % 2 === 0;
  const shards = [true, false].map((half, index) => ({
    ...STACK,
    instances: [{ instance: `10.0.0.${index}:8080`, from: 0 }],
    holds: (job: { readonly uid: string }) => even(job) === half,
  }));

  test("shards show each pod once, and the truth is what the shards saw", () => {
    const series = simulate(batch(jobs, { stacks: shards }));
    const ends = series.filter(metric("kube_pod_completion_time"));
    expect(ends).toHaveLength(jobs.length);
    expect(new Set(ends.map(({ labels }) => labels["uid"]))).toEqual(new Set(jobs.map(({ uid }) => uid)));
    expect(new Set(ends.map(({ labels }) => labels["instance"])).size).toBe(2);
    const away = [shards[0]!, { ...shards[1]!, outages: [{ from: at(5), to: at(8), kind: "absent" as const }] }];
    const missed = jobs.filter((job) => !even(job) && job.created >= at(5) && job.created < at(8)).length;
    const seen = truth(batch(jobs, { stacks: away }), "2025-01").get(BATCH)?.jobs;
    expect([seen, missed > 0]).toEqual([jobs.length - missed, true]);
  });

  test("in the jobs' namespace with honor_labels off, all pods stand under that namespace", () => {
    const other = pod(at(4), at(5), { in: "other" });
    const series = simulate(batch([...jobs, other], { stacks: [{ ...STACK, home: BATCH, exported: true }] }));
    const starts = series.filter(metric("kube_pod_start_time"));
    expect(new Set(starts.map(({ labels }) => labels["namespace"]))).toEqual(new Set([BATCH]));
    const own = new Set(starts.map(({ labels }) => labels["exported_namespace"]));
    expect(own).toEqual(new Set([BATCH, "other", "kube-system"]));
  });
});
