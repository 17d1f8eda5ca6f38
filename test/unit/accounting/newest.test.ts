import { describe, expect, test } from "vitest";
import { STACK } from "../../simulator/index.ts";
import type { Cluster, Job, Series, Stack } from "../../simulator/index.ts";
import { dropped } from "../../simulator/situations/held.ts";
import {
  at,
  cluster,
  countedIn,
  ended,
  FEBRUARY,
  figures,
  GRID,
  HOUR,
  job,
  MINUTE,
  NOW,
  outcomes,
  tenant,
  World,
} from "./world.ts";

const END = at("2025-02-10T12:00");
const VO = { pods: { voLabel: "label_example_org_vo" } };

/** A second Prometheus that scraped for the last time before a moment. */
const until = (to: number): Stack => ({
  ...STACK,
  labels: { prometheus_replica: "b" },
  offset: 31,
  life: { from: 0, to },
});

async function milliCoresOf(one: Job, more: Partial<Cluster>): Promise<number> {
  const result = await new World(cluster([one], more)).run(NOW, [GRID], FEBRUARY);
  const { milliCoreSeconds, wallSeconds } = figures(countedIn(result, "2025-02"));
  return milliCoreSeconds / wallSeconds;
}

/** A pod that asks for other cores from a moment on, in all its containers. */
const resized = (from: number, to: number, moment: number, ...others: readonly number[]): Job => {
  const change = { resized: { at: moment, milliCores: to } };
  const containers = [{ milliCores: from, ...change }, ...others.map((milliCores) => ({ milliCores }))];
  return job(END - 4 * HOUR, END, { containers });
};

describe("Facts that may change while a pod lives take the value of the copy with the newest sample", () => {
  const away = END - 2 * HOUR;

  test.each([
    [4000, 1000],
    [1000, 4000],
  ])("a request that was changed from %i to %i after another copy was last seen", async (from, to) => {
    const one = resized(from, to, END - HOUR);
    expect(await milliCoresOf(one, { stacks: [STACK, until(away)] })).toBe(to);
    expect(await milliCoresOf(one, { stacks: [until(away), STACK] })).toBe(to);
  });

  test("only of the container that was changed; the others add up as ever", async () => {
    expect(await milliCoresOf(resized(4000, 1000, END - HOUR, 500, 250), { stacks: [STACK, until(away)] })).toBe(1750);
  });

  test("where copies are within five minutes of each other, the greatest: they are equally new", async () => {
    // The pod's series end half an hour after its end; the other copy ends shortly before that.
    const gone = END + 30 * MINUTE;
    const lowered = resized(4000, 1000, gone - 8 * MINUTE);
    expect(await milliCoresOf(lowered, { stacks: [STACK, until(gone - 9 * MINUTE)] })).toBe(1000);
    const late = resized(4000, 1000, gone - 3 * MINUTE);
    expect(await milliCoresOf(late, { stacks: [STACK, until(gone - 4 * MINUTE)] })).toBe(4000);
  });

  test("where all copies agree there is nothing to ask for", async () => {
    const one = resized(4000, 1000, END - HOUR);
    const alone = new World(cluster([one]));
    await alone.run(NOW, [GRID], FEBRUARY);
    const both = new World(cluster([one], { stacks: [STACK, { ...STACK, labels: { replica: "b" }, offset: 31 }] }));
    await both.run(NOW, [GRID], FEBRUARY);
    expect(both.answered).toBe(alone.answered);
  });

  test("memory requests of single jobs", async () => {
    const one = ended(END, { containers: [{ milliCores: 1000, memory: 2 ** 30 }] });
    const world = new World(cluster([one], { stacks: [STACK, until(END - 10 * MINUTE)] }));
    const older = world.series.map((each) =>
      each.labels["resource"] === "memory" && each.labels["prometheus_replica"] === "b"
        ? { ...each, segments: each.segments.map((segment) => ({ ...segment, value: 2 ** 32 })) }
        : each,
    );
    const singles = tenant("grid", { format: "individual-0.4" });
    const result = await new World(world.cluster, older).run(NOW, [singles], FEBRUARY);
    const jobs = [...countedIn(result, "2025-02").jobs.values()].flatMap((list) => [...list]);
    expect(jobs.map(({ memoryRequest }) => memoryRequest)).toEqual([2 ** 20]);
  });
});

describe("VO labels", () => {
  const vosOf = async (world: World) => {
    const result = await world.run(NOW, [tenant("grid", VO)], FEBRUARY);
    expect(outcomes(result)).toEqual({ "2025-02": "published" });
    const groups = countedIn(result, "2025-02").days.flatMap((day) => day.groups);
    return { vos: groups.map(({ vo, jobs }) => [vo, jobs]), warnings: countedIn(result, "2025-02").warnings };
  };
  /** The pod has another VO label from a moment on: kube-state-metrics writes another series then. */
  const relabelled = (moment: number, first: string, then: string): World => {
    const world = new World(cluster([ended(END, { labels: { "example.org/vo": first } })]));
    const isLabel = ({ name, labels }: Series) => name === "kube_pod_labels" && labels["namespace"] === "grid";
    const later = dropped(world.series.filter(isLabel), isLabel, { to: moment }).map((one) => ({
      ...one,
      labels: { ...one.labels, label_example_org_vo: then },
    }));
    return new World(world.cluster, [...dropped(world.series, isLabel, { from: moment }), ...later]);
  };

  test.each([
    ["atlas", "cms"],
    ["cms", "atlas"],
  ])("a label that was changed from %s to %s: the newest", async (first, then) => {
    expect((await vosOf(relabelled(END - 20 * MINUTE, first, then))).vos).toEqual([[then, 1]]);
  });

  test("of two that are within five minutes of each other the greater, whatever their order", async () => {
    const gone = END + 30 * MINUTE;
    for (const [first, then] of [
      ["atlas", "cms"],
      ["cms", "atlas"],
    ] as const)
      expect((await vosOf(relabelled(gone - 3 * MINUTE, first, then))).vos).toEqual([["cms", 1]]);
  });

  test("a label that kube-state-metrics split in two is warned of: its pods count for VO_NAME", async () => {
    const jobs = ["atlas", "cms", "cms"].map((vo) => ended(END, { labels: { "example.org/vo": vo } }));
    const whole = new World(cluster(jobs));
    const split = whole.series.map((one) => {
      const { label_example_org_vo: vo = "", ...labels } = one.labels;
      if (one.name !== "kube_pod_labels" || vo !== "cms") return one;
      return { ...one, labels: { ...labels, label_example_org_vo_conflict1: vo, label_example_org_vo_conflict2: "x" } };
    });
    expect((await vosOf(whole)).warnings).toEqual([]);
    const { vos, warnings } = await vosOf(new World(whole.cluster, split));
    expect(vos).toEqual([
      ["atlas", 1],
      [null, 2],
    ]);
    expect(warnings).toEqual([
      expect.stringMatching(
        /^grid: 2 pods have the label label_example_org_vo only as label_example_org_vo_conflict1, so they count for VO_NAME\..*remove one of them\.$/,
      ),
    ]);
  });

  test("pods without a label that was never split are not warned of", async () => {
    const jobs = [ended(END, { labels: { "example.org/vo": "atlas" } }), ended(END)];
    expect((await vosOf(new World(cluster(jobs)))).warnings).toEqual([]);
  });
});
