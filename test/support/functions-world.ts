import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { PutParameterCommand } from "@aws-sdk/client-ssm";
import { runAccounting } from "../../lib/accounting/run.ts";
import { loadSettings } from "../../lib/accounting/settings/load.ts";
import { errorText } from "../../lib/shared/errors.ts";
import { parseOutgoingKey } from "../../lib/accounting/delivery/outgoing.ts";
import { MemoryStore, type ObjectStore } from "../../lib/accounting/store/store.ts";
import { type Parts, createSsm, lambdaParts, neededStore } from "../../functions/common/runtime.ts";
import { runPorts } from "../../lib/accounting/ports.ts";
import { kindsCluster, MIXED, namespaceOf } from "../simulator/index.ts";
import { ApelTable } from "./apel-table.ts";
import { scratchDirectory } from "./store-script.ts";
import { startMoto } from "./moto.ts";
import type { Moto } from "./moto.ts";

/** Three months of 2025; two tenants that share one publishing unit. */
export const CLUSTER = kindsCluster({
  kinds: ["plain", "several-containers", "millicores", "no-cpu-request", "lingering"],
  scrapeInterval: 120,
});
export const UNIT = { site: "EXAMPLE-SITE", submitHost: "k8s.example.org:6443/mixed" };
export const TENANTS = JSON.stringify({
  tenants: [
    { name: "mixed", NAMESPACE: MIXED },
    { name: "plain", NAMESPACE: namespaceOf("plain") },
  ],
});
const TENANTS_PARAMETER = "/gridmeter/test/tenants";

/** An event of events/, as it stands there. */
export async function eventFile<T>(name: string): Promise<T> {
  return JSON.parse(await readFile(fileURLToPath(new URL(`../../events/${name}.json`, import.meta.url)), "utf8")) as T;
}

/** The settings that say what is counted and how it is published. */
export function accountingEnv(prometheus: string): Record<string, string> {
  return {
    PROMETHEUS_SERVER: prometheus,
    SITE_NAME: UNIT.site,
    SUBMIT_HOST: UNIT.submitHost,
    VO_NAME: "example.vo",
    BENCHMARK_VALUE: "10",
  };
}

/** A bucket and queues of one's own on the shared server, and the environment of the functions there. */
export type Deployed = {
  readonly env: Record<string, string>;
  readonly parts: Parts;
  readonly store: ObjectStore;
  readonly work: string;
  readonly dead: string;
  readonly spool: string;
  readonly bucket: string;
};

/** What a deployment would make. */
export async function deployed(moto: Moto, prometheus: string, more: Record<string, string> = {}): Promise<Deployed> {
  const [work, dead, spool] = [
    await moto.queue({ fifo: true }),
    await moto.queue({ fifo: true }),
    await moto.queue({ fifo: true }),
  ];
  const bucket = await moto.bucket();
  const env = {
    ...moto.env(),
    ...accountingEnv(prometheus),
    GRIDMETER_BUCKET: bucket,
    WORK_QUEUE_URL: work,
    WORK_DEAD_LETTER_QUEUE_URL: dead,
    SPOOL_QUEUE_URL: spool,
    TENANTS_PARAMETER,
    ...more,
  };
  const parts = lambdaParts(env);
  return { env, parts, store: neededStore(parts), work, dead, spool, bucket };
}

/** moto with what the deployments share. */
export async function startDeployable(): Promise<Moto> {
  const moto = await startMoto();
  await putParameter(moto, TENANTS_PARAMETER, TENANTS);
  return moto;
}

export async function putParameter(moto: Moto, Name: string, Value: string): Promise<void> {
  const ssm = createSsm(moto.env());
  await ssm.send(new PutParameterCommand({ Name, Value, Type: "SecureString", Overwrite: true }));
  ssm.destroy();
}

/** What lies in `outgoing/` of a month's newest generation, without its number: kind and content. */
export async function newest(store: ObjectStore, month: string): Promise<{ generation: number; messages: string[] }> {
  const keys = (await store.list("outgoing/"))
    .map((key) => parseOutgoingKey(key)!)
    .filter(({ unit }) => unit.month === month);
  const generation = Math.max(0, ...keys.map((key) => key.generation));
  const own = keys.filter((key) => key.generation === generation);
  return { generation, messages: await Promise.all(own.map(async ({ key }) => (await store.get(key))!.body)) };
}

/** The messages that one uninterrupted run publishes of a month; of one tenant if `more` names its NAMESPACE, else of both. */
export async function reference(
  prometheus: string,
  month: string,
  more: Record<string, string> = {},
): Promise<string[]> {
  const folder = await scratchDirectory();
  await writeFile(`${folder.path}/tenants.json`, TENANTS);
  const several = more["NAMESPACE"] === undefined ? { TENANTS_FILE: "tenants.json" } : {};
  const settings = loadSettings({
    env: { ...accountingEnv(prometheus), ...more, ...several },
    directory: folder.path,
  });
  await folder.remove();
  const start = Date.parse(`${month}-01T00:00:00Z`) / 1000;
  const result = await runAccounting(
    settings.tenants.map(({ tenant }) => tenant),
    runPorts(settings, new MemoryStore()),
    {
      now: Math.floor(Date.now() / 1000),
      request: { mode: "gap", start, end: start + 1 },
      recount: false,
      force: false,
      allowDecrease: false,
      allowIncomplete: false,
    },
  );
  return result.months.flatMap(({ units }) =>
    units.flatMap(({ messages = [], error }) => (error === undefined ? [...messages] : [errorText(error)])),
  );
}

/** APEL's table after all generations were loaded in their order, newest last. */
export async function loaded(store: ObjectStore): Promise<ApelTable> {
  const table = new ApelTable();
  const keys = (await store.list("outgoing/")).map((key) => parseOutgoingKey(key)!);
  for (const { key } of keys.toSorted((a, b) => a.generation - b.generation)) {
    const refused = table.load((await store.get(key))!.body, Date.now() / 1000);
    if (refused.length > 0) throw new Error(`${key}: ${refused[0]!.reason}`);
  }
  return table;
}
