import { describe, expect, test } from "vitest";
import { service } from "../../simulator/index.ts";
import type { Cluster, Job, Series } from "../../simulator/index.ts";
import { dropped, metric, withoutZeroRows } from "../../simulator/situations/held.ts";
import {
  at,
  bare,
  BOTH_MONTHS,
  cluster,
  countedIn,
  ended,
  FEBRUARY,
  figures,
  GRID,
  HOUR,
  job,
  ledgerDays,
  leftOutOf,
  message,
  NOW,
  outcomes,
  tenant,
  unitIn,
  World,
} from "./world.ts";

/** Two jobs in January, three in February. */
const JOBS = [
  ended("2025-01-08T12:00"),
  ended("2025-01-09T12:00"),
  ended("2025-02-03T12:00"),
  ended("2025-02-10T12:00"),
  ended("2025-02-11T12:00"),
];
/** What Prometheus holds of a cluster, changed. */
function holding(jobs: readonly Job[], change: (series: readonly Series[]) => Series[], more: Partial<Cluster> = {}) {
  return new World(cluster(jobs, more)).holding(change);
}

const terminal = ({ name, labels }: Series): boolean =>
  name === "kube_pod_status_phase" && ["Succeeded", "Failed"].includes(labels["phase"] ?? "");
const requests = metric("kube_pod_container_resource_requests");

const METRICS = [
  ["ends", metric("kube_pod_completion_time"), "metric_missing", "kube_pod_completion_time"],
  ["starts", metric("kube_pod_start_time"), "metric_missing", "kube_pod_start_time"],
  ["phases", metric("kube_pod_status_phase"), "phase_missing", "kube_pod_status_phase"],
  ["phases of finished pods", terminal, "phase_missing", "kube_pod_status_phase"],
  ["requests", requests, "metric_missing", "kube_pod_container_resource_requests"],
] as const;

describe("Facts vouch for each other: a metric that has no series at all, while pods were seen, is missing", () => {
  test.each(METRICS)("%s, wholly", async (_what, which, code, name) => {
    const world = holding(JOBS, (series) => dropped(series, which));
    const result = await world.run(NOW, [GRID], BOTH_MONTHS);
    expect(outcomes(result)).toEqual({ "2025-01": code, "2025-02": code });
    expect(unitIn(result, "2025-01").error).toMatchObject({ exit: 3, retryable: false });
    expect(message(unitIn(result, "2025-01"))).toContain(
      `${name}${/phase/.test(name) ? " of Succeeded, of Failed or of both" : /request/.test(name) ? '{resource="cpu"}' : ""} ` +
        "has no series in any namespace on 2025-01-08 to 2025-01-09 (2 days)",
    );
    expect(message(unitIn(result, "2025-01"))).toMatch(
      /Nothing of 2025-01 was published.*--metric-allowlist.*--allow-incomplete/,
    );
    expect(world.table.rows).toEqual([]);
    // The day counts as unseen: it is never stored. Days without jobs are.
    expect(await ledgerDays(world, "2025-01")).toHaveLength(29);
    expect(await ledgerDays(world, "2025-01")).not.toContain("2025-01-08");
  });

  test.each(METRICS)(
    "%s, from a day on: other months go on, and the days before are counted",
    async (_what, which, code) => {
      const world = holding(JOBS, (series) => dropped(series, which, { from: at("2025-02-10") }));
      const result = await world.run(NOW, [GRID], BOTH_MONTHS);
      expect(outcomes(result)).toEqual({ "2025-01": "published", "2025-02": code });
      expect(message(unitIn(result, "2025-02"))).toContain("on 2025-02-10 to 2025-02-11 (2 days)");
      expect(world.shown("2025-01").jobs).toBe(2);
      const allowed = await world.run(NOW, [GRID], { ...BOTH_MONTHS, allowIncomplete: true });
      expect(outcomes(allowed)["2025-02"]).toBe("published");
      expect(world.shown("2025-02")).toMatchObject({ jobs: 1, syncJobs: 1 });
      expect(countedIn(allowed, "2025-02").warnings).toContainEqual(
        "grid: published without pods of which a fact is missing, on 2025-02-10 to 2025-02-11 (2 days).",
      );
      // Allowing it once does not make it right.
      expect(outcomes(await world.run(NOW, [GRID], BOTH_MONTHS))["2025-02"]).toBe(code);
    },
  );

  test.each(METRICS)(
    "%s, from the afternoon on: the day beside a missing one is judged as that",
    async (_what, which, code) => {
      const day = ["T10:00", "T11:00", "T20:00", "T21:00", "T22:00"].map((time) => ended(`2025-02-10${time}`));
      const world = holding([...JOBS, ...day], (series) => dropped(series, which, { from: at("2025-02-10T15:00") }));
      const result = await world.run(NOW, [GRID], BOTH_MONTHS);
      expect(outcomes(result)).toEqual({ "2025-01": "published", "2025-02": code });
      expect(message(unitIn(result, "2025-02"))).toContain("on 2025-02-10 to 2025-02-11 (2 days)");
      expect(await ledgerDays(world, "2025-02")).not.toContain("2025-02-10");
    },
  );

  test("in daily runs the next one is refused; what was published before stays", async () => {
    const world = holding(JOBS, (series) => dropped(series, METRICS[0][1], { from: at("2025-02-10T11:30") }));
    const became: [string | undefined, number][] = [];
    for (const day of ["2025-02-10", "2025-02-11", "2025-02-12"]) {
      const result = await world.run(`${day}T06:30`, [GRID]);
      became.push([outcomes(result)["2025-02"], world.shown("2025-02").jobs]);
    }
    expect(became).toEqual([
      ["published", 1],
      ["metric_missing", 1],
      ["metric_missing", 1],
    ]);
  });

  test("no zero rows of phases, and only those of running pods: phase_missing", async () => {
    const world = holding(JOBS, (series) => withoutZeroRows(dropped(series, terminal)));
    expect(outcomes(await world.run(NOW, [GRID], BOTH_MONTHS))).toEqual({
      "2025-01": "phase_missing",
      "2025-02": "phase_missing",
    });
  });

  test.each([
    ["Failed", "Succeeded"],
    ["Succeeded", "Failed"],
  ] as const)(
    "rows of %s only are dropped: pods that end so lack them, those that end as %s count",
    async (gone, kept) => {
      const jobs = [ended("2025-02-03T12:00", { outcome: kept }), ended("2025-02-10T12:00", { outcome: gone })];
      const rows = ({ name, labels }: Series) => name === "kube_pod_status_phase" && labels["phase"] === gone;
      const world = holding(jobs, (series) => dropped(series, rows));
      const result = await world.run(NOW, [GRID], { ...FEBRUARY, allowIncomplete: true });
      expect(world.shown("2025-02").jobs).toBe(1);
      expect(countedIn(result, "2025-02").warnings).toContainEqual(
        "grid: published without pods of which a fact is missing, on 2025-02-10.",
      );
      const refused = await world.run(NOW, [GRID], FEBRUARY);
      expect(outcomes(refused)).toEqual({ "2025-02": "phase_missing" });
      expect(message(unitIn(refused, "2025-02"))).toContain("has no series in any namespace on 2025-02-10, though");
    },
  );

  test("several metrics: all of them are named", async () => {
    const world = holding(JOBS, (series) =>
      dropped(dropped(series, metric("kube_pod_start_time"), { to: at("2025-01-09") }), requests, {
        from: at("2025-01-09"),
      }),
    );
    const text = message(unitIn(await world.run(NOW, [GRID], { gap: "2025-01" }), "2025-01"));
    expect(text).toMatch(
      /kube_pod_start_time has no series.* on 2025-01-08, .*kube_pod_container_resource_requests.* on 2025-01-09,/,
    );
  });
});

describe("If the metric is there, the pods are left out by reason: clusters without requests are ordinary", () => {
  test("jobs of one day without requests, while pods of kube-system have them", async () => {
    const world = holding([...JOBS, bare("2025-02-12T12:00"), bare("2025-02-13T12:00")], (series) => [...series]);
    const result = await world.run(NOW, [GRID], BOTH_MONTHS);
    expect(outcomes(result)).toEqual({ "2025-01": "published", "2025-02": "published" });
    expect(leftOutOf(result, "2025-02")).toEqual({
      "2025-02-12": { no_cpu_request: 1 },
      "2025-02-13": { no_cpu_request: 1 },
    });
    expect(await ledgerDays(world, "2025-02")).toContain("2025-02-12");
  });

  test("starts, ends and phases that only pods of another namespace have", async () => {
    const others = JOBS.map((one) => ended(one.containers[0]!.runs[0]!.to!, { in: "second" }));
    const odd = job(at("2025-02-10T12:00"), at("2025-02-10T13:00"), { starts: [] });
    const world = holding([...JOBS.slice(0, 4), odd, ...others], (series) =>
      dropped(series, ({ name, labels }) => name === "kube_pod_start_time" && labels["namespace"] === "grid", {
        from: at("2025-02-10"),
        to: at("2025-02-11"),
      }),
    );
    const result = await world.run(NOW, [GRID], FEBRUARY);
    expect(outcomes(result)).toEqual({ "2025-02": "published" });
    expect(leftOutOf(result, "2025-02")).toEqual({ "2025-02-10": { no_start: 2 } });
  });

  test("evicted pods and those that failed in an init container have no end, and that is no fault of the monitoring", async () => {
    const noon = at("2025-02-10T12:00");
    const evicted = Array.from({ length: 5 }, () => job(noon - HOUR, null, { evicted: noon, deleted: noon + HOUR }));
    const world = holding([ended("2025-02-03T12:00"), ...evicted], (series) => [...series]);
    const result = await world.run(NOW, [GRID], FEBRUARY);
    expect(outcomes(result)).toEqual({ "2025-02": "published" });
    expect(leftOutOf(result, "2025-02")).toEqual({ "2025-02-10": { no_end: 5 } });
  });

  test("requests only while DEFAULT_CORES is unset", async () => {
    const world = holding(JOBS, (series) => dropped(series, requests));
    const result = await world.run(NOW, [tenant("grid", { defaultMilliCores: 2000 })], FEBRUARY);
    expect(outcomes(result)).toEqual({ "2025-02": "published" });
    expect(figures(countedIn(result, "2025-02"))).toMatchObject({ jobs: 3, milliCoreSeconds: 3 * 2000 * HOUR });
  });
});

describe("For requests a pod of kube-system must have been seen; without one none from that day to the end, 7 days at least", () => {
  const confined = { services: [] };
  const since = (from: string) => (series: readonly Series[]) => dropped(series, requests, { from: at(from) });
  const UNPROVEN = /^grid: no pod of any visible namespace has a CPU request on 2025-02-10 to 2025-02-11 \(2 days\)\./;

  test("until then they are published with a warning and not stored, after that refused", async () => {
    const world = holding(JOBS, since("2025-02-10"), confined);
    for (const [now, became] of [
      ["2025-02-13T12:00", "published"],
      ["2025-02-15T23:00", "unchanged"],
    ] as const) {
      const result = await world.run(now, [GRID]);
      expect(outcomes(result)["2025-02"]).toBe(became);
      expect(countedIn(result, "2025-02").warnings).toContainEqual(expect.stringMatching(UNPROVEN));
      expect(leftOutOf(result, "2025-02")).toEqual({
        "2025-02-10": { no_cpu_request: 1 },
        "2025-02-11": { no_cpu_request: 1 },
      });
      const stored = await ledgerDays(world, "2025-02");
      expect(["2025-02-09", "2025-02-10", "2025-02-11", "2025-02-12"].filter((day) => stored.includes(day))).toEqual([
        "2025-02-09",
        "2025-02-12",
      ]);
    }
    const later = await world.run("2025-02-16T00:30", [GRID]);
    expect(outcomes(later)["2025-02"]).toBe("metric_missing");
    expect(message(unitIn(later, "2025-02"))).toContain("kube_pod_container_resource_requests");
  });

  test("a pod of any visible namespace that requests CPU later: they are there, and the days are stored", async () => {
    const change = (series: readonly Series[]) =>
      dropped(series, requests, { from: at("2025-02-10"), to: at("2025-02-12") });
    const world = holding(JOBS, change, confined);
    const result = await world.run("2025-02-13T12:00", [GRID]);
    expect(outcomes(result)["2025-02"]).toBe("published");
    expect(countedIn(result, "2025-02").warnings).toEqual([]);
    expect(await ledgerDays(world, "2025-02")).toContain("2025-02-10");
  });

  test("of a month that is long past, what is asked ends with the month", async () => {
    const last = [ended("2025-01-08T12:00"), ended("2025-01-29T12:00")];
    const world = holding(last, since("2025-01-29"), confined);
    expect(outcomes(await world.run(NOW, [GRID], { gap: "2025-01" }))).toEqual({ "2025-01": "published" });
    expect(await ledgerDays(world, "2025-01")).not.toContain("2025-01-29");
    const both = await world.run(NOW, [GRID], BOTH_MONTHS);
    expect(outcomes(both)["2025-01"]).toBe("metric_missing");
  });

  test("of a month that is long past, 7 days to its end are needed", async () => {
    const outcomeOf = async (day: string) => {
      const world = holding([ended("2025-01-08T12:00"), ended(`${day}T12:00`)], since(day), confined);
      const result = await world.run(NOW, [GRID], { gap: "2025-01" });
      const stored = await ledgerDays(world, "2025-01");
      return [outcomes(result)["2025-01"], stored.includes(day), countedIn(result, "2025-01").warnings.length];
    };
    expect(await outcomeOf("2025-01-25")).toEqual(["metric_missing", false, 0]);
    expect(await outcomeOf("2025-01-26")).toEqual(["published", false, 1]);
  });

  test("a pod of kube-system proves it at once", async () => {
    const system = service("kube-system", "dns", { start: at("2025-01-01") });
    const world = holding(JOBS, since("2025-02-10"), { services: [system] });
    expect(outcomes(await world.run("2025-02-12T12:00", [GRID]))["2025-02"]).toBe("metric_missing");
  });
});
