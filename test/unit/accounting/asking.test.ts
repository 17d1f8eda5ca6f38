import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ask } from "../../../lib/accounting/model/split.ts";
import type { Fact, Monitoring, Only, Row, Window } from "../../../lib/accounting/model/monitoring.ts";
import {
  type Facts,
  type PodFacts,
  askGreatest,
  askLastDays,
  askNames,
  askRequests,
  askSums,
  askUnscheduled,
  askVos,
} from "../../../lib/accounting/counting/facts.ts";
import {
  type ByUid,
  askCpu,
  askMemoryRequests,
  askMemoryUsed,
  askPods,
} from "../../../lib/accounting/counting/pods.ts";
import { dayOf } from "../../../lib/accounting/model/time.ts";
import { GridmeterError } from "../../../lib/shared/errors.ts";
import { isAsked } from "../../support/memory-monitoring.ts";
import { stubMonitoring } from "../../support/stub-monitoring.ts";
import { DAY, HOUR, MINUTE } from "./world.ts";

const T = 1_700_000_000;
type Sample = { readonly time: number; readonly row: Row };

/** The samples of each fact; those of a request are one series for each pod, part and fact, those of a label one for each text. */
type Samples = Partial<Record<Fact, readonly Sample[]>>;

/** The facts that give copies, and those whose series are their copies. */
const COPIES: Partial<Record<Fact, readonly Fact[]>> = {
  coresAt: ["cores", "unscheduledCores"],
  memoryRequestAt: ["memoryRequest", "unscheduledMemoryRequest"],
  voAt: ["vo"],
};

/** The rows of a fact in a window, as a server with one copy of each series gives them. */
function rowsIn(samples: Samples, fact: Fact, window: Window, only: Only | undefined): Iterable<Row> {
  const rows = new Map<string, Row>();
  for (const each of COPIES[fact] ?? [fact]) {
    const inside = (samples[each] ?? [])
      .filter(({ time, row }) => time >= window.from && time <= window.to && isAsked(row.uid, only))
      .toSorted((a, b) => a.time - b.time);
    const latest = /cores|request|vo/i.test(fact);
    for (const { time, row } of inside) {
      const copy = JSON.stringify([each, row.uid, row.part, each === "vo" ? row.text : ""]);
      const held = rows.get(copy);
      if (held === undefined || latest || row.value > held.value || (row.text ?? "") > (held.text ?? ""))
        rows.set(copy, fact in COPIES ? { ...row, at: time, copy } : row);
    }
  }
  return rows.values();
}

/** A monitoring of single samples that notes what it was asked, and refuses what it is told to refuse. */
function asked(samples: Samples, refuses: (window: Window, only?: Only) => boolean = () => false) {
  const questions: { fact: Fact; window: Window; only?: Only }[] = [];
  const monitoring = stubMonitoring({
    facts: async (fact, window, take, only) => {
      questions.push({ fact, window, ...(only === undefined ? {} : { only }) });
      if (refuses(window, only)) throw new GridmeterError("prometheus_too_large", "too large");
      for (const each of rowsIn(samples, fact, window, only)) take(each);
    },
  });
  return { monitoring, questions };
}

const row = (uid: string, value: number, more: Partial<Row> = {}): Row => ({ uid, value, ...more });
const single = (fact: Fact, ...rows: Row[]) => ({
  [fact]: rows.map((each, index) => ({ time: T + index, row: each })),
});

/** What is known of the pods that the tests of details speak of. */
const known = (of: ByUid): Map<string, number> =>
  new Map(["a", "b", "c", "d"].flatMap((uid) => (of.get(uid) === undefined ? [] : [[uid, of.get(uid)!]])));

const ignore = (): void => undefined;
const prefixesOf = (only: Only | undefined): readonly string[] =>
  only !== undefined && "prefixes" in only ? only.prefixes : [];

/** What a fact comes to, by uid: its number, or the text of `vo`. */
async function answerOf(
  monitoring: Monitoring,
  fact: Fact,
  window: Window,
): Promise<ReadonlyMap<string, number | string | undefined>> {
  const facts: Facts = new Map();
  const valuesOf = (key: keyof PodFacts) => new Map([...facts].map(([uid, pod]) => [uid, pod[key]]));
  switch (fact) {
    case "vo":
      await askVos(monitoring, window, facts);
      return valuesOf("vo");
    case "cpu":
    case "memoryUsed":
      await askSums(monitoring, fact, window, facts);
      return valuesOf(fact);
    case "name":
      await askNames(monitoring, window, facts);
      return new Map([...facts].map(([uid, { end, name }]) => [uid, `${end} ${name}`]));
    case "cores":
    case "coresAt":
      await askRequests(monitoring, "cores", window, facts);
      return valuesOf("cores");
    case "memoryRequest":
    case "memoryRequestAt":
      await askRequests(monitoring, "memory", window, facts);
      return valuesOf("memoryRequest");
    case "unscheduledCores":
    case "unscheduledMemoryRequest":
      await askUnscheduled(
        monitoring,
        fact === "unscheduledCores" ? "cores" : "memory",
        window,
        ["0a", "0b", "1a", "ff"],
        facts,
      );
      return valuesOf(fact === "unscheduledCores" ? "cores" : "memoryRequest");
    case "voAt":
      throw new Error("Asked by vo.");
    case "lastDay":
      return askLastDays(monitoring, window);
    default:
      await askGreatest(monitoring, fact, window, facts);
      return valuesOf(fact);
  }
}

describe("When Prometheus refuses a piece, the asked range is tiled contiguously, then by uid prefix", () => {
  test("contiguous tiles, in halves, cut at whole hours", async () => {
    const { monitoring, questions } = asked({}, ({ from, to }) => to - from > 3 * HOUR);
    await ask(monitoring, "end", { from: T, to: T + 10 * HOUR + 1 }, ignore);
    const tiles = questions
      .map(({ window }) => window)
      .filter(({ from, to }) => to - from <= 3 * HOUR)
      .toSorted((a, b) => a.from - b.from);
    expect(tiles[0]!.from).toBe(T);
    expect(tiles.at(-1)!.to).toBe(T + 10 * HOUR + 1);
    tiles.slice(1).forEach((tile, index) => expect(tile.from).toBe(tiles[index]!.to));
  });

  test("an hour that is still refused is asked by uid, so that every uid is asked exactly once", async () => {
    const uids = Array.from({ length: 256 }, (_, index) => `${index.toString(16).padStart(2, "0")}-uid`);
    const { monitoring, questions } = asked(
      single("end", ...uids.map((uid) => row(uid, 1))),
      (_window, only) => prefixesOf(only).length !== 1 || prefixesOf(only)[0]!.length < 2,
    );
    const answer = await answerOf(monitoring, "end", { from: T, to: T + HOUR });
    expect([...answer.keys()].toSorted()).toEqual(uids);
    const leaves = questions.flatMap(({ only }) =>
      prefixesOf(only).length === 1 && prefixesOf(only)[0]!.length === 2 ? prefixesOf(only) : [],
    );
    expect(new Set(leaves).size).toBe(leaves.length);
    expect(leaves).toHaveLength(256);
  });

  test("once even the smallest piece is refused, so is the whole: prometheus_too_large", async () => {
    const { monitoring } = asked({}, () => true);
    await expect(ask(monitoring, "end", { from: T, to: T + 60 }, ignore)).rejects.toMatchObject({
      code: "prometheus_too_large",
    });
  });

  test("another error is not a reason to ask for less", async () => {
    let calls = 0;
    const failing = {
      ...asked({}).monitoring,
      facts: () => ((calls += 1), Promise.reject(new GridmeterError("prometheus_auth", "401"))),
    };
    await expect(ask(failing, "end", { from: T, to: T + 10 * HOUR }, ignore)).rejects.toMatchObject({
      code: "prometheus_auth",
    });
    expect(calls).toBe(1);
  });
});

describe("answers merged by uid: latest end and start, newest request", () => {
  test("a request that changed: the later tile's, also if it is lower", async () => {
    const samples = {
      cores: [
        { time: T, row: row("a", 4) },
        { time: T + 5 * HOUR, row: row("a", 1) },
      ],
    };
    const { monitoring } = asked(samples, ({ from, to }) => to - from > 2 * HOUR);
    expect((await answerOf(monitoring, "cores", { from: T, to: T + 6 * HOUR })).get("a")).toBe(1);
  });

  test("an end: the greatest, also if an earlier tile has it", async () => {
    const samples = {
      end: [
        { time: T, row: row("a", 9) },
        { time: T + 5 * HOUR, row: row("a", 5) },
      ],
    };
    const { monitoring } = asked(samples, ({ from, to }) => to - from > 2 * HOUR);
    expect((await answerOf(monitoring, "end", { from: T, to: T + 6 * HOUR })).get("a")).toBe(9);
  });

  test("whatever the tiles", async () => {
    const facts = fc.constantFrom<Fact>(
      "end",
      "name",
      "start",
      "succeeded",
      "failed",
      "runningUntil",
      "lastDay",
      "cores",
      "unscheduledCores",
      "cpu",
      "memoryUsed",
      "memoryRequest",
      "vo",
    );
    const sample = fc.record({
      time: fc.integer({ min: T, max: T + 12 * HOUR }),
      row: fc.record({
        uid: fc.constantFrom("0a", "0b", "1a", "ff"),
        value: fc.integer({ min: 0, max: 9 }),
      }),
    });
    // One value for each moment: two of one moment would be copies, and those have been merged before.
    const samples = fc.uniqueArray(sample, { maxLength: 30, selector: ({ time, row: { uid } }) => `${time} ${uid}` });
    await fc.assert(
      fc.asyncProperty(
        facts,
        samples,
        fc.integer({ min: 1, max: 13 }),
        fc.integer({ min: 1, max: 5 }),
        async (fact, drawn, hours, most) => {
          const held = drawn.map(({ time, row: each }) => ({
            time,
            row: {
              ...each,
              ...(fact === "vo" ? { text: `vo${each.value}`, value: 1 } : {}),
              ...(fact === "name" ? { text: `pod-${each.uid}` } : {}),
            },
          }));
          const window = { from: T, to: T + 12 * HOUR };
          const whole = await answerOf(asked({ [fact]: held }).monitoring, fact, window);
          const uids = new Set(held.map(({ row: { uid } }) => uid));
          const tiled = asked(
            { [fact]: held },
            ({ from, to }, only) =>
              to - from > hours * HOUR || [...uids].filter((uid) => isAsked(uid, only)).length > most,
          );
          const answer = await answerOf(tiled.monitoring, fact, window);
          expect(answer).toEqual(whole);
        },
      ),
      { numRuns: 200 },
    );
  });
});

describe("pods from facts", () => {
  const options = { lastSeen: T + HOUR, withVo: true };
  const window = { from: T, to: T + HOUR };
  const pods = async (samples: Partial<Record<Fact, readonly Row[]>>) => {
    const timed = Object.fromEntries(
      Object.entries(samples).map(([fact, rows]) => [fact, rows.map((each) => ({ time: T + 50 * MINUTE, row: each }))]),
    );
    const { monitoring, questions } = asked(timed);
    const { finished, open, lacking } = await askPods(monitoring, window, options);
    return { finished: [...finished], open, lacking, questions };
  };

  test("one pod whole", async () => {
    const { finished, open, lacking, questions } = await pods({
      end: [row("a", T + 5.9)],
      succeeded: [row("a", 1)],
      start: [row("a", T)],
      cores: [row("a", 1.2345)],
      vo: [row("a", 1, { text: "atlas" })],
    });
    expect(finished).toEqual([
      { uid: "a", pod: "", end: T + 5, succeeded: true, start: T, milliCores: 1235, vo: "atlas" },
    ]);
    expect(open).toEqual(new Map());
    expect(lacking).toEqual([]);
    expect(questions.map(({ fact }) => fact)).toEqual(["end", "succeeded", "start", "cores", "vo", "start"]);
  });

  test("a request of 0 is none", async () => {
    const { finished } = await pods({ end: [row("a", T)], succeeded: [row("a", 1)], cores: [row("a", 0)] });
    expect(finished[0]).toEqual({ uid: "a", pod: "", end: T, succeeded: true });
  });

  const at50 = (...rows: Row[]): Sample[] => rows.map((each) => ({ time: T + 50 * MINUTE, row: each }));

  test("a request that names no node counts only where no other is, and only pods that lack one are asked about", async () => {
    const { monitoring, questions } = asked({
      end: at50(row("a", T), row("b", T), row("c", T)),
      succeeded: at50(row("a", 1), row("b", 1), row("c", 0)),
      cores: at50(row("a", 2)),
      unscheduledCores: at50(row("a", 8), row("b", 4), row("c", 1)),
    });
    const { finished } = await askPods(monitoring, window, options);
    expect([...finished].map(({ uid, milliCores }) => [uid, milliCores])).toEqual([
      ["a", 2000],
      ["b", 4000],
    ]);
    expect(questions.filter(({ fact }) => fact === "unscheduledCores").map(({ only }) => only)).toEqual([
      { uids: ["b"] },
    ]);
  });

  test("where no pod's request names a node, all of them are asked for at once; where all do, none", async () => {
    const uids = Array.from({ length: 2001 }, (_, index) => `${index}`);
    const all = (value: number): Sample[] => at50(...uids.map((uid) => row(uid, value)));
    const dropped = asked({ end: all(T), succeeded: all(1), unscheduledCores: all(3) });
    const { finished } = await askPods(dropped.monitoring, window, options);
    expect([...finished].map(({ milliCores }) => milliCores)).toEqual(uids.map(() => 3000));
    const about = dropped.questions.filter(({ fact }) => fact === "unscheduledCores");
    expect(about.map(({ only }) => only)).toEqual([undefined]);
    const named = asked({ end: all(T), succeeded: all(1), cores: all(1), unscheduledCores: all(3) });
    await askPods(named.monitoring, window, options);
    expect(named.questions.map(({ fact }) => fact)).not.toContain("unscheduledCores");
  });

  test("a request that names no node and is no number is refused", async () => {
    const bad = { end: at50(row("a", T)), succeeded: at50(row("a", 1)), unscheduledCores: at50(row("a", Infinity)) };
    await expect(askPods(asked(bad).monitoring, window, options)).rejects.toMatchObject({ code: "sample_invalid" });
  });

  test("memory requests of the pods wanted, the node's before those without one", async () => {
    const { monitoring } = asked({
      memoryRequest: at50(row("a", 2048), row("z", 1024)),
      unscheduledMemoryRequest: at50(row("a", 9000), row("b", 1025)),
    });
    const wanted = ["a", "b", "c"].map((uid) => ({ uid, pod: "", end: T, succeeded: true }));
    expect(known(await askMemoryRequests(monitoring, window, wanted, new Map()))).toEqual(
      new Map([
        ["a", 2],
        ["b", 2],
      ]),
    );
  });

  const day = dayOf(T);

  test("finished without an end is no_end; an end without a finished phase is not_finished", async () => {
    const { finished, open } = await pods({ end: [row("b", T)], succeeded: [row("a", 1), row("b", 0)] });
    expect(finished).toEqual([]);
    expect(open).toEqual(
      new Map([
        ["a", { day, reason: "no_end", succeeded: true }],
        ["b", { day, reason: "not_finished", succeeded: false }],
      ]),
    );
  });

  test("a failed pod counts as one that succeeded does, with zero rows of the phases and without", async () => {
    const end = [row("a", T), row("b", T)];
    const zeros = await pods({ end, succeeded: [row("a", 0), row("b", 1)], failed: [row("a", 1), row("b", 0)] });
    const bare = await pods({ end, succeeded: [row("b", 1)], failed: [row("a", 1)] });
    for (const { finished, open, lacking } of [zeros, bare]) {
      expect(finished.map(({ uid, succeeded }) => [uid, succeeded])).toEqual([
        ["a", false],
        ["b", true],
      ]);
      expect([open.size, lacking]).toEqual([0, []]);
    }
    // Only those that did not succeed are asked for failures.
    expect(bare.questions.filter(({ fact }) => fact === "failed").map(({ only }) => only)).toEqual([{ uids: ["a"] }]);
  });

  test("where zero rows are dropped, a pod of which one container ended runs on: not_finished, and nothing is missing", async () => {
    const { open, lacking, questions } = await pods({ end: [row("a", T)], runningUntil: [row("a", T + 301)] });
    expect(open).toEqual(new Map([["a", { day, reason: "not_finished", succeeded: false }]]));
    expect(lacking).toEqual([]);
    expect(questions.filter(({ fact }) => fact === "runningUntil").map(({ only }) => only)).toEqual([{ uids: ["a"] }]);
  });

  test("an end 15 minutes ago without any phase from then on lacks a phase; a later one may have been scraped before it", async () => {
    const lacks = async (end: number, ...runningUntil: Row[]) =>
      (await pods({ end: [row("a", end)], runningUntil })).lacking.map(({ lacks: what, first, last }) => [
        what,
        first,
        last,
      ]);
    const old = T + 45 * MINUTE;
    expect(await lacks(old)).toEqual([["phase", old, old]]);
    expect(await lacks(old, row("a", old + 300))).toEqual([["phase", old, old]]);
    expect(await lacks(old, row("a", old + 301))).toEqual([]);
    expect(await lacks(old + 1)).toEqual([]);
  });

  test("one that succeeded without an end lacks it; one that failed does not (evicted, failed in an init container)", async () => {
    const { open, lacking } = await pods({ succeeded: [row("a", 1), row("b", 0)], failed: [row("b", 1)] });
    expect([...open].map(([uid, { reason, succeeded }]) => [uid, reason, succeeded])).toEqual([
      ["a", "no_end", true],
      ["b", "no_end", false],
    ]);
    expect(lacking.map(({ uid, lacks }) => [uid, lacks])).toEqual([["a", "end"]]);
  });

  test("no_end belongs to the day on which the pod was last seen, at the latest that of the last monitoring", async () => {
    const dayBefore = T - (T % DAY) - DAY;
    const { monitoring } = asked({
      succeeded: at50(row("a", 1), row("b", 1), row("c", 1)),
      start: [{ time: T, row: row("a", T - 3 * DAY) }, ...at50(row("b", T - 2 * DAY))],
      lastDay: at50(row("a", dayBefore)),
    });
    const { open, lacking } = await askPods(monitoring, window, options);
    const days = { a: dayOf(dayBefore), b: day, c: day };
    // b is there until the last monitoring, and of c nothing more is known.
    expect([...open].map(([uid, each]) => [uid, each.day])).toEqual(Object.entries(days));
    expect(lacking.map(({ uid, first, last }) => [uid, first, last])).toEqual([
      ["a", T - 3 * DAY, dayBefore],
      ["b", T - 2 * DAY, T + HOUR],
      ["c", T + HOUR, T + HOUR],
    ]);
  });

  test("an open pod without a sample in the last quarter of an hour of monitoring is gone", async () => {
    const noEnd = async (minutes: number, more: { readonly lastSeen?: undefined } = {}) => {
      const start = [{ time: T + minutes * MINUTE, row: row("a", T) }];
      const succeeded = [{ time: T + minutes * MINUTE, row: row("a", 0) }];
      const { open } = await askPods(asked({ start, succeeded }).monitoring, window, { ...options, ...more });
      return [...open].map(([uid, { reason }]) => [uid, reason]);
    };
    expect(await noEnd(44)).toEqual([["a", "no_end"]]);
    expect(await noEnd(46)).toEqual([]);
    expect(await noEnd(44, { lastSeen: undefined })).toEqual([]);
  });

  test("clocks differ: what was scraped up to five minutes before the window is seen", async () => {
    const before = (seconds: number) =>
      asked({ end: [{ time: T - seconds, row: row("a", T) }], succeeded: [{ time: T - seconds, row: row("a", 1) }] })
        .monitoring;
    expect([...(await askPods(before(300), window, options)).finished]).toHaveLength(1);
    expect([...(await askPods(before(301), window, options)).finished]).toHaveLength(0);
  });

  test("the VO label is asked for only where the tenant has one", async () => {
    const { monitoring, questions } = asked({});
    await askPods(monitoring, window, { ...options, withVo: false });
    expect(questions.map(({ fact }) => fact)).not.toContain("vo");
  });

  test.each(["end", "start", "cores", "succeeded", "failed", "runningUntil"] as const)(
    "NaN of %s is sample_invalid",
    async (fact) => {
      const phases = fact === "failed" || fact === "runningUntil" ? {} : { succeeded: [row("a", 1)] };
      const good = { end: [row("a", T)], ...phases, start: [row("a", T)], cores: [row("a", 1)] };
      await expect(pods({ ...good, [fact]: [row("a", NaN)] })).rejects.toMatchObject({
        code: "sample_invalid",
        exit: 4,
      });
    },
  );

  test("NaN is not hidden by a number of another tile", async () => {
    const samples = {
      end: [
        { time: T, row: row("a", NaN) },
        { time: T + 3 * HOUR, row: row("a", T) },
      ],
      succeeded: [{ time: T, row: row("a", 1) }],
    };
    const { monitoring } = asked(samples, ({ from, to }) => to - from > HOUR);
    await expect(askPods(monitoring, { from: T, to: T + 4 * HOUR }, options)).rejects.toMatchObject({
      code: "sample_invalid",
    });
  });

  test("CPU: parts of a pod add up, in milliseconds; memory: in whole KiB, rounded up", async () => {
    const parts = [row("a", 1.0004, { part: "x" }), row("a", 2.0004, { part: "y" }), row("b", 0)];
    expect(known(await askCpu(asked(single("cpu", ...parts)).monitoring, T, T + HOUR, new Map()))).toEqual(
      new Map([
        ["a", 3001],
        ["b", 0],
      ]),
    );
    expect(
      known(
        await askMemoryUsed(
          asked(single("memoryUsed", row("a", 1025, { part: "x" }), row("a", 1, { part: "y" }))).monitoring,
          window,
          new Map(),
        ),
      ),
    ).toEqual(new Map([["a", 2]]));
    await expect(askCpu(asked(single("cpu", row("a", NaN))).monitoring, T, T + HOUR, new Map())).rejects.toMatchObject({
      code: "sample_invalid",
    });
  });

  test("parts of a pod add up in whatever order and however often they come, the greatest value of each", async () => {
    const name = fc
      .tuple(fc.nat(3), fc.constantFrom("", "a", "b", "ab", "ba", "é"))
      .map(([number, tail]) => `/kubepods.slice/kubepods-pod1_2_3.slice/cri-containerd-${number}${tail}.scope`);
    const drawn = fc.record({
      uid: fc.constantFrom("a", "b", "c"),
      part: fc.oneof(name, fc.constant("")),
      value: fc.float({ noNaN: true, noDefaultInfinity: true, min: 0 }),
    });
    const sums = async (rows: readonly Row[]) => {
      const monitoring = stubMonitoring({ facts: async (_fact, _window, take) => rows.forEach(take) });
      return answerOf(monitoring, "cpu", window);
    };
    await fc.assert(
      fc.asyncProperty(fc.array(drawn, { maxLength: 40 }), fc.infiniteStream(fc.nat()), async (rows, order) => {
        const greatest = new Map<string, Map<string, number>>();
        for (const { uid, part, value } of rows) {
          const parts = greatest.get(uid) ?? new Map<string, number>();
          greatest.set(uid, parts.set(part, Math.max(parts.get(part) ?? 0, value)));
        }
        const expected = new Map(
          [...greatest].map(([uid, parts]) => [
            uid,
            [...parts.values()].sort((a, b) => a - b).reduce((sum, value) => sum + value, 0),
          ]),
        );
        const shuffled = rows.map((each) => ({ each, at: order.next().value })).sort((a, b) => a.at - b.at);
        for (const taken of [rows, [...rows, ...rows], shuffled.map(({ each }) => each)])
          expect(await sums(taken)).toEqual(expected);
      }),
      { numRuns: 100 },
    );
  });
});
