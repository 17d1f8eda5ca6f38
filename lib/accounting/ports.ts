import { GridmeterError } from "../shared/errors.ts";
import { DirqQueue } from "./delivery/dirq.ts";
import { LOCK_WAIT_MS } from "./delivery/lock.ts";
import { PlainDirectoryQueue } from "./delivery/plain-queue.ts";
import type { MessageQueue } from "./delivery/queue.ts";
import type { Tenant } from "./model/tenant.ts";
import { MemoryStore, type ObjectStore, ReadOnlyStore } from "./store/store.ts";
import { type Client, type Connection, createClient } from "./prometheus/client.ts";
import { createMonitoring } from "./prometheus/monitoring.ts";
import type { RunPorts } from "./run.ts";
import {
  type BucketPlace,
  type Destination,
  parseBucketPlace,
  parseDestination,
  parseLedgerPlace,
} from "./settings/formats.ts";
import type { Settings } from "./settings/load.ts";
import type { Environment } from "./store/aws.ts";
import { DirectoryStore } from "./store/directory.ts";
import { checkQueueOwner } from "./store/ownership.ts";
import type { S3Store } from "./store/s3.ts";

/** One client per connection, so that tenants of one Prometheus share its limit of queries at once. */
export function clientOf(settings: Settings): (tenant: Tenant) => Client {
  const clients = new Map<string, Client>();
  return (tenant) => {
    const connection = connectionOf(settings, tenant);
    const key = JSON.stringify(connection);
    const client = clients.get(key) ?? createClient(connection);
    clients.set(key, client);
    return client;
  };
}

function connectionOf(settings: Settings, tenant: Tenant): Connection {
  const found = settings.tenants.find((each) => each.tenant.name === tenant.name);
  if (found !== undefined) return found.connection;
  throw new TypeError(`no tenant ${tenant.name} in the settings`);
}

/** What an accounting run needs, built once from the settings. */
export function runPorts(settings: Settings, store: ObjectStore): RunPorts {
  const client = clientOf(settings);
  const namespaces = namespacesOf(settings);
  return { store, monitoring: (tenant) => createMonitoring(client(tenant), tenant.selection, namespaces) };
}

/** The namespaces of all tenants. */
export function namespacesOf(settings: Settings): readonly string[] {
  return settings.tenants.map(({ tenant }) => tenant.selection.namespace);
}

/** The names given with --tenant, all of which must be configured. */
export function chosenTenants(settings: Settings, names: readonly string[]): readonly string[] {
  const known = settings.tenants.map(({ tenant }) => tenant.name);
  const unknown = names.find((name) => !known.includes(name));
  if (unknown === undefined) return names;
  throw new GridmeterError(
    "usage",
    `There is no tenant "${unknown}"; nothing was published. Configured are: ${known.join(", ")}.`,
  );
}

type Warn = (text: string) => void;

/** Where a run keeps its ledger and state, and its outgoing messages unless they go to a bucket. */
export type OpenLedger = { readonly store: ObjectStore; readonly remembers: boolean };

/** Where messages leave: into ssmsend's queue on this host, or into a bucket, from which `gridmeter spool` takes them. */
export type OpenOutbox =
  | { readonly kind: "local"; readonly place: string; readonly queue: MessageQueue }
  | {
      readonly kind: "s3";
      readonly place: string;
      readonly store: ObjectStore;
      /**
       * Announces these objects to the spooler; does nothing without --queue.
       * @throws GridmeterError `queue_failed`, `store_failed`
       */
      readonly announce: (keys: readonly string[]) => Promise<void>;
    };

const usage = (text: string): GridmeterError => new GridmeterError("usage", `${text}. Nothing was published.`);

/** Warns of each text once: what is odd in a folder is met again and again. */
function once(warn: Warn): Warn {
  const warned = new Set<string>();
  return (text) => {
    if (warned.has(text)) return;
    warned.add(text);
    warn(text);
  };
}

/**
 * Opens `--ledger`. A dry run gets a store that writes nothing. `warn` gets what is odd in a directory.
 * @throws GridmeterError `usage`, `config_invalid`
 */
export async function openLedger(text: string, dryRun: boolean, env: Environment, warn: Warn): Promise<OpenLedger> {
  const parsed = parseLedgerPlace(text);
  if (!parsed.ok) throw usage(`--ledger ${JSON.stringify(text)} ${parsed.problem}`);
  const place = parsed.value;
  if (place.kind === "none") return { store: new MemoryStore(), remembers: false };
  const store =
    place.kind === "s3" ? await openBucket(place, env) : new DirectoryStore(place.path, { warn: once(warn) });
  return { store: dryRun ? new ReadOnlyStore(store) : store, remembers: true };
}

/**
 * Opens `--output` (or OUTPUT_PATH) and `--queue`. A dry run gets a store that writes nothing. `warn` gets what is odd in a
 * queue on this host.
 * @throws GridmeterError `usage`, `config_invalid`; `queue_owner` unless it is a dry run
 */
export async function openOutbox(
  output: string,
  queueUrl: string | undefined,
  dryRun: boolean,
  env: Environment,
  warn: Warn,
): Promise<OpenOutbox> {
  const destination = destinationOf(output);
  const url = queueUrl === undefined ? undefined : checkedQueueUrl(queueUrl);
  if (destination.kind !== "s3") {
    if (url !== undefined)
      throw usage(
        `--queue ${JSON.stringify(url)} goes with --output s3://..., but the output is ${JSON.stringify(output)}`,
      );
    if (!dryRun) checkOutput(output);
    const queue = localQueue(destination, warn);
    return { kind: "local", place: queue.place, queue };
  }
  const store = await openBucket(destination, env);
  return {
    kind: "s3",
    place: output,
    store: dryRun ? new ReadOnlyStore(store) : store,
    announce: async (keys) => {
      if (url === undefined || dryRun) return;
      const [{ createSqs }, { notificationsOf, notify }] = await Promise.all([
        import("./store/aws.ts"),
        import("./delivery/notifications.ts"),
      ]);
      await notify(createSqs(env), url, await notificationsOf(store, keys));
    },
  };
}

/** Refuses an `--output` on this host in which ssmsend could not lock what this user writes. @throws GridmeterError `usage`, `queue_owner` */
export function checkOutput(text: string): void {
  const destination = destinationOf(text);
  if (destination.kind !== "s3") checkQueueOwner(destination.path);
}

/** Where `--source` of `gridmeter send` is: a queue in a directory of this host, or a bucket. @throws GridmeterError `usage` */
export function sourceKind(text: string): { readonly at: "bucket" } | { readonly at: "host"; readonly path: string } {
  const parsed = parseDestination(text);
  if (!parsed.ok) throw usage(`--source ${JSON.stringify(text)} ${parsed.problem}`);
  return parsed.value.kind === "s3" ? { at: "bucket" } : { at: "host", path: parsed.value.path };
}

/** Opens the queue on this host for `--output` of `gridmeter spool` and `--source` of `gridmeter send`. @throws GridmeterError `usage`, `queue_owner` */
export function openQueue(text: string, warn: Warn): MessageQueue {
  const destination = destinationOf(text);
  if (destination.kind === "s3")
    throw usage(`--output ${JSON.stringify(text)} is no queue on this host. Write dirq:DIR or dir:DIR`);
  checkOutput(text);
  return localQueue(destination, warn);
}

/** Opens a bucket that is named by an option. @throws GridmeterError `usage`, `config_invalid` */
export async function openSource(
  option: string,
  text: string,
  env: Environment,
  foreign: (key: string) => void,
): Promise<S3Store> {
  const parsed = parseBucketPlace(text);
  if (!parsed.ok) throw usage(`${option} ${JSON.stringify(text)} ${parsed.problem}`);
  return openBucket(parsed.value, env, foreign);
}

/** The URL of an SQS queue. @throws GridmeterError `usage` */
export function checkedQueueUrl(text: string): string {
  if (/^https?:\/\/[^/\s]+\/\S+$/.test(text)) return text;
  throw usage(
    `--queue ${JSON.stringify(text)} is no queue's URL, such as https://sqs.eu-central-1.amazonaws.com/123456789012/spool.fifo`,
  );
}

function destinationOf(text: string): Destination {
  const parsed = parseDestination(text);
  if (parsed.ok) return parsed.value;
  throw usage(`--output ${JSON.stringify(text)} ${parsed.problem}`);
}

function localQueue(destination: Exclude<Destination, BucketPlace>, warn: Warn): MessageQueue {
  switch (destination.kind) {
    case "dirq":
      return new DirqQueue(destination.path, LOCK_WAIT_MS, once(warn));
    case "directory":
      return new PlainDirectoryQueue(destination.path, LOCK_WAIT_MS, once(warn));
  }
}

async function openBucket(place: BucketPlace, env: Environment, foreign?: (key: string) => void): Promise<S3Store> {
  // Loaded only where it is used: the AWS SDK is most of what a start would cost.
  const [{ createS3, encryptionOf }, { S3Store: Store }] = await Promise.all([
    import("./store/aws.ts"),
    import("./store/s3.ts"),
  ]);
  const { bucket, prefix } = place;
  const encryption = encryptionOf(env);
  return new Store({
    client: createS3(env),
    bucket,
    prefix,
    ...(encryption === undefined ? {} : { encryption }),
    ...(foreign === undefined ? {} : { foreign }),
  });
}
