import type { Unit } from "../accounting/tenant.ts";
import { doorbellsOf, ring } from "../outbox/doorbell.ts";
import { parseOutgoingKey, unitPrefix } from "../outbox/outgoing.ts";
import type { S3Store } from "../store/s3-store.ts";
import { variable } from "./lambda-parts.ts";
import type { Parts } from "./lambda-parts.ts";

/**
 * Tells the spooler of all that lies in `outgoing/` of the units, older generations first. What to ring for is read from the
 * store and not from the run, so that it is made up for if an invocation was ended between publishing and ringing.
 * @throws GridmeterError `store_failed`, `queue_failed`
 */
export async function ringFor(units: readonly Unit[], store: S3Store, { env, sqs }: Parts): Promise<void> {
  const queueUrl = variable(env, "SPOOL_QUEUE_URL");
  // Without a queue the spooler finds all by its sweeps.
  if (queueUrl === undefined) return;
  for (const unit of units) {
    const keys = (await store.list(unitPrefix(unit))).filter((key) => parseOutgoingKey(key) !== undefined);
    await ring(sqs, queueUrl, await doorbellsOf(store, keys));
  }
}
