import type { SQSClient } from "@aws-sdk/client-sqs";
import type { Unit } from "../../lib/accounting/model/tenant.ts";
import { DirqQueue } from "../../lib/accounting/delivery/dirq.ts";
import { SqsNotifications, notificationsOf, notify } from "../../lib/accounting/delivery/notifications.ts";
import type { SpoolPorts } from "../../lib/accounting/delivery/spooler.ts";
import type { S3Store } from "../../lib/accounting/store/s3.ts";
import { NOW, generationMessages, storeGeneration } from "./dirq-messages.ts";

/** Publishes a generation as an accounting run does, and gives its keys; without a queue nobody is told. */
export async function publishGeneration(
  store: S3Store,
  unit: Unit,
  generation: number,
  notifications?: { readonly sqs: SQSClient; readonly url: string },
): Promise<string[]> {
  const keys = await storeGeneration(store, unit, generation, generationMessages(unit, generation));
  if (notifications !== undefined)
    await notify(notifications.sqs, notifications.url, await notificationsOf(store, keys));
  return keys;
}

export type LogLine = { readonly level: string; readonly text: string } & Readonly<Record<string, unknown>>;

/** A spooler's ports over real services, and what it logs. */
export function spoolPorts(
  store: S3Store,
  root: string,
  notifications?: { readonly sqs: SQSClient; readonly url: string; readonly visibility?: number },
): { readonly ports: SpoolPorts; readonly lines: LogLine[] } {
  const lines: LogLine[] = [];
  const tell = (level: string) => (fields: object, text: string) => void lines.push({ ...fields, level, text });
  const log = { info: tell("info"), warn: tell("warn"), error: tell("error") };
  const queue = new DirqQueue(root, 2000);
  const heard =
    notifications === undefined
      ? {}
      : { notifications: new SqsNotifications(notifications.sqs, notifications.url, notifications.visibility ?? 30) };
  return { ports: { store, queue, log, now: () => NOW, ...heard }, lines };
}
