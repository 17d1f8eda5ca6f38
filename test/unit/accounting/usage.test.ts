import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Ledger } from "../../../lib/accounting/counting/ledger.ts";
import type { FinishedPod } from "../../../lib/accounting/counting/pods.ts";
import { dayOf } from "../../../lib/accounting/model/time.ts";
import { type DayUsage, type UsageGroup, dayUsage, toDays } from "../../../lib/accounting/counting/usage.ts";
import { MemoryStore } from "../../../lib/accounting/store/store.ts";
import { at, DAY, tenant } from "./world.ts";

const END = at("2025-02-03T12:00");
const pod = (more: Partial<FinishedPod> = {}): FinishedPod => ({
  uid: "u",
  pod: "p",
  end: END,
  succeeded: true,
  start: END - 100,
  milliCores: 500,
  ...more,
});
const options = { defaultMilliCores: undefined, gapsOf: () => [] };

const pods = fc.array(
  fc
    .record({
      end: fc.integer({ min: END, max: END + 3 * DAY }),
      length: fc.integer({ min: -50, max: 2 * DAY }),
      milliCores: fc.constantFrom(undefined, 1, 250, 1000, 1001),
      vo: fc.constantFrom(undefined, "atlas", "cms"),
      started: fc.boolean(),
      succeeded: fc.boolean(),
    })
    .map(({ end, length, milliCores, vo, started, succeeded }): FinishedPod => ({
      uid: `${end} ${length}`,
      pod: "p",
      end,
      succeeded,
      ...(started ? { start: end - length } : {}),
      ...(milliCores === undefined ? {} : { milliCores }),
      ...(vo === undefined ? {} : { vo }),
    })),
  { maxLength: 40 },
);

describe("Left out, counted by reason", () => {
  test("each pod is a job or has one reason", () => {
    const countedAs = (one: FinishedPod, defaultMilliCores?: number) => {
      const [day] = toDays([one], ["2025-02-03"], { ...options, defaultMilliCores });
      const reasons = Object.entries(day!.usage.leftOut).filter(([, pods]) => pods > 0);
      return [...reasons.map(([reason]) => reason), ...day!.jobs.map(({ milliCores, vo }) => ({ milliCores, vo }))];
    };
    expect(countedAs(pod({ start: undefined }))).toEqual(["no_start"]);
    expect(countedAs(pod({ start: END + 1 }))).toEqual(["negative_duration"]);
    expect(countedAs(pod({ milliCores: undefined }))).toEqual(["no_cpu_request"]);
    expect(countedAs(pod({ milliCores: undefined }), 250)).toEqual([{ milliCores: 250, vo: null }]);
    expect(countedAs(pod(), 250)).toEqual([{ milliCores: 500, vo: null }]);
  });

  test("one set of jobs feeds every figure; nothing is lost or counted twice", () => {
    const days = [0, 1, 2, 3].map((index) => dayOf(END + index * DAY));
    fc.assert(
      fc.property(pods, (drawn) => {
        const found = toDays(drawn, days, options);
        const counted = found.flatMap(({ jobs }) => jobs);
        const groups = found.flatMap(({ usage }) => usage.groups);
        const left = found.flatMap(({ usage }) => Object.values(usage.leftOut)).reduce((sum, each) => sum + each, 0);
        expect(counted.length + left).toBe(drawn.length);
        const succeeded = found.reduce((total, { usage }) => total + usage.succeededLeftOut, 0);
        const isJob = ({ start, end, milliCores }: FinishedPod) =>
          start !== undefined && start <= end && milliCores !== undefined;
        expect(succeeded).toBe(drawn.filter((each) => each.succeeded && !isJob(each)).length);
        const sum = (value: (group: UsageGroup) => number) => groups.reduce((total, group) => total + value(group), 0);
        expect(sum((group) => group.jobs)).toBe(counted.length);
        expect(sum((group) => group.milliCoreSeconds)).toBe(
          counted.reduce((total, job) => total + (job.end - job.start) * job.milliCores, 0),
        );
        for (const { usage, jobs } of found) {
          expect(jobs.every((job) => dayOf(job.end) === usage.day)).toBe(true);
          expect(dayUsage.parse(JSON.parse(JSON.stringify(usage)))).toEqual(usage);
        }
      }),
      { numRuns: 100 },
    );
  });

  test("pods without an end that counts are left out of their day", () => {
    const openPods = [
      { day: "2025-02-03", reason: "no_end", succeeded: true },
      { day: "2025-02-03", reason: "not_finished", succeeded: false },
      { day: "2025-02-05", reason: "no_end", succeeded: false },
    ] as const;
    const found = toDays([pod()], ["2025-02-03", "2025-02-04"], { ...options, openPods }).map(({ usage }) => usage);
    expect(
      found.map(({ leftOut, succeededLeftOut }) => [leftOut.no_end, leftOut.not_finished, succeededLeftOut]),
    ).toEqual([
      [1, 1, 1],
      [0, 0, 0],
    ]);
  });

  test("a pod of another day is passed over", () => {
    expect(toDays([pod()], ["2025-02-04"], options)[0]?.usage).toMatchObject({ day: "2025-02-04", groups: [] });
  });
});

describe("integers per (VO, milli-cores)", () => {
  test("the order of the pods does not matter; there is one group a (VO, size), sorted", () => {
    const days = [0, 1, 2, 3].map((index) => dayOf(END + index * DAY));
    const groups = (drawn: readonly FinishedPod[]) =>
      toDays(drawn, days, { ...options, defaultMilliCores: 1000 }).map(({ usage }) => usage.groups);
    fc.assert(
      fc.property(pods, fc.nat(), (drawn, cut) => {
        const middle = cut % (drawn.length + 1);
        const found = groups(drawn);
        expect(groups([...drawn.slice(middle), ...drawn.slice(0, middle)])).toEqual(found);
        for (const one of found) {
          const keys = one.map(({ vo, milliCores }) => JSON.stringify([vo, milliCores]));
          expect(keys).toEqual([...new Set(keys)].toSorted());
        }
      }),
      { numRuns: 100 },
    );
  });

  test("CPU use that is not known is not 0: it says of how many jobs it is known", () => {
    const cpu = new Map([["a", 7000]]);
    const [day] = toDays([pod({ uid: "a" }), pod({ uid: "b" })], ["2025-02-03"], { ...options, details: { cpu } });
    expect(day?.usage).toMatchObject({
      cpuAsked: true,
      groups: [{ jobs: 2, cpu: { milliseconds: 7000, jobs: 1, milliCoreSeconds: 50_000 } }],
    });
    const [plain] = toDays([pod()], ["2025-02-03"], options);
    expect(plain?.usage.cpuAsked).toBe(false);
    expect(plain?.usage.groups[0]).not.toHaveProperty("cpu");
  });
});

describe("the ledger", () => {
  const [day] = toDays([pod()], ["2025-02-03"], options);
  const usage: DayUsage = day!.usage;
  const none = () => undefined;
  const nothing = { days: new Map(), older: new Set() };

  test("gives back what was stored, of this tenant, month and fingerprint", async () => {
    const store = new MemoryStore();
    const grid = tenant("Grid / 1");
    await new Ledger(store, grid, none).write(usage);
    expect(await new Ledger(store, grid, none).read("2025-02")).toEqual({
      days: new Map([["2025-02-03", usage]]),
      older: new Set(),
    });
    expect(await new Ledger(store, grid, none).read("2025-01")).toEqual(nothing);
    expect(await new Ledger(store, tenant("grid"), none).read("2025-02")).toEqual(nothing);
    const other = { ...grid, defaultMilliCores: 1 };
    expect(await new Ledger(store, other, none).read("2025-02")).toEqual(nothing);
  });

  test("the recount is remembered per fingerprint", async () => {
    const store = new MemoryStore();
    await new Ledger(store, tenant("grid"), none).markRecounted("2025-02", END);
    expect(await new Ledger(store, tenant("grid"), none).wasRecounted("2025-02")).toBe(true);
    expect(await new Ledger(store, tenant("grid"), none).wasRecounted("2025-01")).toBe(false);
    expect(await new Ledger(store, tenant("grid", { defaultMilliCores: 1 }), none).wasRecounted("2025-02")).toBe(false);
    expect(await new Ledger(store, tenant("grid"), none).read("2025-02")).toEqual(nothing);
  });

  test("a day is stored with a fingerprint that later versions know", async () => {
    const store = new MemoryStore();
    await new Ledger(store, tenant("grid"), none).write(usage);
    const stored = (await store.get("ledger/grid/2025-02/2025-02-03.json"))!.body;
    expect(JSON.parse(stored)).toEqual({ fingerprint: "e076ab25df80ecc1c603319d227d9b21", usage });
  });

  test("a stored day is good as long as nothing changes that decides the count", async () => {
    const store = new MemoryStore();
    await new Ledger(store, tenant("grid"), none).write(usage);
    const isGood = async (more: Parameters<typeof tenant>[1]) =>
      (await new Ledger(store, tenant("grid", more), none).read("2025-02")).days.size === 1;
    const counting = [
      { defaultMilliCores: 1 },
      { server: "http://b" },
      { pods: { namespace: "b" } },
      { pods: { matchers: ['a="b"'] } },
      { pods: { labelPrefix: "exported_" } },
      { pods: { voLabel: "label_vo" } },
    ];
    for (const more of counting) expect([more, await isGood(more)]).toEqual([more, false]);
    const publishing = [
      { site: "B" },
      { submitHost: "b" },
      { vo: "b" },
      { infrastructureType: "b" },
      { nodeCount: 1 },
      { processors: 1 },
      { model: "wallclock" },
      { format: "individual-0.4" },
      { serviceLevel: { type: "hepspec", value: 1 } },
      { settle: 1 },
      { since: "2025-01-01" },
    ] as const;
    for (const more of publishing) expect([more, await isGood(more)]).toEqual([more, true]);
  });
});
