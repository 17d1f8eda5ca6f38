import {
  type RunOptions,
  type RunPorts,
  type RunResult,
  exitCode,
  runAccounting,
  runErrors,
} from "../../lib/accounting/run.ts";
import type { OpenSender, SendSource } from "../../lib/accounting/send.ts";
import type { SendReport } from "../../lib/accounting/sending/sender.ts";
import { GridmeterError, errorSummary } from "../../lib/shared/errors.ts";
import { summarise } from "../../lib/accounting/summary.ts";
import { loadAms } from "../../lib/accounting/settings/ams.ts";
import { type LoadedSettings, loadSettings } from "../../lib/accounting/settings/load.ts";
import { type OpenOutbox, chosenTenants, openLedger, openOutbox, runPorts } from "../../lib/accounting/ports.ts";
import { Progress } from "../show/progress.ts";
import { boundHeap } from "../bounded-heap.ts";
import { jsonPieces, writeOut } from "../show/json.ts";
import { monthsTable, tellRun } from "../show/run.ts";
import { RunMetrics } from "./metrics.ts";
import { sentTable } from "../show/sent.ts";
import { linesOfError, nowInSeconds, say, warn } from "./options.ts";
import { outboxStore, sendOn } from "./deliver.ts";
import { amsRequest, openForSending, sendShown } from "./send.ts";

export type AccountOptions = {
  readonly envFile?: string | undefined;
  readonly mode?: string | undefined;
  readonly start?: string | undefined;
  readonly end?: string | undefined;
  readonly tenant?: readonly string[] | undefined;
  readonly output?: string | undefined;
  readonly queue?: string | undefined;
  readonly ledger?: string | undefined;
  readonly dryRun?: boolean | undefined;
  readonly recount?: boolean | undefined;
  readonly force?: boolean | undefined;
  readonly allowDecrease?: boolean | undefined;
  readonly allowIncomplete?: boolean | undefined;
  readonly pushgateway?: string | undefined;
  readonly metricsFile?: string | undefined;
  readonly send?: boolean | undefined;
  readonly ssmConfig?: string | undefined;
  readonly json?: boolean | undefined;
};

/** The period that the settings ask for; both ends are there in gap mode (checked when they were read). */
export function requestOf({ mode, queryStart, queryEnd }: LoadedSettings): RunOptions["request"] {
  if (mode === "auto" || queryStart === undefined || queryEnd === undefined) return { mode: "auto" };
  return { mode: "gap", start: queryStart, end: queryEnd };
}

/** Reads the settings and says their warnings. @throws config_invalid */
export function settingsOf(options: AccountOptions): LoadedSettings {
  const { mode, start, end, output, ledger, pushgateway, metricsFile } = options;
  const settings = loadSettings({
    env: process.env,
    envFile: options.envFile,
    overrides: { mode, start, end, output, ledger, pushgateway, metricsFile },
  });
  for (const warning of settings.warnings) say(warning);
  return settings;
}

/** `gridmeter account`: counts, publishes into the outgoing objects, and sends those on. Gives the exit code. */
export async function account(options: AccountOptions): Promise<number> {
  const settings = settingsOf(options);
  const now = nowInSeconds();
  const dryRun = options.dryRun === true;
  const only = options.tenant === undefined ? undefined : chosenTenants(settings, options.tenant);
  const toAms = openAms(options, dryRun);
  const outbox = await openOutbox(settings.output, options.queue, dryRun, process.env, warn);
  const ledger = await openLedger(settings.ledger, dryRun, process.env, warn);
  if (!ledger.remembers)
    say("--ledger none: this run remembers nothing, asks for every day, and has no guard against figures going down.");
  const metrics = new RunMetrics(settings, now);
  const ports = { ...runPorts(settings, ledger.store), outbox: outboxStore(outbox, ledger) };
  const request = requestOf(settings);
  const run = countAll(settings, ports, { ...options, now, request, ...(only === undefined ? {} : { only }) });
  const result = await run.catch(async (error: unknown) => {
    if (!dryRun) await metrics.publishFailure(request);
    throw error;
  });
  tellRun(result, say);
  const keys = result.months.flatMap(({ units }) => units.flatMap((unit) => unit.keys ?? []));
  const { delivery, faults } = dryRun ? { delivery: [], faults: [] } : await sendOn(outbox, ledger, keys, now);
  const sent = toAms === undefined || dryRun ? undefined : await sendAfter(outbox, toAms);
  const code = exitCode([...runErrors(result), ...faults, ...(sent?.errors ?? [])]);
  // What waits in the queue now was not sent.
  if (!dryRun) await metrics.publishResult(result, outbox);
  for (const fault of faults) say(...linesOfError(fault));
  if (options.json === true) {
    const summary = {
      ...summarise(result, dryRun),
      dryRun,
      queue: outbox.place,
      delivery,
      ...(sent === undefined ? {} : { sent: sent.messages }),
      errors: [...faults, ...(sent?.errors ?? [])].map(errorSummary),
      exitCode: code,
    };
    await writeOut(jsonPieces(summary));
    process.stdout.write("\n");
  } else {
    await print(result, dryRun);
    if (sent !== undefined) process.stdout.write(`${sentTable(sent.messages)}\n`);
  }
  return code;
}

/** Counts and publishes all tenants, with progress on a terminal. */
async function countAll(
  { tenants }: LoadedSettings,
  ports: RunPorts,
  options: AccountOptions & Pick<RunOptions, "now" | "request" | "only">,
): Promise<RunResult> {
  const progress = new Progress();
  boundHeap();
  const { now, request, only } = options;
  return runAccounting(
    tenants.map(({ tenant }) => tenant),
    ports,
    {
      now,
      request,
      ...(only === undefined ? {} : { only }),
      recount: options.recount === true,
      force: options.force === true,
      allowDecrease: options.allowDecrease === true,
      allowIncomplete: options.allowIncomplete === true,
      progress: (tenant, done, days) => progress.show(tenant.name, done, days),
    },
  ).finally(() => progress.end());
}

/** What --send needs, read before anything is counted. @throws GridmeterError `config_invalid`, `certificate_invalid`, `usage` */
function openAms(options: AccountOptions, dryRun: boolean): OpenSender | undefined {
  const { send, ssmConfig, queue, envFile } = options;
  const wrong =
    send !== true && ssmConfig !== undefined
      ? "--ssm-config goes with --send."
      : send === true && queue !== undefined
        ? "--queue notifies a spooler, but with --send nothing is spooled."
        : undefined;
  if (wrong !== undefined) throw new GridmeterError("usage", `${wrong} Nothing was published. Leave one of them out.`);
  return send === true ? openForSending(loadAms(amsRequest({ envFile, ssmConfig })), dryRun) : undefined;
}

/** Sends what lies in the output; a fault here is no fault of the counting. */
async function sendAfter(outbox: OpenOutbox, open: OpenSender): Promise<SendReport> {
  const source: SendSource =
    outbox.kind === "local"
      ? { kind: "queue", queue: outbox.queue }
      : { kind: "bucket", store: outbox.store, takeOver: false };
  try {
    return await sendShown(source, open);
  } catch (error) {
    say(...linesOfError(error));
    return { messages: [], errors: [error] };
  }
}

async function print(result: RunResult, dryRun: boolean): Promise<void> {
  process.stdout.write(`${monthsTable(summarise(result, dryRun))}\n`);
  if (!dryRun) return;
  await writeOut(wouldBe(result));
}

/** What a dry run would publish, message by message. */
function* wouldBe(result: RunResult): Generator<string> {
  let before = "\nWould be published:\n\n";
  for (const { messages = [] } of result.months.flatMap(({ units }) => units)) {
    for (const message of messages) {
      yield before + message;
      before = "\n";
    }
  }
  if (before !== "\n") yield "Nothing would be published.\n";
}
