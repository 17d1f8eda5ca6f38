import type { Tenant } from "../model/tenant.ts";
import { endOfDay, startOf } from "../model/time.ts";
import type { FreshDay, KeptDays } from "./checkpoint.ts";
import type { CountedDay, CountedPiece } from "./count-piece.ts";
import { type Coverage, type Observation, observe } from "./settled-days.ts";
import { type MonthPlan, lookAhead } from "./month-plan.ts";
import type { OpenPod } from "./pods.ts";
import { type DayUsage, jobsOf } from "./usage.ts";

/** One tenant's month while its pieces are counted. */
export type OpenMonth = {
  readonly plan: MonthPlan;
  /** what the monitoring saw of the days that are still to be counted */
  readonly observed: ReadonlyMap<string, Observation>;
  /** the days that this run has counted so far */
  readonly fresh: Map<string, FreshDay>;
  /** why a piece could not be counted; no other piece of the month is asked for then */
  error?: unknown;
};

/** A month before its first piece. @param kept what an earlier invocation of the run has counted of it */
export function openMonth(
  tenant: Tenant,
  plan: MonthPlan,
  kept: KeptDays | undefined,
  coverage: Coverage,
  now: number,
): OpenMonth {
  const { sighting, window } = coverage;
  const fresh = new Map<string, FreshDay>(kept?.days);
  const uncounted = plan.needed.filter((day) => !fresh.has(day));
  const observations = window === undefined ? [] : observe(uncounted, sighting, window, tenant.settle, now);
  const observed = new Map(
    observations.map((each) => [each.day, { ...each, until: Math.max(each.until, lookAhead(plan, each.day, now)) }]),
  );
  return { plan: withoutSilentDays(plan, observed, coverage), observed, fresh };
}

/**
 * The plan without known days that older rules took as seen, because `up` was 1, though Prometheus has no pod of them. Where
 * Prometheus has no data of a day at all, the day stays.
 */
function withoutSilentDays(
  plan: MonthPlan,
  observed: ReadonlyMap<string, Observation>,
  { sighting }: Coverage,
): MonthPlan {
  const isSilent = (day: string): boolean =>
    sighting.silent.some(({ from, to }) => from < endOfDay(day) && to > startOf(day));
  const isKnown = (day: string): boolean =>
    !(plan.older.has(day) && observed.get(day)?.unseen === true && isSilent(day));
  return { ...plan, known: new Map([...plan.known].filter(([day]) => isKnown(day))) };
}

/** The days of a month that are to be asked for. A whole day that was not seen is asked for only with --allow-incomplete. */
export function wantedDays({ plan, observed, fresh }: OpenMonth, allowIncomplete: boolean): readonly string[] {
  return plan.needed
    .filter((day) => !fresh.has(day))
    .filter((day) => allowIncomplete || observed.get(day)?.unseen !== true);
}

/** All days of a month of which there are figures: counted in this run, or else from the ledger. */
export function daysOf({ plan, fresh }: OpenMonth): readonly DayUsage[] {
  return plan.days.flatMap((day) => fresh.get(day)?.usage ?? plan.known.get(day) ?? []);
}

/** Takes a day of a piece into its month. Where the ledger's day was counted from more, its figures stay. */
export function takeDay(day: CountedDay, month: OpenMonth, { judged }: CountedPiece): FreshDay {
  const { usage, jobs } = day;
  const name = usage.day;
  const known = knownFromMore(usage, month);
  const few = judged.few.get(name);
  const taken: FreshDay = {
    usage: known ?? usage,
    // The ledger has no job records, so those that are left are all there are.
    jobs,
    settled: month.observed.get(name)?.settled === true,
    unproven: known === undefined && judged.unproven.has(name),
    ...(known === undefined ? { fault: judged.faults.get(name) } : {}),
    ...(few === undefined ? {} : { few }),
  };
  month.fresh.set(name, taken);
  return taken;
}

/** The ledger's day, if the monitoring was seen for longer when it was counted. Under older rules it must also have more jobs. */
function knownFromMore(usage: DayUsage, { plan, observed }: OpenMonth): DayUsage | undefined {
  const known = plan.known.get(usage.day);
  if (known === undefined) return undefined;
  if (observed.get(usage.day)?.unseen === true) return known;
  if (gapSeconds(known) >= gapSeconds(usage)) return undefined;
  return plan.older.has(usage.day) && jobsOf(usage) >= jobsOf(known) ? undefined : known;
}

const gapSeconds = ({ gaps }: DayUsage): number => gaps.reduce((sum, { from, to }) => sum + to - from, 0);

/** Whether the ledger may take the day: it is settled and seen, nothing is wrong with its facts, and it is not the ledger's own. */
export function isStorable(day: FreshDay, { plan, observed }: OpenMonth): boolean {
  const name = day.usage.day;
  if (plan.known.get(name) === day.usage || observed.get(name)?.unseen === true) return false;
  return day.settled && day.fault === undefined && !day.unproven;
}

/** The month to which a fresh day belongs. */
export function monthOfDay(day: string, months: readonly OpenMonth[]): OpenMonth | undefined {
  return months.find(({ fresh }) => fresh.has(day));
}

/**
 * The pods that earlier pieces left out because no end of theirs counts. A later piece may see such a pod end, or run on.
 * Then the earlier day does not leave it out any more, so that the figures do not depend on how days are put into pieces.
 */
export class OpenPods {
  readonly #pods = new Map<string, OpenPod>();

  constructor(kept: Iterable<KeptDays>) {
    for (const { open } of kept) for (const [uid, pod] of open) this.#pods.set(uid, pod);
  }

  /** Takes in the pods of a piece. @returns the earlier days that it corrects */
  take(piece: CountedPiece, months: readonly OpenMonth[]): readonly FreshDay[] {
    const corrected = new Map<string, FreshDay>();
    for (const [uid, pod] of this.#pods) {
      const later = piece.dayOf(uid);
      if (later === undefined || later <= pod.day) continue;
      this.#pods.delete(uid);
      const day = withoutPod(pod, months);
      if (day !== undefined) corrected.set(pod.day, day);
    }
    for (const [uid, pod] of piece.open) this.#pods.set(uid, pod);
    return [...corrected.values()];
  }

  /** The pods that are open on a day, by uid. */
  on(day: string): ReadonlyMap<string, OpenPod> {
    return new Map([...this.#pods].filter(([, pod]) => pod.day === day));
  }
}

/** Corrects a day in its month: the pod is not left out any more. Days of the ledger stay as they are. */
function withoutPod({ day, reason, succeeded }: OpenPod, months: readonly OpenMonth[]): FreshDay | undefined {
  const month = monthOfDay(day, months);
  const held = month?.fresh.get(day);
  if (month === undefined || held === undefined || held.usage === month.plan.known.get(day)) return undefined;
  const { leftOut, succeededLeftOut } = held.usage;
  const usage = {
    ...held.usage,
    leftOut: { ...leftOut, [reason]: Math.max(0, leftOut[reason] - 1) },
    succeededLeftOut: Math.max(0, succeededLeftOut - (succeeded ? 1 : 0)),
  };
  const corrected = { ...held, usage };
  month.fresh.set(day, corrected);
  return corrected;
}
