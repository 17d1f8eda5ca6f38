import { createHash } from "node:crypto";
import { GridmeterError } from "../../shared/errors.ts";
import { apelKey } from "../apel/replace-keys.ts";
import { type ApelRecord, zeroed } from "../apel/record.ts";
import { type ApelMessage, jobMessages, writeMessages } from "../apel/write.ts";
import { type CheckedGeneration, checkGeneration } from "../delivery/outgoing.ts";
import { type MessageFormat, type Unit, unitName } from "../model/tenant.ts";
import type { Decrease } from "./guards.ts";
import { DAY, dayOfMonth, monthOf, startOf } from "../model/time.ts";
import type { IndividualWant } from "./jobs.ts";
import type { MonthlyRecord } from "./records.ts";
import type { Figure, Publication, UnitState } from "./state.ts";

/** What a unit should hold at APEL after this run. */
export type Want = {
  readonly unit: Unit;
  readonly format: MessageFormat;
  readonly records: readonly MonthlyRecord[];
  readonly figures: readonly Figure[];
  /** NumberOfJobs of the month so far, monthly records and published single jobs together; null: no sync record */
  readonly sync: number | null;
  /** single jobs of settled days that were not yet published */
  readonly individual: IndividualWant;
};

export type Decision =
  | {
      readonly action: "publish";
      readonly publication: Omit<Publication, "generation">;
      /** those of single jobs are made again each time they are asked for, so that not all of them are in memory */
      readonly checked: CheckedGeneration;
      readonly why: "new" | "changed" | "again";
    }
  | { readonly action: "unchanged" }
  | { readonly action: "refuse"; readonly error: GridmeterError };

export type DecideOptions = {
  readonly now: number;
  readonly force: boolean;
  readonly allowDecrease: boolean;
  /** auto mode: the previous and the current month are open and sent again now and then */
  readonly open: boolean;
};

const refuse = (error: GridmeterError): Decision => ({ action: "refuse", error });

/** A lost queue must not become silence: open months go out again once a week, and on the 6th (WLCG reads on the 8th). */
function dueAgain(publishedAt: number, now: number): boolean {
  const sixth = startOf(`${monthOf(now)}-06`);
  return now - publishedAt >= 7 * DAY || (dayOfMonth(now) >= 6 && publishedAt < sixth);
}

/**
 * Whether and what to publish for a unit. Every publication is the whole unit: all rows, with zeros (tombstones) for the
 * keys that were published before and are absent now, so that a newer file always covers an older one. Pure.
 */
export function decide(
  want: Want,
  state: UnitState | undefined,
  decreases: readonly Decrease[],
  options: DecideOptions,
): Decision {
  const { unit } = want;
  if (state !== undefined && state.pins.length > 0 && !options.force) return refuse(pinnedError(state));
  const published = state?.published;
  if (decreases.length > 0 && !options.allowDecrease) return refuse(decreaseError(unit, decreases));

  const records = withTombstones(want.records, state);
  const sync: readonly ApelRecord[] = want.sync === null ? [] : [syncRecord(unit, want.sync)];
  const monthly = writeMessages([...records, ...sync], want.format);
  const hash = contentHash(monthly);
  const jobRecords = jobsIn(want.individual.days);
  const same = state?.pending === undefined && published?.hash === hash && jobRecords === 0;
  const again = options.force || (options.open && published !== undefined && dueAgain(published.at, options.now));
  if (same && !again) return { action: "unchanged" };
  if (monthly.length === 0 && jobRecords === 0) return { action: "unchanged" };
  // A bad job in whatever message refuses the unit now, before anything is reserved for it.
  const checked = checkGeneration(unit, { [Symbol.iterator]: () => allMessages(monthly, want) }, options.now);
  return {
    action: "publish",
    checked,
    why: published === undefined ? "new" : same ? "again" : "changed",
    publication: {
      at: options.now,
      hash,
      records: [...records],
      sync: want.sync,
      figures: [...want.figures],
      individual: mergeDays(state, want),
    },
  };
}

function pinnedError({ unit, pins }: UnitState): GridmeterError {
  return new GridmeterError(
    "pinned_refused",
    `${unitName(unit)}: ${pins.length} hand-written publications pin APEL keys of this month. Nothing was published for it. ` +
      "Lift them with `gridmeter manual --unpin`, or publish over them with --force.",
  );
}

function* allMessages(monthly: readonly ApelMessage[], { individual, format }: Want): Generator<ApelMessage> {
  yield* monthly;
  yield* jobMessages(individual.records, format);
}

function jobsIn(days: Publication["individual"]): number {
  return Object.values(days)
    .flatMap((byDay) => Object.values(byDay))
    .reduce((sum, jobs) => sum + jobs, 0);
}

function decreaseError(unit: Unit, decreases: readonly Decrease[]): GridmeterError {
  const lines = decreases.map(
    ({ tenant, vo, was, now }) =>
      `tenant ${tenant}, VO ${vo}: ${now.jobs} jobs (published ${was.jobs}), ${Math.round(now.milliCoreSeconds / 1000)} core-seconds (published ${Math.round(was.milliCoreSeconds / 1000)})`,
  );
  return new GridmeterError(
    "decrease_refused",
    `${unitName(unit)}: lower than what was published: ${lines.join("; ")}. Nothing was published for it. Causes may be expired retention, changed labels or ` +
      "namespace, another VO, or a removed tenant. If the lower figures are right, publish them with --allow-decrease.",
  );
}

/** All rows APEL may hold of this unit from before. */
export function priorRecords(state: UnitState | undefined): readonly MonthlyRecord[] {
  if (state === undefined) return [];
  const pinned = state.pins.flatMap((pin) => pin.records);
  return [...(state.published?.records ?? []), ...(state.pending?.records ?? []), ...state.known, ...pinned];
}

function withTombstones(records: readonly MonthlyRecord[], state: UnitState | undefined): readonly MonthlyRecord[] {
  const rows = new Map(records.map((record) => [apelKey(record), record]));
  for (const prior of priorRecords(state)) {
    const key = apelKey(prior);
    if (!rows.has(key)) rows.set(key, prior.kind === "summary" ? zeroed(prior) : zeroed(prior));
  }
  return [...rows.values()];
}

function syncRecord(unit: Unit, numberOfJobs: number): ApelRecord {
  const [year = 0, month = 0] = unit.month.split("-").map(Number);
  return { kind: "sync", site: unit.site, submitHost: unit.submitHost, numberOfJobs, year, month };
}

function contentHash(messages: readonly ApelMessage[]): string {
  return createHash("sha256").update(JSON.stringify(messages)).digest("hex");
}

function mergeDays(state: UnitState | undefined, want: Want): Publication["individual"] {
  const merged: Publication["individual"] = { ...state?.published?.individual };
  for (const [source, days] of Object.entries(want.individual.days)) merged[source] = { ...merged[source], ...days };
  return merged;
}
