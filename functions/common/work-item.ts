import { z } from "zod";
import { tiedTenants } from "../../lib/accounting/publishing/guards.ts";
import { endOfMonth, startOf } from "../../lib/accounting/model/time.ts";
import { type Request } from "../../lib/accounting/model/periods.ts";
import { runPorts } from "../../lib/accounting/ports.ts";
import { isOpen } from "../../lib/accounting/model/periods.ts";
import { type RunResult, runAccounting, runErrors } from "../../lib/accounting/run.ts";
import type { LoadedSettings } from "../../lib/accounting/settings/load.ts";
import type { S3Store } from "../../lib/accounting/store/s3.ts";
import { GridmeterError } from "../../lib/shared/errors.ts";
import { parseJson, shapeText } from "../../lib/shared/text.ts";
import { type Parts, logger, notifySpooler, stopBefore, warnDamaged } from "./runtime.ts";
import { withQueryLimit } from "./settings.ts";

/**
 * A run has no more invocations than this: a day of them, less than the pieces that they keep live (scratch/, 2 days), and the next
 * night begins again. Lambda's own watch over functions that call themselves, which ends a run after 16, is off.
 */
export const MOST_PARTS = 96;

/** Which invocation of its run a work item asks for. */
export function partOf({ run }: RunItem): number {
  return run.part ?? 1;
}

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
  await notifySpooler(
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

/** What a person may ask of a run beyond the plain one; each as the option of `gridmeter account` of that name. */
export const runFlags = {
  recount: z.boolean().exactOptional(),
  force: z.boolean().exactOptional(),
  allowDecrease: z.boolean().exactOptional(),
  allowIncomplete: z.boolean().exactOptional(),
};

const workItem = z.strictObject({
  v: z.literal(1),
  site: z.string().min(1),
  submitHost: z.string().min(1),
  month: z.string().regex(/^\d{4}-(0[1-9]|1[0-2])$/),
  mode: z.enum(["auto", "gap"]),
  ...runFlags,
  /**
   * set from the second invocation on: its name and its `now` (epoch seconds) make it the same run as before; `part` says which
   * invocation of the run it asks for
   */
  run: z
    .strictObject({ id: z.string().min(1), now: z.int().positive(), part: z.int().positive().exactOptional() })
    .exactOptional(),
});

/** One publishing unit to be counted and published: a message of the work queue. */
export type WorkItem = z.infer<typeof workItem>;
export type RunFlags = Pick<WorkItem, keyof typeof runFlags>;

/** Reads a message of the work queue. */
export function parseWorkItem(
  text: string,
): { readonly ok: true; readonly item: WorkItem } | { readonly ok: false; readonly problem: string } {
  const json = parseJson(text);
  if (json === undefined) return { ok: false, problem: "it is not JSON" };
  const parsed = workItem.safeParse(json);
  if (parsed.success) return { ok: true, item: parsed.data };
  return { ok: false, problem: `it is no work item: ${shapeText(parsed.error)}` };
}

/** What the run of a work item covers; undefined if auto mode does not cover its month at `now`. */
export function requestOf({ mode, month }: WorkItem, now: number): Request | undefined {
  if (mode === "gap") return { mode, start: startOf(month), end: endOfMonth(month) };
  return isOpen(month, now) ? { mode, month } : undefined;
}
