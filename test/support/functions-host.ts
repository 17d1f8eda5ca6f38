import { join } from "node:path";
import type { SQSRecord } from "aws-lambda";
import { expect } from "vitest";
import type { WorkItem } from "../../functions/common/work-item.ts";
import { readState } from "../../lib/accounting/publishing/state.ts";
import { DirqQueue } from "../../lib/accounting/delivery/dirq.ts";
import { spoolOnce } from "../../lib/accounting/delivery/spooler.ts";
import type { ObjectStore } from "../../lib/accounting/store/store.ts";
import { accountBatch } from "../../functions/account.ts";
import { lambdaParts, neededStore } from "../../functions/common/runtime.ts";
import { ApelTable } from "./apel-table.ts";
import { logOf, spoolingViolations } from "./dirq-invariants.ts";
import type { Sent } from "./dirq-invariants.ts";
import { dyingParts } from "./dying-parts.ts";
import type { Death } from "./dying-parts.ts";
import { UNIT, newest } from "./functions-world.ts";
import type { DirqReader } from "./outbox-contract-reader.ts";

export const MONTH = "2025-03";
/** Six days are enough to be killed in. */
export const FEW_DAYS = { ACCOUNTING_SINCE: "2025-03-26" };
export const AN_HOUR = (): number => 3_600_000;

export const item = (more: Partial<WorkItem> = {}): WorkItem => ({
  v: 1,
  ...UNIT,
  month: MONTH,
  mode: "gap",
  ...more,
});

let made = 0;
/** A message of the work queue as Lambda's event source hands it over. */
export function record(body: string, more: Partial<SQSRecord["attributes"]> = {}): SQSRecord {
  const messageId = `message-${(made += 1)}`;
  const attributes = {
    ApproximateReceiveCount: "1",
    SentTimestamp: String(Date.now()),
    SenderId: "x",
    ApproximateFirstReceiveTimestamp: "1",
    MessageGroupId: "group",
    ...more,
  };
  const rest = {
    receiptHandle: "x",
    messageAttributes: {},
    md5OfBody: "",
    eventSource: "aws:sqs",
    eventSourceARN: "",
    awsRegion: "",
  };
  return { messageId, body, attributes, ...rest };
}

/** One invocation with one record, and whether the message was acknowledged. A function that died acknowledges nothing. */
export async function invoke(env: Record<string, string>, one: SQSRecord, death?: Death) {
  const parts = dyingParts(env, death);
  const answer = await accountBatch([one], AN_HOUR, parts).catch(() => undefined);
  const died = death !== undefined && parts.calls() >= death.at;
  parts.destroy();
  return { died, done: !died && answer?.batchItemFailures.length === 0, calls: parts.calls() };
}

/**
 * What the bucket must hold once all is quiet and nothing was spooled: the newest generation is the whole truth, the state
 * says so, nothing is left over. Gives the generation.
 * @param messages sorted
 */
export async function settled(store: ObjectStore, messages: readonly string[]): Promise<number> {
  const held = (await readState(store, { ...UNIT, month: MONTH }, () => undefined))?.state;
  const found = await newest(store, MONTH);
  expect(found.messages.toSorted()).toEqual(messages);
  expect(held?.pending).toBeUndefined();
  expect([held?.published?.generation, held?.generation]).toEqual([found.generation, found.generation]);
  expect([await store.list("scratch/"), await store.list("damaged/")]).toEqual([[], []]);
  return found.generation;
}

/** The ssmsend host of a bucket: the spooler, which finds by sweeping all that functions left, and the real python-dirq. */
export class SsmsendHost {
  readonly #sent: Sent[] = [];
  readonly #root: string;
  readonly #env: Record<string, string>;
  readonly #reader: DirqReader;

  constructor(folder: string, env: Record<string, string>, reader: DirqReader) {
    const { GRIDMETER_BUCKET: bucket, GRIDMETER_PREFIX: prefix = "all" } = env;
    this.#root = join(folder, `${bucket}-${prefix}`);
    this.#env = env;
    this.#reader = reader;
  }

  /** One pass of the spooler; it must meet no fault. */
  async spool(): Promise<void> {
    const parts = lambdaParts(this.#env);
    const silent = (): void => undefined;
    const log = { info: silent, warn: silent, error: silent };
    const now = (): number => Math.floor(Date.now() / 1000);
    const ports = { store: neededStore(parts), queue: new DirqQueue(this.#root), log, now };
    expect(await spoolOnce(ports, new AbortController().signal)).toEqual([]);
    for (const client of [parts.s3, parts.sqs, parts.ssm]) client.destroy();
  }

  /** ssmsend sends what is in its queue. */
  async take(): Promise<void> {
    this.#sent.push(...(await this.#reader.take(this.#root)));
  }

  /**
   * Once all is quiet: spools and takes the rest, and judges. Gives APEL's table after all that ssmsend sent, in its order.
   * @throws if anything was lost, or came older after newer
   */
  async quiet(): Promise<ApelTable> {
    await this.spool();
    await this.take();
    const store = neededStore(lambdaParts(this.#env));
    expect(await store.list("outgoing/")).toEqual([]);
    expect(spoolingViolations(await logOf(store, this.#sent, [MONTH]))).toEqual([]);
    const table = new ApelTable();
    for (const { body } of this.#sent) expect(table.load(body, Date.now() / 1000)).toEqual([]);
    return table;
  }
}
