import { describe, expect, test } from "vitest";
import { explainCpu, lookForCpu } from "../../../lib/accounting/counting/cadvisor.ts";
import type { Monitoring, Row } from "../../../lib/accounting/model/monitoring.ts";
import type { Tenant } from "../../../lib/accounting/model/tenant.ts";
import { GridmeterError } from "../../../lib/shared/errors.ts";
import { MemoryMonitoring } from "../../support/memory-monitoring.ts";
import { changedMonitoring, stubMonitoring } from "../../support/stub-monitoring.ts";
import { cluster, DAY, ended, HOUR, message, tenant, unitIn, World } from "./world.ts";

const WALL = tenant("grid", { model: "wallclock" });

/** What is found where cAdvisor's answer has these rows. */
async function found(...rows: readonly Row[]) {
  const monitoring = stubMonitoring({ facts: async (_fact, _window, take) => rows.forEach(take) });
  const seen = await lookForCpu(monitoring, { from: 0, to: 3600 });
  return { seen, text: explainCpu(seen).what };
}

const ofPod: Row = { uid: "u", value: 1, part: "/kubepods/podu/c" };
const withoutId: Row = { uid: "", value: 1, part: "" };
const unreadable: Row = { uid: "", value: 1, part: "/docker/b" };

describe("what is wrong with cAdvisor's series", () => {
  test("there are none", async () => {
    const { seen, text } = await found();
    expect(seen).toEqual({ ofPods: 0, withoutId: 0, unreadable: 0 });
    expect(text).toContain("no cAdvisor");
  });

  test("they have no id, also where others have one", async () => {
    const { seen, text } = await found(withoutId, ofPod);
    expect(seen).toEqual({ ofPods: 1, withoutId: 1, unreadable: 0 });
    expect(text).toContain("no label id");
  });

  test("their ids name no pod: one is quoted, whatever their order", async () => {
    const other: Row = { ...unreadable, part: "/docker/a" };
    for (const rows of [
      [unreadable, other, withoutId, ofPod],
      [ofPod, withoutId, other, unreadable],
    ]) {
      const { seen, text } = await found(...rows);
      expect(seen).toEqual({ ofPods: 1, withoutId: 1, unreadable: 2, example: "/docker/a" });
      expect(text).toContain(`unreadable: there is no pod's uid in "/docker/a"`);
    }
  });

  test("they are those of other pods", async () => {
    expect((await found(ofPod)).text).toContain("of other pods only");
  });

  test("a long or odd id is quoted in one short line", async () => {
    const { text } = await found({ uid: "", value: 1, part: `/a"\n\u001b[31mé${"x".repeat(10_000)}` });
    expect(text).toContain(`"/a???[31m?xxx`);
    expect(text).toMatch(/^[ -~]{1,400}$/);
    expect(text).toContain('x..."');
  });
});

describe("the refusal of a month", () => {
  const measured = (end: string) => ended(end, { containers: [{ milliCores: 1000 }] });
  const unmeasured = (end: string, milliCores: number) => ended(end, { containers: [{ milliCores, measured: false }] });

  test("names the day that lacks most, also when its days come from the ledger", async () => {
    const jobs = [
      measured("2025-02-03T12:00"),
      unmeasured("2025-02-04T12:00", 500),
      unmeasured("2025-02-05T12:00", 4000),
      measured("2025-02-05T13:00"),
    ];
    const world = new World(cluster(jobs));
    for (const now of ["2025-02-20", "2025-02-21"]) {
      const refused = unitIn(await world.run(now, [WALL]), "2025-02");
      expect(refused.error).toMatchObject({ code: "cpu_data_refused" });
      expect(message(refused)).toContain(
        'on 2025-02-05, in namespace "grid", container_cpu_usage_seconds_total is there',
      );
    }
  });

  test("says of each tenant what it lacks, and each remedy once", async () => {
    const jobs = ["grid", "second"].map((name) =>
      ended("2025-02-04T12:00", { in: name, containers: [{ milliCores: 1000, measured: false }] }),
    );
    const tenants = [WALL, tenant("second", { model: "wallclock" })];
    const text = message(unitIn(await new World(cluster(jobs)).run("2025-02-20", tenants), "2025-02"));
    expect(text.match(/no cAdvisor/g)).toHaveLength(2);
    expect(text.match(/Let Prometheus scrape/g)).toHaveLength(1);
    expect(text).toMatch(/namespace "grid".*namespace "second"/);
  });

  test("stays a refusal where the cause cannot be asked", async () => {
    const world = new World(cluster([unmeasured("2025-02-04T12:00", 1000)]));
    const monitoring = (one: Tenant): Monitoring => {
      const real = new MemoryMonitoring(world.series, one.selection);
      return changedMonitoring(real, {
        facts: (fact, window, take, only) =>
          // The question of the refusal is the only one about a day and an hour.
          fact === "cpu" && window.to - window.from <= DAY + HOUR
            ? Promise.reject(new GridmeterError("prometheus_auth", "refused"))
            : real.facts(fact, window, take, only),
      });
    };
    const refused = unitIn(await world.run("2025-02-20", [WALL], { monitoring }), "2025-02");
    expect(refused.error).toMatchObject({ code: "cpu_data_refused" });
    expect(message(refused)).toMatch(/why could not be asked.*gridmeter check/);
  });
});
