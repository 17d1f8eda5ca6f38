import { beforeEach, describe, expect, test } from "vitest";
import type { ProbeRun } from "../../../lib/agent/probes/common/probe.ts";
import { Schedule, type ScheduleOptions, steadyClock } from "../../../lib/agent/schedule.ts";
import { FakeClock, FakeProbe, gauge, keptLog, ok, run } from "../../support/agent-parts.ts";

let clock: FakeClock;
let log: ReturnType<typeof keptLog>;
let settled: { readonly probe: string; readonly kind: ProbeRun["kind"]; readonly at: number; readonly run: ProbeRun }[];
let enabled: [string, boolean, number][];
beforeEach(() => {
  clock = new FakeClock();
  log = keptLog();
  settled = [];
  enabled = [];
});

const schedule = (probes: readonly FakeProbe[], more: Partial<ScheduleOptions> = {}): Schedule =>
  new Schedule({
    probes,
    clock,
    log,
    random: () => 0,
    settled: (probe, done) => settled.push({ probe, kind: done.kind, at: clock.now(), run: done }),
    enabled: (probe, on) => enabled.push([probe, on, clock.now()]),
    ...more,
  });

const kinds = (): string[] => settled.map(({ kind }) => kind);

describe("each probe runs in a loop of its own", () => {
  test("from start to start, without drift, however long a run takes", async () => {
    const probe = new FakeProbe("ps", clock, { interval: 30 });
    const loops = schedule([probe]);
    loops.start();
    for (const take of [0.3, 7.77, 0.001, 29.9]) {
      probe.take = take;
      await clock.pass(30);
    }
    await clock.pass(30 * 1000);
    expect(probe.starts.slice(0, 5)).toEqual([0, 30, 60, 90, 120]);
    expect(probe.starts.at(-1)).toBeCloseTo(30 * 1004, 6);
    expect(probe.starts).toHaveLength(1005);
    loops.stop();
  });

  test("a run that is longer than the interval lets starts fall out; the next is on time", async () => {
    const probe = new FakeProbe("docker-stats", clock, { interval: 10, timeout: 60 });
    probe.take = 25;
    const loops = schedule([probe]);
    loops.start();
    await clock.pass(100);
    expect(probe.starts).toEqual([0, 30, 60, 90]);
    expect(probe.overlaps).toBe(0);
    loops.stop();
  });

  test("one that hangs keeps no other from its cadence", async () => {
    const hung = new FakeProbe("nvidia-smi", clock, { interval: 10, timeout: 5 });
    hung.take = undefined;
    const other = new FakeProbe("ps", clock, { interval: 10 });
    const loops = schedule([hung, other]);
    loops.start();
    await clock.pass(95);
    expect(other.starts).toEqual([0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
    loops.stop();
  });

  test("all have started within seconds, not all at once", async () => {
    const probes = Array.from({ length: 10 }, (_, index) => new FakeProbe(`p${index}`, clock));
    const quick = new FakeProbe("quick", clock, { interval: 0.5 });
    let draws = 0;
    const loops = schedule([...probes, quick], { random: () => draws++ / 11 });
    loops.start();
    await clock.pass(2);
    const starts = probes.map(({ starts }) => starts[0]);
    expect(new Set(starts).size).toBe(10);
    expect(Math.max(...starts.map(Number))).toBeLessThan(2);
    expect(quick.starts[0]).toBeLessThan(0.5);
    loops.stop();
  });

  test("after the program or the machine stood still, each runs once and goes on in step", async () => {
    const probe = new FakeProbe("ps", clock, { interval: 30 });
    const loops = schedule([probe]);
    loops.start();
    await clock.pass(31);
    clock.standStill(1_000);
    await clock.pass(30);
    expect(probe.starts).toEqual([0, 30, 1031, 1050]);
    loops.stop();
  });

  test("after stop nothing is started, and the end of a run calls no listener", async () => {
    const probe = new FakeProbe("ps", clock, { interval: 30 });
    probe.take = 5;
    const loops = schedule([probe]);
    loops.start();
    await clock.pass(32);
    loops.stop();
    await clock.pass(100);
    expect(probe.starts).toEqual([0, 30]);
    expect(settled).toHaveLength(1);
  });

  test("stop does not wait for a probe that hangs, nor starts one whose examination was under way", async () => {
    const hung = new FakeProbe("hung", clock, { timeout: 3_600 });
    hung.take = undefined;
    const examined = new FakeProbe("examined", clock);
    examined.unavailable = () => clock.sleep(1, new AbortController().signal).then(() => undefined);
    const loops = schedule([hung, examined]);
    loops.start();
    await clock.pass(0.5);
    loops.stop();
    await clock.pass(0);
    expect(clock.sleepers).toBe(1);
    await clock.pass(10);
    expect([hung.starts, examined.starts]).toEqual([[0], []]);
    expect(settled).toEqual([]);
  });

  test("a listener that throws is logged, and ends no loop", async () => {
    const probe = new FakeProbe("ps", clock, { interval: 30 });
    const loops = schedule([probe], {
      settled: () => {
        throw new Error("not taken in");
      },
    });
    loops.start();
    await clock.pass(65);
    expect(probe.starts).toHaveLength(3);
    expect(log.said.map(({ level, fields }) => [level, fields])).toContainEqual([
      "error",
      { probe: "ps", error: "not taken in" },
    ]);
    loops.stop();
  });
});

describe("a probe that does not keep its word", () => {
  test("never settles: a timeout 2 s late, then skipped until it does; what it came to is thrown away", async () => {
    const probe = new FakeProbe("docker-stats", clock, { interval: 10, timeout: 5 });
    probe.take = 27;
    probe.result = () => ok(gauge("late", 1));
    const loops = schedule([probe]);
    loops.start();
    await clock.pass(25);
    expect(settled.map(({ kind, at }) => [kind, at])).toEqual([
      ["timeout", 7],
      ["skipped_in_flight", 10],
      ["skipped_in_flight", 20],
    ]);
    expect(settled[0]?.run).toMatchObject({ seconds: 7, metrics: [], detail: "it had not settled after 7 s" });
    probe.take = 1;
    await clock.pass(10);
    expect(settled.slice(3).map(({ kind, at }) => [kind, at])).toEqual([["ok", 31]]);
    expect(probe.starts).toEqual([0, 30]);
    expect(probe.overlaps).toBe(0);
    loops.stop();
  });

  test("rejects or throws: a result like any other, and the loop goes on", async () => {
    const rejects = new FakeProbe("rejects", clock);
    rejects.result = () => {
      throw new Error("cannot read properties");
    };
    const throws = new FakeProbe("throws", clock);
    throws.run = () => {
      throw new Error("at once");
    };
    throws.unavailable = () => {
      throw new Error("not even that");
    };
    const loops = schedule([rejects, throws]);
    loops.start();
    await clock.pass(31);
    expect(kinds()).toEqual(["parse_error", "parse_error", "parse_error", "parse_error"]);
    expect(settled.find(({ probe }) => probe === "rejects")?.run.detail).toContain("cannot read properties");
    expect(settled.find(({ probe }) => probe === "throws")?.run.detail).toContain("at once");
    loops.stop();
  });

  test("does not say whether it can run: it is run", async () => {
    const probe = new FakeProbe("ps", clock);
    probe.unavailable = () => new Promise(() => undefined);
    const loops = schedule([probe]);
    loops.start();
    await clock.pass(6);
    expect(probe.starts).toEqual([5]);
    loops.stop();
  });
});

describe("a probe that cannot run on the node", () => {
  test("is disabled, said once, looked at again now and then, and enabled when its tool comes", async () => {
    const probe = new FakeProbe("nvidia-smi", clock);
    probe.reason = "there is no /dev/nvidiactl";
    const loops = schedule([probe]);
    loops.start();
    await clock.pass(1_000);
    expect(probe.starts).toEqual([]);
    expect(probe.asked).toBe(4);
    expect(enabled).toEqual([["nvidia-smi", false, 0]]);
    expect(log.said).toEqual([
      {
        level: "info",
        fields: { probe: "nvidia-smi", why: "there is no /dev/nvidiactl" },
        text: "the probe is disabled: it cannot run on this node",
      },
    ]);
    expect(loops.readiness()).toEqual({ ready: true, late: [] });
    probe.reason = undefined;
    await clock.pass(300);
    expect(enabled).toEqual([
      ["nvidia-smi", false, 0],
      ["nvidia-smi", true, 1200],
    ]);
    expect(probe.starts).toEqual([1200, 1230, 1260, 1290]);
    expect(log.said).toHaveLength(2);
    expect(probe.asked).toBe(5);
    loops.stop();
  });

  test("but could before fails for 15 minutes first, so that an alert has time to fire", async () => {
    const probe = new FakeProbe("nvidia-smi", clock, { interval: 60 });
    const loops = schedule([probe]);
    loops.start();
    await clock.pass(30);
    probe.result = () => run("not_found");
    probe.reason = "nvidia-smi is not there";
    await clock.pass(920);
    expect(kinds().filter((kind) => kind === "not_found")).toHaveLength(15);
    expect(enabled).toEqual([["nvidia-smi", true, 0]]);
    await clock.pass(140);
    expect(enabled.slice(1)).toEqual([["nvidia-smi", false, 1020]]);
    expect(loops.readiness().late).toEqual([]);
    loops.stop();
  });

  test.each([
    ["its tool is missing behind another program", run("not_found", { detail: "nsenter: failed to execute lsof" })],
    ["its tool says that it never can", run("disabled", { detail: "not supported in rootless mode" })],
  ])("as only a run shows (%s): is disabled, said once, and tried now and then until it works", async (_, result) => {
    const probe = new FakeProbe("custom", clock, { interval: 60 });
    probe.result = () => result;
    const loops = schedule([probe]);
    loops.start();
    await clock.pass(1_000);
    expect(probe.starts).toEqual([0, 300, 600, 900]);
    expect(settled).toEqual([]);
    expect(enabled).toEqual([
      ["custom", true, 0],
      ["custom", false, 0],
    ]);
    expect(log.said).toEqual([
      {
        level: "info",
        fields: { probe: "custom", why: result.detail },
        text: "the probe is disabled: it cannot run on this node",
      },
    ]);
    expect(loops.readiness()).toEqual({ ready: true, late: [] });
    probe.result = () => ok();
    await clock.pass(300);
    expect(enabled.slice(2)).toEqual([["custom", true, 1200]]);
    expect(kinds()).toEqual(["ok", "ok"]);
    loops.stop();
  });

  test("was ok, and its tool went away behind another program: it fails for 15 minutes, and is tried from then on", async () => {
    const probe = new FakeProbe("custom", clock, { interval: 60 });
    const loops = schedule([probe]);
    loops.start();
    await clock.pass(30);
    probe.result = () => run("not_found");
    await clock.pass(2_000);
    expect(kinds().filter((kind) => kind === "not_found")).toHaveLength(16);
    expect(enabled.slice(1)).toEqual([["custom", false, 1020]]);
    expect(probe.starts.filter((at) => at >= 1020)).toEqual([1020, 1320, 1620, 1920]);
    // On trial, what is no proof that it cannot work is a failure as any other.
    probe.result = () => run("timeout");
    await clock.pass(300);
    expect(enabled.slice(2)).toEqual([["custom", true, 2220]]);
    expect(kinds().at(-1)).toBe("timeout");
    loops.stop();
  });

  test("is not disabled after other failures, nor after a moment without its tool", async () => {
    const probe = new FakeProbe("custom", clock, { interval: 60 });
    probe.result = () => run("exit_nonzero");
    const flickers = new FakeProbe("flickers", clock, { interval: 60 });
    flickers.result = () => (flickers.starts.length % 10 === 1 ? ok() : run("not_found"));
    const loops = schedule([probe, flickers]);
    loops.start();
    await clock.pass(30);
    flickers.reason = "just now it is not there";
    await clock.pass(5_000);
    expect(enabled).toEqual([
      ["custom", true, 0],
      ["flickers", true, 0],
    ]);
    loops.stop();
  });
});

describe("health and readiness", () => {
  test("ready once each enabled probe has settled; those that have not, or hang, are named", async () => {
    const quick = new FakeProbe("ps", clock);
    const slow = new FakeProbe("iftop", clock, { timeout: 20 });
    slow.take = 15;
    const off = new FakeProbe("nvidia-smi", clock);
    off.reason = "no device";
    const loops = schedule([quick, slow, off]);
    expect(loops.readiness().ready).toBe(false);
    expect(loops.health().healthy).toBe(false);
    loops.start();
    await clock.pass(1);
    expect(loops.readiness()).toEqual({ ready: false, late: [{ probe: "iftop", result: "pending" }] });
    await clock.pass(15);
    expect(loops.readiness()).toEqual({ ready: true, late: [] });
    slow.take = undefined;
    await clock.pass(40);
    expect(loops.readiness()).toEqual({ ready: true, late: [{ probe: "iftop", result: "timeout" }] });
    await clock.pass(30);
    expect(loops.readiness()).toEqual({ ready: true, late: [{ probe: "iftop", result: "skipped_in_flight" }] });
    expect(loops.health()).toEqual({ healthy: true, stalled: [] });
    loops.stop();
    expect(loops.health().healthy).toBe(false);
  });

  test("a loop that does not go on is no health, whatever probes do", async () => {
    const probe = new FakeProbe("ps", clock, { interval: 30, timeout: 20 });
    probe.take = undefined;
    const loops = schedule([probe]);
    loops.start();
    await clock.pass(21);
    expect(loops.health().healthy).toBe(true);
    clock.standStill(11.5);
    expect(loops.health()).toEqual({ healthy: false, stalled: ["ps"] });
    await clock.pass(1);
    expect(loops.health().healthy).toBe(true);
    loops.stop();
  });
});

test("once: every probe that can run does so once, at the same time", async () => {
  const probes = ["a", "b", "c"].map((name) => new FakeProbe(name, clock));
  for (const probe of probes) probe.take = 5;
  probes[1]!.reason = "not here";
  const loops = schedule(probes);
  const done = loops.once();
  await clock.pass(200);
  await done;
  expect(probes.map(({ starts }) => starts)).toEqual([[0], [], [0]]);
  expect(settled.map(({ probe, at }) => [probe, at])).toEqual([
    ["a", 5],
    ["c", 5],
  ]);
  expect(enabled).toContainEqual(["b", false, 0]);
});

test("the real clock goes on, and its sleep ends when the signal is raised", async () => {
  const before = steadyClock.now();
  await steadyClock.sleep(0.02, new AbortController().signal);
  expect(steadyClock.now() - before).toBeGreaterThanOrEqual(0.018);
  const stop = new AbortController();
  const long = steadyClock.sleep(1e9, stop.signal);
  stop.abort();
  await long;
  await steadyClock.sleep(-1, new AbortController().signal);
});
