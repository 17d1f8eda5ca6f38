import { SendMessageBatchCommand } from "@aws-sdk/client-sqs";
import type { SQSClient } from "@aws-sdk/client-sqs";
import { refuseOverlap } from "../accounting/run.ts";
import { unitsOf } from "../accounting/work-item.ts";
import type { WorkItem } from "../accounting/work-item.ts";
import { unitGroup } from "../outbox/doorbell.ts";
import { sqsError } from "../outbox/sqs-error.ts";
import { MemoryStore } from "../store/memory-store.ts";
import { dryRun } from "./lambda-dry-run.ts";
import { needed, storeOf } from "./lambda-parts.ts";
import type { Parts } from "./lambda-parts.ts";
import { parsePlanEvent } from "./lambda-plan-event.ts";
import { lambdaSettings, withQueryLimit } from "./lambda-settings.ts";
import { stopBefore } from "./lambda-time.ts";
import { chosenTenants, runPorts } from "./run-ports.ts";

/** SQS takes so many in one batch. */
const BATCH = 10;

/** What an invocation is. `id` is the same when Lambda tries again. */
export type Invocation = {
  readonly id: string;
  /** epoch seconds */
  readonly now: number;
  /** milliseconds that are left */
  readonly remaining: () => number;
};

/**
 * `plan`: one work item per publishing unit onto the work queue, or with `dryRun` what would come of them.
 * @throws GridmeterError `config_invalid`, `period_invalid`, `usage` (unknown tenant), `tenants_overlap`, `prometheus_*`: nothing was sent; `queue_failed`:
 * some may have been sent, and sending them again is harmless
 */
export async function plan(event: unknown, { id, now, remaining }: Invocation, parts: Parts) {
  const asked = parsePlanEvent(event, now);
  const time = stopBefore(remaining);
  const settings = withQueryLimit(await lambdaSettings(parts), time.querySeconds);
  const all = settings.tenants.map(({ tenant }) => tenant);
  const named = asked.tenants === undefined ? undefined : chosenTenants(settings, asked.tenants);
  const own = all.filter(({ name }) => named?.includes(name) !== false);
  const units = unitsOf(own, asked.request, now);
  if (asked.dryRun) {
    // A unit is published whole, so all its tenants are counted.
    const chosen = all.filter((one) =>
      own.some(({ site, submitHost }) => one.site === site && one.submitHost === submitHost),
    );
    return dryRun(asked, settings, chosen, storeOf(parts) ?? new MemoryStore(), { now, stop: time.stop });
  }
  // A work item is one unit's, so that only here all tenants are seen together.
  await refuseOverlap(all, runPorts(settings, storeOf(parts) ?? new MemoryStore()).monitoring, asked.request, now);
  const items = units.map((unit): WorkItem => ({ v: 1, ...unit, mode: asked.request.mode, ...asked.flags }));
  await sendItems(parts.sqs, needed(parts.env, "WORK_QUEUE_URL"), items, id);
  return { mode: asked.request.mode, now, sent: items };
}

async function sendItems(sqs: SQSClient, QueueUrl: string, items: readonly WorkItem[], id: string): Promise<void> {
  for (let from = 0; from < items.length; from += BATCH) {
    const batch = items.slice(from, from + BATCH);
    const Entries = batch.map((item, index) => ({
      Id: String(index),
      MessageBody: JSON.stringify(item),
      MessageGroupId: unitGroup(item),
      // Lambda's own second try sends nothing twice; somebody who asks again within minutes is heard.
      MessageDeduplicationId: `${id}-${from + index}`,
    }));
    try {
      const { Failed = [] } = await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
      const [first] = Failed;
      if (first !== undefined)
        throw new Error(`${Failed.length} of ${batch.length} messages: ${first.Message ?? first.Code ?? ""}`);
    } catch (thrown) {
      const left = `${from} of ${items.length} work items were sent before; sending all again is harmless.`;
      throw sqsError(thrown, "put work on", "sqs:SendMessage", QueueUrl, left);
    }
  }
}
