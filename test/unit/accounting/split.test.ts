import { describe, expect, test } from "vitest";
import { LongestWindows, ask } from "../../../lib/accounting/model/split.ts";
import type { Monitoring, Only, Window } from "../../../lib/accounting/model/monitoring.ts";
import { GridmeterError } from "../../../lib/shared/errors.ts";
import { Random } from "../../simulator/index.ts";
import { at, cluster, DAY, ended, HOUR, outcomes, tenant, World } from "./world.ts";
import { MemoryMonitoring } from "../../support/memory-monitoring.ts";
import { stubMonitoring } from "../../support/stub-monitoring.ts";

const T = 1_700_000_000;
const WEEK = { from: T, to: T + 7 * DAY };
type Judge = (window: Window, only?: Only) => "prometheus_too_large" | "prometheus_unavailable" | undefined;

const prefixesIn = (only: Only | undefined) => (only !== undefined && "prefixes" in only ? only.prefixes : undefined);

/** A server that refuses what it is told to, and what it was asked, `refused` or not. */
function server(judge: Judge) {
  const asked: { readonly hours: number; readonly share: number; readonly refused: boolean }[] = [];
  const monitoring = stubMonitoring({
    facts: async (_fact, window, _take, only) => {
      const code = judge(window, only);
      const prefixes = prefixesIn(only);
      const share = prefixes === undefined ? 1 : prefixes.length / 16 ** prefixes[0]!.length;
      asked.push({ hours: (window.to - window.from) / HOUR, share, refused: code !== undefined });
      if (code !== undefined) throw new GridmeterError(code, `${code}: the server's own words. Do this.`);
    },
  });
  return { monitoring, asked };
}

const longerThan =
  (hours: number): Judge =>
  ({ from, to }) =>
    to - from > hours * HOUR ? "prometheus_too_large" : undefined;
const ignore = (): void => undefined;
const refused = (asked: readonly { refused: boolean }[]): number => asked.filter((each) => each.refused).length;

describe("what a server answers at once is remembered", () => {
  test("so later pieces are hardly refused", async () => {
    const { monitoring, asked } = server(longerThan(20));
    const longest = new LongestWindows();
    await ask(monitoring, "end", WEEK, ignore, longest);
    const first = refused(asked);
    for (let piece = 0; piece < 10; piece += 1) await ask(monitoring, "end", WEEK, ignore, longest);
    expect(first).toBeLessThanOrEqual(8);
    expect(refused(asked) / asked.length).toBeLessThan(0.15);
  });

  test("for each fact by itself", async () => {
    const { monitoring, asked } = server(longerThan(20));
    const longest = new LongestWindows();
    await ask(monitoring, "end", WEEK, ignore, longest);
    asked.length = 0;
    await ask(monitoring, "start", WEEK, ignore, longest);
    expect(asked[0]).toEqual({ hours: 168, share: 1, refused: true });
  });

  test("and tried again for more: a server that was busy for a while is soon asked for whole weeks again", async () => {
    let busy = true;
    const { monitoring, asked } = server((window) => (busy ? longerThan(2)(window) : undefined));
    const longest = new LongestWindows();
    await ask(monitoring, "end", WEEK, ignore, longest);
    busy = false;
    asked.length = 0;
    for (let piece = 0; piece < 20; piece += 1) await ask(monitoring, "end", WEEK, ignore, longest);
    expect(asked.at(-1)).toEqual({ hours: 168, share: 1, refused: false });
    expect(asked.length).toBeLessThan(120);
  });

  test("a refusal by chance costs some questions, and soon as much is asked at once as before", async () => {
    let count = 0;
    const { monitoring, asked } = server(() => ((count += 1) === 3 ? "prometheus_too_large" : undefined));
    const longest = new LongestWindows();
    for (let piece = 0; piece < 12; piece += 1) await ask(monitoring, "end", WEEK, ignore, longest);
    expect(refused(asked)).toBe(1);
    expect(asked.at(-1)?.hours).toBe(168);
    expect(asked.length).toBeLessThan(24);
  });

  test("hours that hold more than others are cut further, and no other", async () => {
    const peak: Judge = ({ from, to }, only) =>
      from < T + 51 * HOUR && to > T + 50 * HOUR && (prefixesIn(only)?.length ?? 16) > 4
        ? "prometheus_too_large"
        : undefined;
    const { monitoring, asked } = server(peak);
    await ask(monitoring, "end", WEEK, ignore);
    expect(asked.filter(({ share }) => share < 1).length).toBeGreaterThan(3);
    expect(asked.length).toBeLessThan(90);
  });
});

describe("there is an end to asking", () => {
  test("a server that answers nothing is given up after few questions, with what was asked and what it said", async () => {
    const { monitoring, asked } = server(() => "prometheus_too_large");
    const failure = ask(monitoring, "cores", WEEK, ignore);
    await expect(failure).rejects.toMatchObject({ code: "prometheus_too_large", retryable: true });
    await expect(failure).rejects.toThrow(
      /Given up on cores of the pods whose uid begins with 00 from 2023-11-14 22:13:20 UTC to 2023-11-14 23:13:20 UTC, after \d+ queries\. .*the server's own words\. Do this\./,
    );
    expect(asked.length).toBeLessThanOrEqual(12);
  });

  test("one that says it cannot answer now is asked three times", async () => {
    const { monitoring, asked } = server(() => "prometheus_unavailable");
    await expect(ask(monitoring, "end", WEEK, ignore)).rejects.toMatchObject({ code: "prometheus_unavailable" });
    expect(asked.map(({ hours }) => hours)).toEqual([168, 42, 10]);
  });

  test("one that answers next to nothing is given up before thousands of queries become millions", async () => {
    const { monitoring, asked } = server((_window, only) =>
      prefixesIn(only)?.length === 1 && prefixesIn(only)![0]!.length === 2 ? undefined : "prometheus_too_large",
    );
    await expect(ask(monitoring, "end", WEEK, ignore)).rejects.toThrow(/Given up on end/);
    expect(asked.length).toBeLessThanOrEqual(168 * 128 + 600 + 32);
  });

  test.each([2, 5])("where %i of 100 questions are refused at random it gets through", async (percent) => {
    let givenUp = 0;
    for (let seed = 1; seed <= 50; seed += 1) {
      const random = new Random(`${percent} of 100, ${seed}`);
      const { monitoring, asked } = server(() => (random.int(1, 100) <= percent ? "prometheus_too_large" : undefined));
      const longest = new LongestWindows();
      try {
        for (let piece = 0; piece < 20; piece += 1) await ask(monitoring, "end", WEEK, ignore, longest);
      } catch {
        givenUp += 1;
      }
      expect(asked.length).toBeLessThan(20 * 168 * 2);
    }
    expect(givenUp).toBe(0);
  });
});

test("a gap run over settled, published months asks Prometheus nothing", async () => {
  const world = new World(cluster([ended("2025-01-10T12:00"), ended("2025-02-10T12:00")]));
  const months = { gap: ["2025-01", "2025-02"] } as const;
  await world.run("2025-03-20", [tenant("grid")], months);
  let asked = 0;
  const monitoring = (): Monitoring =>
    new Proxy(new MemoryMonitoring(world.series, tenant("grid").selection), {
      get: (real, name) => {
        asked += 1;
        return Reflect.get(real, name);
      },
    });
  expect(outcomes(await world.run("2025-03-21", [tenant("grid")], { ...months, monitoring }))).toEqual({
    "2025-01": "unchanged",
    "2025-02": "unchanged",
  });
  expect(asked).toBe(0);
  await world.run(at("2025-03-21"), [tenant("grid")], { gap: "2025-03", monitoring }).catch(() => undefined);
  expect(asked).toBeGreaterThan(0);
});
