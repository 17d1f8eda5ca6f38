import { statSync } from "node:fs";
import { exitCode } from "../../lib/accounting/run.ts";
import { openQueue, openSource, sourceKind } from "../../lib/accounting/ports.ts";
import { type OpenSender, type SendSource, openSender, sendFrom } from "../../lib/accounting/send.ts";
import type { SendReport } from "../../lib/accounting/sending/sender.ts";
import { type AmsSettings, loadAms } from "../../lib/accounting/settings/ams.ts";
import { ReadOnlyStore } from "../../lib/accounting/store/store.ts";
import { GridmeterError, errorSummary } from "../../lib/shared/errors.ts";
import { jsonLine } from "../show/json.ts";
import { Progress } from "../show/progress.ts";
import { sentTable } from "../show/sent.ts";
import { linesOfError, nowInSeconds, say, warn } from "./options.ts";

/** Options that give a setting each. */
export type AmsOptions = {
  readonly envFile?: string | undefined;
  readonly ssmConfig?: string | undefined;
  readonly amsHost?: string | undefined;
  readonly amsPort?: string | undefined;
  readonly amsAuthnPort?: string | undefined;
  readonly amsProject?: string | undefined;
  readonly amsTopic?: string | undefined;
  readonly amsCertificate?: string | undefined;
  readonly amsKey?: string | undefined;
  readonly amsTokenFile?: string | undefined;
  readonly amsCaFile?: string | undefined;
};

export type SendOptions = AmsOptions & {
  readonly source?: string | undefined;
  readonly takeOver?: boolean | undefined;
  readonly dryRun?: boolean | undefined;
  readonly json?: boolean | undefined;
};

const usage = (text: string): GridmeterError => new GridmeterError("usage", `${text} Nothing was sent.`);

/**
 * `gridmeter send`: signs what lies in a queue or a bucket and publishes it to AMS. Gives the exit code: that of the gravest fault, 2 if
 * a message was set aside.
 */
export async function send(options: SendOptions): Promise<number> {
  const settings = loadAms(amsRequest(options));
  settings.nameWarnings.forEach(warn);
  const dryRun = options.dryRun === true;
  const text = options.source ?? settings.source;
  if (text === undefined)
    throw usage("--source dirq:DIR, dir:DIR or s3://BUCKET/PREFIX is needed: where the messages come from.");
  const open = openForSending(settings, dryRun);
  const source = await sourceOf(text, dryRun, options.takeOver === true);
  const report = await sendShown(source, open);
  const code = exitCode(report.errors);
  if (options.json === true) {
    const { name, endsAt } = open.identity;
    const certificate = { name, endsAt: new Date(endsAt * 1000).toISOString() };
    const errors = report.errors.map(errorSummary);
    const summary = { source: text, ...settings.place, certificate, dryRun, messages: report.messages };
    process.stdout.write(jsonLine({ ...summary, errors, exitCode: code }));
  } else {
    process.stdout.write(`${sentTable(report.messages)}\n`);
  }
  return code;
}

/** Where the settings of sending are looked for. */
export function amsRequest(options: AmsOptions) {
  return {
    env: process.env,
    envFile: options.envFile,
    ssmConfig: options.ssmConfig,
    options: {
      AMS_HOST: options.amsHost,
      AMS_PORT: options.amsPort,
      AMS_AUTHN_PORT: options.amsAuthnPort,
      AMS_PROJECT: options.amsProject,
      AMS_TOPIC: options.amsTopic,
      AMS_CERTIFICATE: options.amsCertificate,
      AMS_KEY: options.amsKey,
      AMS_TOKEN_FILE: options.amsTokenFile,
      AMS_CA_FILE: options.amsCaFile,
    },
  };
}

/** @throws GridmeterError `certificate_invalid` */
export function openForSending(settings: AmsSettings, dryRun: boolean): OpenSender {
  const open = openSender(settings, { dryRun, now: nowInSeconds });
  [...settings.warnings, ...open.warnings].forEach(warn);
  return open;
}

/** Sends with a bar on a terminal, and says what went wrong. */
export async function sendShown(source: SendSource, open: OpenSender): Promise<SendReport> {
  const progress = new Progress("messages");
  const report = await sendFrom(source, open, (done, total) => progress.show("sending", done, total)).finally(() =>
    progress.end(),
  );
  for (const error of report.errors) say(...linesOfError(error));
  for (const { message, status, reason = "" } of report.messages)
    if (status === "waiting") say(`waiting: ${message}: ${reason}`);
  return report;
}

async function sourceOf(text: string, dryRun: boolean, takeOver: boolean): Promise<SendSource> {
  const kind = sourceKind(text);
  if (kind.at === "bucket") {
    const store = await openSource("--source", text, process.env, () => undefined);
    return { kind: "bucket", store: dryRun ? new ReadOnlyStore(store) : store, takeOver };
  }
  if (takeOver) throw usage(`--take-over goes with --source s3://..., but the source is ${JSON.stringify(text)}.`);
  if (statSync(kind.path, { throwIfNoEntry: false })?.isDirectory() !== true)
    throw usage(
      `--source ${JSON.stringify(text)} is no directory. Name the queue that gridmeter account fills (its --output).`,
    );
  return { kind: "queue", queue: openQueue(text, warn) };
}
