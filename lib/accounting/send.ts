import { GridmeterError } from "../shared/errors.ts";
import type { Finding } from "./check.ts";
import { claimForAms } from "./delivery/ams-or-spool.ts";
import type { MessageQueue } from "./delivery/queue.ts";
import { AmsClient } from "./sending/ams.ts";
import { sendOutgoing } from "./sending/bucket-sender.ts";
import { type HostIdentity, endWarning, readIdentity } from "./sending/host-certificate.ts";
import { sendQueue } from "./sending/queue-sender.ts";
import { type SendReport, Sender } from "./sending/sender.ts";
import type { AmsSettings } from "./settings/ams.ts";
import type { ObjectStore } from "./store/store.ts";

/** Where messages are taken from. */
export type SendSource =
  | { readonly kind: "queue"; readonly queue: MessageQueue }
  | { readonly kind: "bucket"; readonly store: ObjectStore; readonly takeOver: boolean };

/** AMS and who sends to it. */
export type OpenSender = {
  readonly sender: Sender;
  readonly client: AmsClient;
  readonly identity: HostIdentity;
  readonly warnings: readonly string[];
};

type OpenOptions = { readonly dryRun: boolean; readonly now: () => number };

/** Reads certificate and key, and makes what sends with them. @throws GridmeterError `certificate_invalid` */
export function openSender(settings: AmsSettings, { dryRun, now }: OpenOptions): OpenSender {
  const identity = readIdentity(settings.certificate, settings.key, now());
  const client = clientOf(settings, identity);
  const warning = endWarning(identity, now());
  const warnings = warning === undefined ? [] : [warning];
  return { sender: new Sender({ client, identity, dryRun, now }), client, identity, warnings };
}

function clientOf({ place, token, authorities }: AmsSettings, identity: HostIdentity): AmsClient {
  return new AmsClient(place, identity, { authorities, ...(token === undefined ? {} : { token }) });
}

/**
 * Sends all that a source holds. A dry run asks AMS for a token and for the topic, signs, and sends nothing.
 * @throws GridmeterError `ams_...` of a dry run, `delivery_elsewhere`, `store_failed`, `queue_owner` ...
 */
export async function sendFrom(
  source: SendSource,
  { sender, client }: OpenSender,
  progress?: (done: number, total: number) => void,
): Promise<SendReport> {
  const shown = progress === undefined ? {} : { progress };
  try {
    if (sender.dryRun) await client.look();
    if (source.kind === "queue") return await sendQueue(source.queue, sender, shown);
    await claimForAms(source.store, source.takeOver);
    return await sendOutgoing(source.store, sender, { lease: { onHost: true }, ...shown });
  } finally {
    client.close();
  }
}

/** What `gridmeter check` asks of the sending; `error` is what would end it. */
export type SendingChecked = { readonly findings: readonly Finding[]; readonly error?: GridmeterError };

/** Asks whether messages could be sent, and sends none. A question that fails is a finding. @param now epoch seconds */
export async function checkSending(settings: AmsSettings, now: number): Promise<SendingChecked> {
  const pair = "Does the host certificate fit its key, and is it valid?";
  let identity: HostIdentity;
  try {
    identity = readIdentity(settings.certificate, settings.key, now);
  } catch (thrown) {
    return failed([], pair, thrown);
  }
  const { place } = settings;
  const warning = endWarning(identity, now);
  const own: Finding[] = [
    { question: pair, ok: true, answer: "yes" },
    {
      question: "When does the certificate end?",
      ok: warning === undefined,
      answer: new Date(identity.endsAt * 1000).toISOString(),
      ...(warning === undefined ? {} : { remedy: "Renew it: from 24 hours before its end nothing is sent with it." }),
    },
    {
      question: "Which name must GOCDB hold for the site's endpoint of the type gLite-APEL?",
      ok: true,
      answer: identity.name,
    },
  ];
  const client = clientOf(settings, identity);
  try {
    const topic = await client.look();
    own.push({ question: "Does AMS answer?", ok: true, answer: `yes, at ${place.host}` });
    const name = `${place.topic} of ${place.project}`;
    const answer = topic === "there" ? `yes, ${name}` : `it may not be asked for; messages go to ${name}`;
    return { findings: [...own, { question: "Is the topic there?", ok: true, answer }] };
  } catch (thrown) {
    const isTopic = thrown instanceof GridmeterError && thrown.code === "ams_refused";
    return failed(own, isTopic ? "Is the topic there?" : "Does AMS answer?", thrown);
  } finally {
    client.close();
  }
}

function failed(before: readonly Finding[], question: string, thrown: unknown): SendingChecked {
  if (!(thrown instanceof GridmeterError)) throw thrown;
  const finding = { question, ok: false, answer: `no: ${thrown.code}: ${thrown.message}` };
  return { findings: [...before, finding], error: thrown };
}
