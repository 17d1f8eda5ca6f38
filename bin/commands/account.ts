import { exitCode, runAccounting, runErrors } from "../../lib/accounting/run.ts";
import type { RunOptions, RunResult } from "../../lib/accounting/run.ts";
import { errorSummary, summarise } from "../../lib/accounting/summary.ts";
import { loadSettings } from "../../lib/config/load.ts";
import type { LoadedSettings } from "../../lib/config/load.ts";
import { GridmeterError, errorText } from "../../lib/errors.ts";
import type { MessageQueue } from "../../lib/outbox/message-queue.ts";
import { deliverAll } from "../../lib/spool/deliver.ts";
import type { DeliveryReport } from "../../lib/spool/report.ts";
import type { ObjectStore } from "../../lib/store/object-store.ts";
import { openLedger, openQueue } from "../../lib/wiring/places.ts";
import { chosenTenants, runPorts } from "../../lib/wiring/run-ports.ts";
import { Progress } from "../show/progress.ts";
import { monthsTable, tellDelivery, tellRun } from "../show/run.ts";
import { nowInSeconds, say } from "./options.ts";

export type AccountOptions = {
  readonly envFile?: string | undefined;
  readonly mode?: string | undefined;
  readonly start?: string | undefined;
  readonly end?: string | undefined;
  readonly tenant?: readonly string[] | undefined;
  readonly output?: string | undefined;
  readonly ledger?: string | undefined;
  readonly dryRun?: boolean | undefined;
  readonly recount?: boolean | undefined;
  readonly force?: boolean | undefined;
  readonly allowDecrease?: boolean | undefined;
  readonly allowIncomplete?: boolean | undefined;
  readonly json?: boolean | undefined;
};

/** The period that the settings ask for; both ends are there in gap mode (checked when they were read). */
export function requestOf({ mode, queryStart, queryEnd }: LoadedSettings): RunOptions["request"] {
  if (mode === "auto" || queryStart === undefined || queryEnd === undefined) return { mode: "auto" };
  return { mode: "gap", start: queryStart, end: queryEnd };
}

/** Reads the settings and tells their warnings. @throws config_invalid */
export function settingsOf(options: AccountOptions): LoadedSettings {
  const { mode, start, end, output, ledger } = options;
  const settings = loadSettings({
    env: process.env,
    envFile: options.envFile,
    overrides: { mode, start, end, output, ledger },
  });
  for (const warning of settings.warnings) say(warning);
  return settings;
}

/** `gridmeter account`: counts, publishes into the outgoing objects, and moves those into the queue. Gives the exit code. */
export async function account(options: AccountOptions): Promise<number> {
  const settings = settingsOf(options);
  const now = nowInSeconds();
  const dryRun = options.dryRun === true;
  const only = options.tenant === undefined ? undefined : chosenTenants(settings, options.tenant);
  const queue = openQueue(settings.output);
  const { store, remembers } = openLedger(settings.ledger, dryRun);
  if (!remembers)
    say("--ledger none: this run remembers nothing, asks for every day, and has no guard against figures going down.");
  const progress = new Progress();
  const result = await runAccounting(
    settings.tenants.map(({ tenant }) => tenant),
    runPorts(settings, store),
    {
      now,
      request: requestOf(settings),
      ...(only === undefined ? {} : { only }),
      recount: options.recount === true,
      force: options.force === true,
      allowDecrease: options.allowDecrease === true,
      allowIncomplete: options.allowIncomplete === true,
      progress: (tenant, done, pieces) => progress.show(tenant.name, done, pieces),
    },
  ).finally(() => progress.end());
  const { delivery, faults } = dryRun ? { delivery: [], faults: [] } : await deliver(store, queue, now, remembers);
  const code = exitCode([...runErrors(result), ...faults]);
  tellRun(result, say);
  tellDelivery(delivery, queue.place, say);
  for (const fault of faults) say(`${errorSummary(fault).code}: ${errorText(fault)}`);
  if (options.json === true) {
    const summary = {
      ...summarise(result),
      dryRun,
      queue: queue.place,
      delivery,
      errors: faults.map(errorSummary),
      exitCode: code,
    };
    process.stdout.write(`${JSON.stringify(summary)}\n`);
  } else {
    print(result, dryRun);
  }
  return code;
}

type Delivered = { readonly delivery: readonly DeliveryReport[]; readonly faults: readonly unknown[] };

/** Moves the messages into the queue. A fault there is no fault of the counting, whose figures are still to be shown. */
async function deliver(store: ObjectStore, queue: MessageQueue, now: number, remembers: boolean): Promise<Delivered> {
  try {
    const delivery = await deliverAll(store, queue, { now, warn: say });
    return { delivery, faults: remembers ? [] : forgotten(delivery) };
  } catch (error) {
    if (!(error instanceof GridmeterError)) return { delivery: [], faults: [error] };
    const kept = remembers
      ? "The messages wait in the ledger's outgoing/; the next run puts them into the queue."
      : "Without a ledger nothing keeps the messages: what is not in the queue was not published.";
    return { delivery: [], faults: [new GridmeterError(error.code, `${error.message} ${kept}`, { cause: error })] };
  }
}

/** Without a ledger nothing keeps a message that has to wait. */
function forgotten(delivery: readonly DeliveryReport[]): readonly GridmeterError[] {
  const waiting = delivery.flatMap(({ messages }) => messages.filter(({ status }) => status === "waiting"));
  return waiting.map(
    ({ key, reason }) =>
      new GridmeterError(
        "queue_busy",
        `${key} could not be put into the queue (${reason ?? ""}) and, without a ledger, is not kept. It was not published. Run again later, or with a ledger.`,
      ),
  );
}

function print(result: RunResult, dryRun: boolean): void {
  process.stdout.write(`${monthsTable(summarise(result))}\n`);
  if (!dryRun) return;
  const messages = result.months.flatMap(({ units }) => units.flatMap((unit) => unit.messages ?? []));
  process.stdout.write(
    messages.length === 0 ? "Nothing would be published.\n" : `\nWould be published:\n\n${messages.join("\n")}`,
  );
}
