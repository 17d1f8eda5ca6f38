import { submitManual, unpin } from "../../../../lib/accounting/publishing/manual.ts";
import type { Tenant } from "../../../../lib/accounting/model/tenant.ts";
import type { RunResult } from "../../../../lib/accounting/run.ts";
import {
  at,
  became,
  cluster,
  ended,
  HOST,
  message,
  records,
  SITE,
  tenant,
  unitIn,
  World,
} from "../../accounting/world.ts";
import { columns } from "./text.ts";
import type { Example } from "./text.ts";

const MONTH = "2025-01";
const JANUARY = { gap: MONTH } as const;

/** The rows of a published unit, and its sync record. */
function rows(result: RunResult): string {
  const held = records(unitIn(result, MONTH));
  const summaries = held.filter((one) => one.kind === "summary");
  const sync = held.filter((one) => one.kind === "sync").map((one) => one.numberOfJobs);
  return `${columns(
    ["VO", "ServiceLevel", "NumberOfJobs", "WallDuration"],
    summaries.map((row) => [row.vo, row.serviceLevel.value, row.numberOfJobs, row.wallDuration]),
  )}\nsync record: ${sync.join()}`;
}

const unit: Example = async () => {
  const pods = [
    ended("2025-01-10T12:00", { in: "grid" }),
    ended("2025-01-11T12:00", { in: "grid" }),
    ended("2025-01-12T12:00", { in: "second" }),
    ended("2025-01-13T12:00", { in: "third" }),
  ];
  const tenants: readonly Tenant[] = [
    tenant("grid", { vo: "atlas" }),
    tenant("second", { vo: "atlas" }),
    tenant("third", { vo: "ops" }),
  ];
  const world = new World(cluster(pods, { emptyNamespaces: ["grid", "second", "third"] }));
  const counted = columns(
    ["tenant", "VO", "jobs that ended in 2025-01"],
    tenants.map((one) => [one.name, one.vo, pods.filter((pod) => pod.namespace === one.name).length]),
  );
  return `${counted}\n\npublished for ${SITE} ${HOST} ${MONTH}:\n${rows(await world.run("2025-02-10", tenants, JANUARY))}`;
};

const guard: Example = async () => {
  const pods = ["2025-01-10T12:00", "2025-01-11T12:00"].map((end) => ended(end));
  const world = new World(cluster([...pods, ended("2025-01-12T12:00", { containers: [{}] })]));
  const lines: string[][] = [];
  const account = async (
    day: string,
    cores: string,
    more: Partial<Tenant>,
    allowDecrease = false,
  ): Promise<RunResult> => {
    const result = await world.run(day, [tenant("grid", more)], { ...JANUARY, allowDecrease });
    const run = allowDecrease ? `${day} --allow-decrease` : day;
    lines.push([run, cores, became(unitIn(result, MONTH)), `${world.shown(MONTH).jobs} jobs`]);
    return result;
  };
  await account("2025-02-10", "1", { defaultMilliCores: 1000 });
  const refused = await account("2025-02-11", "not set", {});
  await account("2025-02-12", "not set", {}, true);
  const table = columns(["run", "DEFAULT_CORES", "2025-01 becomes", "2025-01 at APEL"], lines);
  return `${table}\n\n${message(unitIn(refused, MONTH))}`;
};

const tombstone: Example = async () => {
  const world = new World(cluster(["2025-01-10T12:00", "2025-01-11T12:00"].map((end) => ended(end))));
  const first = await world.run("2025-02-10", [tenant("grid")], JANUARY);
  const raised = tenant("grid", { serviceLevel: { type: "si2k", value: 2750 } });
  const second = await world.run("2025-02-11", [raised], JANUARY);
  const { jobs } = world.shown(MONTH);
  return `BENCHMARK_VALUE=10, generation ${unitIn(first, MONTH).generation}:\n${rows(first)}\n\nBENCHMARK_VALUE=11, generation ${unitIn(second, MONTH).generation}:\n${rows(second)}\n\nshown by APEL afterwards: ${jobs} jobs`;
};

const MANUAL = `APEL-summary-job-message: v0.2
Site: ${SITE}
Month: 1
Year: 2025
VO: ops
SubmitHost: ${HOST}
InfrastructureType: grid
ServiceLevelType: si2k
ServiceLevel: 2500
WallDuration: 18000
CpuDuration: 18000
NumberOfJobs: 5
Processors: 0
NodeCount: 0
EarliestEndTime: ${at("2025-01-10T12:00")}
LatestEndTime: ${at("2025-01-11T12:00")}
%%
`;

const manual: Example = async () => {
  const world = new World(cluster(["2025-01-10T12:00", "2025-01-11T12:00"].map((end) => ended(end))));
  const stores = { store: world.store, outbox: world.store };
  const files = [{ name: "january.apel", text: MANUAL }];
  const lines: (string | number)[][] = [];
  const note = async (what: string, came: string): Promise<void> => {
    await world.deliver("2025-02-20");
    lines.push([what, came, world.shown(MONTH).jobs]);
  };
  const account = async (): Promise<string> =>
    became(unitIn(await world.runOnly("2025-02-10", [tenant("grid")], JANUARY), MONTH));
  const send = async (): Promise<string> => {
    const report = await submitManual(stores, files, { now: at("2025-02-10") });
    return `${report.files[0]?.sent.length} sent, ${report.files[0]?.alreadySent.length} sent before`;
  };
  await note("account", await account());
  await note("manual january.apel", await send());
  await note("manual january.apel", await send());
  await note("account", await account());
  const lifted = await unpin(world.store, { files }, { now: at("2025-02-11") });
  await note("manual --unpin january.apel", `${lifted.units[0]?.lifted.length} no longer pinned`);
  await note("account", await account());
  return columns(["command", "what comes of it", "jobs of 2025-01 at APEL"], lines);
};

export const PUBLISHING: Readonly<Record<string, Example>> = { unit, guard, tombstone, manual };
