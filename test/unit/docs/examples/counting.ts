import { type TenantMonthSummary, summarise } from "../../../../lib/accounting/summary.ts";
import type { RunResult } from "../../../../lib/accounting/run.ts";
import type { Job } from "../../../simulator/index.ts";
import { STACK } from "../../../simulator/index.ts";
import {
  at,
  cluster,
  DAY,
  figures,
  countedIn,
  HOUR,
  job,
  MINUTE,
  records,
  tenant,
  unitIn,
  World,
  texts,
} from "../../accounting/world.ts";
import { columns, cores, endOfPod, fields, podTable, when } from "./text.ts";
import type { Example } from "./text.ts";

const WHOLE = { gap: ["2025-01", "2025-02"] } as const;
const AFTER = "2025-03-10T09:30:00";

async function run(jobs: readonly Job[], more = tenant("grid")): Promise<RunResult> {
  return new World(cluster(jobs)).run(AFTER, [more], WHOLE);
}

function monthOf(result: RunResult, month: string): TenantMonthSummary {
  const found = summarise(result).months.find((each) => each.month === month)?.tenants[0];
  if (found === undefined) throw new Error(`nothing of ${month}`);
  return found;
}

const oneJob: Example = async () => {
  const start = at("2025-01-10T08:00");
  const pod = job(start, start + 3 * HOUR, { pod: "one", containers: [{ milliCores: 2000 }] });
  const messages = texts(unitIn(await run([pod]), "2025-01"));
  return [podTable([pod]), ...messages.map((text) => text.trim())].join("\n\n");
};

const containers: Example = async () => {
  const start = at("2025-01-10T08:00");
  const time = [start, start + HOUR] as const;
  const plan = {
    containers: [{ name: "main", milliCores: 2000 }, { name: "helper", milliCores: 500 }, { name: "injected" }],
    sidecars: [{ name: "fuse", milliCores: 250 }],
    initContainers: [{ name: "fetch", milliCores: 4000, to: start + 240 }],
  };
  const pod = job(...time, { ...plan, pod: "several" });
  const raised = { milliCores: 1000, resized: { at: start + 30 * MINUTE, milliCores: 2000 } };
  const resized = job(...time, { pod: "resized", containers: [raised] });
  const milliCoresOf = async (one: Job) => figures(countedIn(await run([one]), "2025-01"));
  const [several, later] = [await milliCoresOf(pod), await milliCoresOf(resized)];
  const kinds = [
    ...pod.containers.map((one) => [one, "container"] as const),
    ...pod.sidecars.map((one) => [one, "native sidecar"] as const),
    ...pod.initContainers.map((one) => [one, "init container"] as const),
  ];
  const rows = kinds.map(([one, kind]) => [one.name, kind, one.milliCores === undefined ? "-" : cores(one.milliCores)]);
  const counted = [
    [
      "several",
      cores(several.milliCoreSeconds / several.wallSeconds),
      several.wallSeconds,
      several.milliCoreSeconds / 1000,
    ],
    ["resized", cores(later.milliCoreSeconds / later.wallSeconds), later.wallSeconds, later.milliCoreSeconds / 1000],
  ];
  return [
    columns(["container of several", "what it is", "CPU request"], rows),
    columns(
      ["container of resized", "what it is", "CPU request"],
      [["main", "container", "1, then 2 for the second half"]],
    ),
    columns(["pod", "cores", "seconds", "core-seconds"], counted),
  ].join("\n\n");
};

const rounding: Example = async () => {
  const start = at("2025-01-10T08:00");
  const pods = ["a", "b", "c"].map((pod) => job(start, start + 1001, { pod, containers: [{ milliCores: 333 }] }));
  const each = pods.map(() => Math.round((1001 * 333) / 1000));
  const message = texts(unitIn(await run(pods), "2025-01"))[0] ?? "";
  return [
    podTable(pods),
    fields(message, /^(WallDuration|NumberOfJobs)/),
    `rounded one by one it would be ${each.join(" + ")} = ${each.reduce((sum, one) => sum + one, 0)}`,
  ].join("\n\n");
};

const KAPEL_MONTHS = [
  ["2025-01", at("2025-01"), at("2025-02")],
  ["2025-02", at("2025-02"), at("2025-03")],
] as const;

const firstScrape = (end: number): number => Math.ceil((end - STACK.offset) / 60) * 60 + STACK.offset;

/** The months in which KAPEL counts a pod: one of its ends is scraped within the month, and does not lie before it. */
function kapelMonths(ends: readonly number[]): readonly string[] {
  const counts = (end: number, from: number, to: number): boolean => end >= from && firstScrape(end) <= to;
  return KAPEL_MONTHS.filter(([, from, to]) => ends.some((end) => counts(end, from, to))).map(([month]) => month);
}

const border: Example = async () => {
  const edge = at("2025-02");
  const pods = [
    job(edge - 5 * HOUR, edge - HOUR, { pod: "before" }),
    job(edge - 3 * HOUR, edge - 2, { pod: "last-seconds" }),
    job(edge - 2 * HOUR, edge, { pod: "midnight" }),
    job(edge - 20 * HOUR, edge + 40 * MINUTE, { pod: "crosses" }),
    job(edge - 14 * HOUR, edge - 12 * HOUR, { pod: "lingers", lingers: 2 * DAY }),
  ];
  const rows = await Promise.all(
    pods.map(async (pod) => {
      const result = await run([pod]);
      const own = ["2025-01", "2025-02"].filter((month) => monthOf(result, month).jobs === 1);
      const end = endOfPod(pod) ?? 0;
      const kapel = kapelMonths([end]);
      return [pod.pod, when(end), when(firstScrape(end)), own.join(", "), kapel.join(", ") || "none"];
    }),
  );
  return columns(["pod", "end", "first scraped", "counted in", "by KAPEL in"], rows);
};

const names: Example = async () => {
  const start = at("2025-01-10T08:00");
  const pods = [
    job(start, start + HOUR, { pod: "worker-0", lingers: 120 }),
    job(start + 2 * HOUR, start + 4 * HOUR, { pod: "worker-0" }),
  ];
  const { jobs, coreHours } = monthOf(await run(pods), "2025-01");
  return `${podTable(pods)}\n\njobs ${jobs}, core hours ${coreHours}`;
};

const finished: Example = async () => {
  const edge = at("2025-02");
  const early = edge - 26 * HOUR;
  const pod = job(edge - 30 * HOUR, edge + 30 * HOUR, {
    pod: "early",
    containers: [
      { name: "main", milliCores: 1000 },
      { name: "fetch", to: early },
    ],
  });
  const result = await run([pod]);
  const kapel = kapelMonths([early, endOfPod(pod) ?? 0]);
  const start = pod.starts[0]?.value ?? 0;
  const rows = ["2025-01", "2025-02"].map((month) => {
    const { jobs, coreHours } = monthOf(result, month);
    const end = month === "2025-01" ? early : (endOfPod(pod) ?? 0);
    const seen = kapel.includes(month);
    return [month, jobs, coreHours, seen ? 1 : 0, seen ? (end - start) / 3600 : 0];
  });
  const ends = columns(
    ["container", "end"],
    pod.containers.map((one) => [one.name, when(one.runs.at(-1)?.to)]),
  );
  return `${podTable([pod])}\n\n${ends}\n\n${columns(["month", "jobs", "core hours", "KAPEL: jobs", "KAPEL: core hours"], rows)}`;
};

const leftOut: Example = async () => {
  const start = at("2025-01-10T08:00");
  const end = start + HOUR;
  const pods = [
    job(start, end, { pod: "good" }),
    job(start, end, { pod: "failed", outcome: "Failed" }),
    job(start, end, { pod: "no-request", containers: [{}] }),
    job(start, end, { pod: "negative", starts: [{ value: end + 90, from: start }] }),
    job(start, end, { pod: "no-start", starts: [] }),
    job(start, null, { pod: "running", containers: [{ milliCores: 1000 }, { name: "fetch", to: start + 600 }] }),
    job(start, null, { pod: "evicted", evicted: end, deleted: end + HOUR }),
  ];
  const results = [await run(pods), await run(pods, tenant("grid", { defaultMilliCores: 1000 }))];
  const rows = results.map((result, index) => {
    const { jobs, coreHours, leftOut: out } = monthOf(result, "2025-01");
    const reasons = Object.entries(out).filter(([, count]) => count > 0);
    const told = reasons.map(([reason, count]) => `${reason} ${count}`);
    return [index === 0 ? "not set" : "1", jobs, coreHours, told.join(", ")];
  });
  const [sync] = records(unitIn(results[0]!, "2025-01")).filter((one) => one.kind === "sync");
  // KAPEL counts every pod of which a container has ended, with or without a start, a request, or a phase.
  const kapel = pods.filter(
    (pod) => pod.evicted === undefined && pod.containers.some((one) => one.runs.at(-1)?.to !== undefined),
  );
  return [
    podTable(pods),
    columns(["DEFAULT_CORES", "jobs", "core hours", "left out"], rows),
    `NumberOfJobs of the sync record: ${sync?.numberOfJobs}; KAPEL's, in summary and sync record: ${kapel.length}`,
  ].join("\n\n");
};

export const COUNTING: Readonly<Record<string, Example>> = {
  "one-job": oneJob,
  containers,
  rounding,
  border,
  names,
  finished,
  "left-out": leftOut,
};
