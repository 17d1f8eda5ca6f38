import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Contestants } from "../../bench/accounting/contestants.ts";
import { uncompacted } from "../../bench/accounting/compact.ts";
import { fill } from "../../bench/accounting/fill.ts";
import { jobsIn, truthOf } from "../../bench/accounting/jobs.ts";
import { eachSample, seriesIn } from "../../bench/accounting/series.ts";
import { ASKED } from "../../bench/accounting/reference.ts";
import { coldMonth } from "../../bench/accounting/sections.ts";
import type { Server } from "../../bench/accounting/server.ts";
import { startServer } from "../../bench/accounting/server.ts";
import { HOUR, layoutOf, measuredMonth, monthsOf, plusMonths, startOfMonth } from "../../bench/accounting/shape.ts";
import { scratchDirectory } from "../support/store-script.ts";

const shape = { jobs: 744, months: 1, scrapeSeconds: 60 };
const layout = layoutOf(shape);

describe("the bench's jobs", () => {
  test("are as many in a month as was asked for", () => {
    for (const jobs of [100, 744, 10_000]) {
      // One that falls on the other side of a month's edge is all that chance may change.
      const found = truthOf(layoutOf({ ...shape, jobs }), measuredMonth).jobs;
      expect(Math.abs(found - jobs), `${found} of ${jobs}`).toBeLessThanOrEqual(1);
    }
  });

  test("run for about an hour, linger for one, and have names and uids of their own", () => {
    const jobs = [...jobsIn(layout, layout.from, layout.to)];
    expect(new Set(jobs.map(({ pod }) => pod)).size).toBe(jobs.length);
    expect(new Set(jobs.map(({ uid }) => uid)).size).toBe(jobs.length);
    for (const { start, end, gone, uid } of jobs) {
      expect(end - start).toBeGreaterThanOrEqual(3000);
      expect(end - start).toBeLessThanOrEqual(4200);
      expect(gone - end).toBe(HOUR);
      expect(uid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/);
    }
  });

  test("are the same whatever stretch is looked at", () => {
    const all = [...jobsIn(layout, layout.from, layout.to)];
    const [from, to] = [layout.from + 100 * HOUR, layout.from + 106 * HOUR];
    expect([...jobsIn(layout, from, to)]).toEqual(all.filter((job) => job.start < to && job.gone > from));
  });

  test("of months add up to those of all data", () => {
    const three = layoutOf({ ...shape, months: 3 });
    const months = monthsOf({ ...shape, months: 3 });
    expect(months).toEqual([plusMonths(measuredMonth, -1), measuredMonth, plusMonths(measuredMonth, 1)]);
    const whole = [...jobsIn(three, three.from, three.to)].filter(
      ({ end }) => end >= startOfMonth(months[0]!) && end < startOfMonth(plusMonths(months[2]!, 1)),
    );
    const found = months.map((month) => truthOf(three, month));
    expect(found.reduce((sum, { jobs }) => sum + jobs, 0)).toBe(whole.length);
    expect(found.reduce((sum, { coreSeconds }) => sum + coreSeconds, 0)).toBe(
      whole.reduce((sum, { cores, start, end }) => sum + cores * (end - start), 0),
    );
  });
});

test("a block's ranges count as compacted when all but the last hold one block", () => {
  const blocks = (...starts: readonly number[]) => starts.map((from) => ({ from }));
  expect(uncompacted(blocks(0, 162, 324, 342), 162)).toBe(0);
  expect(uncompacted(blocks(0, 18, 162, 180, 324), 162)).toBe(2);
});

describe("samples written to the real Prometheus", () => {
  let server: Server;
  let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
  const small = layoutOf({ jobs: 62, months: 1, scrapeSeconds: 60 });

  beforeAll(async () => {
    scratch = await scratchDirectory();
    server = await startServer(scratch.path, { flags: ["--web.enable-remote-write-receiver"] });
  }, 120_000);

  afterAll(async () => {
    await server.stop();
    await scratch.remove();
  });

  test("are all there, series by series", { timeout: 60_000 }, async () => {
    const told: number[] = [];
    const written = await fill(server.url, small, (hours) => told.push(hours));
    const all = [...seriesIn(small, small.from, small.to)];
    const expected = new Map<string, { series: number; samples: number; sum: number }>();
    for (const series of all) {
      const name = series.labels[0]![1];
      const held = expected.get(name) ?? { series: 0, samples: 0, sum: 0 };
      let samples = 0;
      eachSample(series, small, small, (_time, value) => {
        samples += 1;
        held.sum += value;
      });
      held.samples += samples;
      held.series += samples > 0 ? 1 : 0;
      expected.set(name, held);
    }
    expect(written).toBe([...expected.values()].reduce((sum, { samples }) => sum + samples, 0));
    expect(told.at(-1)).toBe(Math.round((small.to - small.from) / HOUR));
    const range = `[${small.to - small.from + 1}s]`;
    for (const [name, { series, samples, sum }] of expected) {
      expect(await scalar(`count(count_over_time(${name}${range}))`), name).toBe(series);
      expect(await scalar(`sum(count_over_time(${name}${range}))`), name).toBe(samples);
      expect(await scalar(`sum(sum_over_time(${name}${range}))`), name).toBeCloseTo(sum, -4);
    }
  });

  test("are counted by all that are compared, right and from the same server", { timeout: 120_000 }, async () => {
    const contestants = await Contestants.open();
    try {
      const found = await coldMonth({ contestants, url: server.url, repeat: 1, say: () => undefined }, small);
      const truth = truthOf(small, measuredMonth);
      expect(found.reference.figures).toEqual([truth]);
      expect(found.ours.figures).toEqual([truth]);
      expect(found.reference.middle.queries).toBe(ASKED.length);
      const asked = found.ours.recording?.requests.filter(({ path }) => path.startsWith("/api/v1/query"));
      expect(asked).toHaveLength(found.ours.middle.queries);
      expect(found.limit.middle.queries).toBe(found.ours.middle.queries);
      expect(found.reference.recording?.samples).toBeGreaterThan(truth.jobs * 60);
      expect(found.again.queries).toBe(0);
      for (const { middle } of [found.reference, found.ours, found.limit]) {
        expect(middle.peakBytes).toBeGreaterThan(10e6);
        expect(middle.cpuSeconds).toBeGreaterThanOrEqual(0);
      }
    } finally {
      await contestants.close();
    }
  });

  async function scalar(query: string): Promise<number> {
    const form = new URLSearchParams({ query, time: `${small.to}` });
    const answer = await fetch(`${server.url}/api/v1/query`, { method: "POST", body: form });
    const body = (await answer.json()) as { data: { result: [{ value: [number, string] }] } };
    return Number(body.data.result[0].value[1]);
  }
});
