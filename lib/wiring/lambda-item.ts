import { runAccounting, runErrors } from "../accounting/run.ts";
import type { RunResult } from "../accounting/run.ts";
import { tiedTenants } from "../accounting/tied-tenants.ts";
import { requestOf } from "../accounting/work-item.ts";
import type { WorkItem } from "../accounting/work-item.ts";
import type { LoadedSettings } from "../config/load.ts";
import { GridmeterError } from "../errors.ts";
import type { S3Store } from "../store/s3-store.ts";
import { logger, warnDamaged } from "./lambda-log.ts";
import type { Parts } from "./lambda-parts.ts";
import { ringFor } from "./lambda-ring.ts";
import { withQueryLimit } from "./lambda-settings.ts";
import { stopBefore } from "./lambda-time.ts";
import { runPorts } from "./run-ports.ts";

/** A work item that is part of a named run. */
export type RunItem = WorkItem & { readonly run: NonNullable<WorkItem["run"]> };

/** What became of a work item. `hopeless`: trying again without a person's help gives the same. */
export type ItemResult =
  | { readonly kind: "done" | "continued"; readonly result: RunResult }
  | { readonly kind: "refused"; readonly result: RunResult; readonly errors: readonly GridmeterError[] }
  | { readonly kind: "failed" | "hopeless"; readonly result?: RunResult; readonly error: GridmeterError };

/**
 * Counts and publishes the unit of a work item, and rings for its messages.
 * @throws GridmeterError `store_failed` ...; and whatever unexpected came up
 */
export async function runItem(
  item: RunItem,
  settings: LoadedSettings,
  store: S3Store,
  remaining: () => number,
  parts: Parts,
): Promise<ItemResult> {
  const { now, id } = item.run;
  const tenants = settings.tenants.map(({ tenant }) => tenant);
  const request = requestOf(item, now);
  const wrong = problemOf(item, request === undefined, settings);
  if (request === undefined || wrong !== undefined) {
    return { kind: "hopeless", error: new GridmeterError("usage", `${wrong ?? ""} Nothing was published.`) };
  }
  const time = stopBefore(remaining);
  const ports = runPorts(withQueryLimit(settings, time.querySeconds), store);
  const result = await runAccounting(tenants, ports, {
    now,
    request,
    only: await tiedTenants(item, tenants, store, warnDamaged),
    recount: item.recount === true,
    force: item.force === true,
    allowDecrease: item.allowDecrease === true,
    allowIncomplete: item.allowIncomplete === true,
    stop: time.stop,
    run: id,
  });
  result.damaged.forEach(warnDamaged);
  for (const { counted } of result.months)
    for (const { warnings } of counted) for (const text of warnings) logger.warn(text);
  if (result.interrupted) return { kind: "continued", result };
  // Also where nothing new was published: an earlier invocation may have been ended before it rang.
  await ringFor(
    result.months.flatMap(({ units }) => units.map(({ unit }) => unit)),
    store,
    parts,
  );
  return judged(result);
}

function problemOf(
  { site, submitHost, month }: WorkItem,
  outside: boolean,
  { tenants }: LoadedSettings,
): string | undefined {
  const known = tenants.map(({ tenant }) => tenant);
  if (!known.some((tenant) => tenant.site === site && tenant.submitHost === submitHost)) {
    const units = [...new Set(known.map((tenant) => `${tenant.site} ${tenant.submitHost}`))];
    return `No tenant publishes for ${site} ${submitHost}; configured are: ${units.join(", ")}.`;
  }
  return outside
    ? `${month} is neither the current nor the previous month, which is what auto mode covers. Use gap mode.`
    : undefined;
}

function judged(result: RunResult): ItemResult {
  const known: GridmeterError[] = [];
  for (const error of runErrors(result)) {
    if (!(error instanceof GridmeterError)) throw error;
    known.push(error);
  }
  const failed = known.find(({ retryable }) => retryable);
  if (failed !== undefined) return { kind: "failed", result, error: failed };
  const hopeless = known.find(({ exit }) => exit !== 3);
  if (hopeless !== undefined) return { kind: "hopeless", result, error: hopeless };
  return known.length > 0 ? { kind: "refused", result, errors: known } : { kind: "done", result };
}
