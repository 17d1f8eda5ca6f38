import pLimit from "p-limit";
import { countPiece, isEmpty, isWithoutVo } from "./count-piece.ts";
import { firstPiece, lookAhead, planMonth, watchWindow } from "./count-plan.ts";
import type { MonthPlan, PlanOptions } from "./count-plan.ts";
import { FIRST_PACE, JOBS_PACE, MOST_PODS, STOPPABLE_PACE, paceAfter } from "./count-plan-pace.ts";
import { withCpuSeen } from "./cpu-share.ts";
import { countedMonth, gapSeconds } from "./counted-month.ts";
import type { CountedMonth, OpenMonth } from "./counted-month.ts";
import type { CountedDay } from "./job-list.ts";
import type { Ledger } from "./ledger.ts";
import { observe } from "./observation.ts";
import type { Observation } from "./observation.ts";
import type { Period } from "./periods.ts";
import type { Monitoring } from "./ports.ts";
import { isIndividual } from "./records.ts";
import type { Held, Scratch } from "./scratch.ts";
import { checkNamespace, checkVoLabel } from "./sanity.ts";
import type { Tenant } from "./tenant.ts";
import { Tiling } from "./tiling.ts";

/** How far past the last day evidence is first looked for, days. */
const WATCH_DAYS = 10;
/** Days that are written to the ledger side by side: each waits for a disk or a bucket. */
const DAYS_AT_ONCE = 8;

export type TenantCount = {
  readonly months: readonly CountedMonth[];
  /** uid -> its last completion: pods of which one container ended while the pod runs on */
  readonly notFinished: ReadonlyMap<string, number>;
  /** uids that finished without an end, or vanished before one was scraped */
  readonly noEnd: ReadonlySet<string>;
  readonly asked: { readonly days: number; readonly pieces: number };
  /** stopped before all pieces were asked (CountOptions.stop) */
  readonly interrupted: boolean;
};

export type CountOptions = PlanOptions & {
  readonly allowIncomplete: boolean;
  /** asked before each piece: true ends the counting; what is settled is already stored */
  readonly stop?: () => boolean;
  /** keeps what is counted for the next invocation of the same run */
  readonly scratch?: Scratch;
  readonly progress?: (done: number, days: number) => void;
};

const NOTHING_OPEN: { to: number; notFinished: ReadonlyMap<string, number> } = { to: 0, notFinished: new Map() };

/**
 * Counts one tenant's months: takes settled days from the ledger, asks Prometheus for the others, stores what is now
 * settled. A fault of one month never fails another; each is returned with its error.
 */
export async function countTenant(
  tenant: Tenant,
  months: readonly Period[],
  ports: { readonly monitoring: Monitoring; readonly ledger: Ledger },
  options: CountOptions,
): Promise<TenantCount> {
  const { now } = options;
  const plans = await Promise.all(months.map((month) => planMonth(tenant, month, ports.ledger, options)));
  const held = new Map<string, Held>();
  for (const { month } of months) {
    const before = await options.scratch?.load(tenant, month);
    if (before !== undefined) held.set(month, before);
  }
  const missing = (plan: MonthPlan): readonly string[] =>
    plan.needed.filter((day) => held.get(plan.period.month)?.days.has(day) !== true);
  // Also of the days that an earlier invocation has counted: whether a month shows any sign is judged anew.
  const needed = plans.flatMap((plan) => plan.needed);
  const noEnd = new Set([...held.values()].flatMap((each) => [...each.noEnd]));
  let latest = [...held.values()].map((each) => each.latest).reduce((a, b) => (b.to > a.to ? b : a), NOTHING_OPEN);
  let seen: readonly number[];
  let watched = watchWindow(needed, tenant.settle, now, WATCH_DAYS);
  try {
    seen = watched === undefined ? [] : await ports.monitoring.seen(watched);
    if (watched !== undefined && observe(needed.slice(-1), seen, watched, tenant.settle, now)[0]?.settled === false) {
      const whole = watchWindow(needed, tenant.settle, now, Number.MAX_SAFE_INTEGER) ?? watched;
      if (whole.to > watched.to) seen = await ports.monitoring.seen(whole);
      watched = whole;
    }
  } catch (error) {
    const failed = plans.map((plan) =>
      countedMonth(
        tenant,
        {
          plan,
          observed: new Map(),
          fresh: new Map(held.get(plan.period.month)?.days),
          ...(missing(plan).length > 0 ? { error } : {}),
        },
        options,
        [],
      ),
    );
    return { months: failed, notFinished: new Map(), noEnd, asked: { days: 0, pieces: 0 }, interrupted: false };
  }
  const window = watched;
  const open = plans.map((plan): OpenMonth => {
    const observed = window === undefined ? [] : observe(missing(plan), seen, window, tenant.settle, now);
    const before = held.get(plan.period.month)?.days;
    const asFar = (each: Observation): Observation => ({
      ...each,
      until: Math.max(each.until, lookAhead(plan, each.day, now)),
    });
    return { plan, observed: new Map(observed.map((each) => [each.day, asFar(each)])), fresh: new Map(before) };
  });
  const knownJobs = plans.some((plan) => [...plan.known.values()].some((day) => day.groups.length > 0));
  const knownVo = plans.some((plan) =>
    [...plan.known.values()].some((day) => day.groups.some((group) => group.vo !== null)),
  );
  // "Never in the data" means in all of the run's months, or daily runs would be refused where one over all days is not.
  const [first] = months;
  const all = window === undefined || first === undefined ? undefined : { from: first.from, to: window.to };
  const namespaceKnown = checkNamespace(tenant, ports.monitoring, all, knownJobs);
  const voLabelKnown = checkVoLabel(tenant, ports.monitoring, all, knownVo);

  const wanted = open.map((month) => ({
    month,
    days: missing(month.plan).filter((day) => options.allowIncomplete || month.observed.get(day)?.unseen !== true),
  }));
  const days = wanted.reduce((sum, each) => sum + each.days.length, 0);
  const asked = { days: 0, pieces: 0 };
  const mostPods = isIndividual(tenant) ? MOST_PODS.jobs : MOST_PODS.figures;
  let pace = options.stop !== undefined ? STOPPABLE_PACE : isIndividual(tenant) ? JOBS_PACE : FIRST_PACE;
  const nextPiece = (): { month: OpenMonth; days: readonly [string, ...string[]] } | undefined => {
    for (const each of wanted) {
      const piece = each.month.error === undefined ? firstPiece(each.days, pace.days) : undefined;
      if (piece === undefined) continue;
      each.days = each.days.slice(piece.length);
      return { month: each.month, days: piece };
    }
    return undefined;
  };
  let done = 0;
  let interrupted = false;
  const tiling = new Tiling();
  const writing = pLimit(DAYS_AT_ONCE);
  options.progress?.(0, days);
  // One piece after the other: memory depends on the largest, not on the months.
  for (let next = nextPiece(); next !== undefined; next = nextPiece()) {
    const { month } = next;
    // The first piece is always counted, so that every invocation gets further.
    if (asked.pieces > 0 && options.stop?.() === true) {
      interrupted = true;
      break;
    }
    asked.pieces += 1;
    asked.days += next.days.length;
    const started = ports.monitoring.clock?.();
    try {
      const piece = await countPiece(tenant, ports.monitoring, next.days, month.observed, seen, tiling);
      const seconds = started === undefined ? undefined : (ports.monitoring.clock?.() ?? started) - started;
      pace = paceAfter(pace, { days: next.days.length, seconds, pods: piece.finished }, mostPods);
      if (isEmpty(piece)) await namespaceKnown();
      if (isWithoutVo(piece)) await voLabelKnown();
      const taken = await Promise.all(piece.days.map((day) => writing(() => settleDay(day, month, ports.ledger))));
      await options.scratch?.save(
        tenant,
        month.plan.period.month,
        { ...piece, days: taken },
        (day) => month.observed.get(day)?.settled === true,
      );
      // Only the piece that looks furthest knows which pods are still open; earlier ones may have finished since.
      if (piece.to > latest.to) latest = { to: piece.to, notFinished: piece.unfinished.notFinished };
      for (const uid of piece.unfinished.noEnd) noEnd.add(uid);
    } catch (error) {
      month.error ??= error;
    }
    done += next.days.length;
    options.progress?.(done, days);
  }
  for (const { plan, fresh, error } of open) {
    const whole = error === undefined && plan.days.every((day) => plan.known.has(day) || fresh.has(day));
    if (plan.recount === "due" && whole && !interrupted) await ports.ledger.markRecounted(plan.period.month, now);
  }
  const counted = open.map((month) => countedMonth(tenant, month, options, seen));
  return {
    // What is interrupted goes on later, and nothing of it is published until then.
    months: interrupted ? counted : await Promise.all(counted.map((month) => withCpuSeen(month, ports.monitoring))),
    notFinished: latest.notFinished,
    noEnd,
    asked,
    interrupted,
  };
}

/**
 * Takes a fresh day over, and stores it if it is settled. Usage that was counted with a shorter sight than the ledger's
 * never replaces it; the single jobs, which the ledger does not have, are then those that are left.
 */
async function settleDay(day: CountedDay, month: OpenMonth, ledger: Ledger): Promise<CountedDay> {
  const observation = month.observed.get(day.usage.day);
  const known = month.plan.known.get(day.usage.day);
  const sawLess = known !== undefined && (observation?.unseen === true || gapSeconds(known) < gapSeconds(day.usage));
  const taken = sawLess ? { usage: known, jobs: day.jobs } : day;
  month.fresh.set(day.usage.day, taken);
  if (!sawLess && observation?.settled === true && !observation.unseen) await ledger.write(day.usage);
  return taken;
}
