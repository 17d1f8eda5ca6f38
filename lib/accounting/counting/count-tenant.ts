import pLimit from "p-limit";
import { greatest } from "../../shared/lists.ts";
import type { Monitoring, Sighting, Window } from "../model/monitoring.ts";
import { type Tenant, isIndividual } from "../model/tenant.ts";
import { type Period, addMonths, endOfDay, startOf } from "../model/time.ts";
import { Tiling } from "../prometheus/split.ts";
import { withCpuSeen } from "../publishing/guards.ts";
import {
  type CountedMonth,
  type OpenMonth,
  countPiece,
  countedMonth,
  gapSeconds,
  isWithoutVo,
  jobsOf,
} from "./count-month.ts";
import { type Observation, checkNamespace, checkOwnLabels, checkVoLabel, observe, voLabelWarning } from "./coverage.ts";
import type { CountedPiece, FreshDay, Held, Ledger, Checkpoint } from "./ledger.ts";
import { OpenPods } from "./open-pods.ts";
import {
  FIRST_PIECE_SIZE,
  JOBS_PIECE_SIZE,
  MOST_PODS,
  type MonthPlan,
  type PlanOptions,
  STOPPABLE_PIECE_SIZE,
  firstPiece,
  lookAhead,
  pieceSizeAfter,
  planMonth,
  watchWindow,
} from "./month-plan.ts";
import type { DayUsage } from "./usage.ts";

/** How far past the last day evidence is first looked for, days. */
const WATCH_DAYS = 10;
/** Days that are written to the ledger side by side: each waits for a disk or a bucket. */
const DAYS_AT_ONCE = 8;
/** What is seen where nothing is asked. */
export const NOT_SEEN: Sighting = { cells: [], partly: [], upOnly: [], silent: [] };

export type TenantCount = {
  readonly months: readonly CountedMonth[];
  readonly asked: { readonly days: number; readonly pieces: number };
  /** stopped before all pieces were asked (CountOptions.stop) */
  readonly interrupted: boolean;
};

export type CountOptions = PlanOptions & {
  readonly allowIncomplete: boolean;
  /** asked before each piece: true ends the counting; what is settled is already stored */
  readonly stop?: () => boolean;
  /** keeps what is counted for the next invocation of the same run */
  readonly scratch?: Checkpoint;
  readonly progress?: (done: number, days: number) => void;
};

type CountPorts = { readonly monitoring: Monitoring; readonly ledger: Ledger };

/**
 * Counts one tenant's months: takes settled days from the ledger, asks Prometheus for the others, stores what is now
 * settled. A fault of one month never fails another; each is returned with its error.
 */
export async function countTenant(
  tenant: Tenant,
  periods: readonly Period[],
  ports: CountPorts,
  options: CountOptions,
): Promise<TenantCount> {
  const plans = await Promise.all(periods.map((period) => planMonth(tenant, period, ports.ledger, options)));
  const before = await daysBefore(plans, ports.ledger);
  const held = await heldMonths(tenant, periods, options.scratch);
  let watched: Watched;
  try {
    watched = await watch(tenant, plans, ports.monitoring, options.now);
  } catch (error) {
    const failed = plans.map((plan) => {
      const fresh = new Map(held.get(plan.period.month)?.days);
      const missing = plan.needed.some((day) => !fresh.has(day));
      const month = { plan, observed: new Map(), fresh, ...(missing ? { error } : {}) };
      return countedMonth(tenant, month, options, NOT_SEEN, before(plan, []));
    });
    return { months: failed, asked: { days: 0, pieces: 0 }, interrupted: false };
  }
  const open = plans.map((plan) => openMonth(tenant, plan, held.get(plan.period.month), watched, options.now));
  const counted = await countPieces(tenant, open, held, watched, ports, options);
  for (const { plan, fresh, error } of open) {
    const whole = error === undefined && plan.days.every((day) => plan.known.has(day) || fresh.has(day));
    if (plan.recount === "due" && whole && !counted.interrupted)
      await ports.ledger.markRecounted(plan.period.month, options.now);
  }
  const done: CountedMonth[] = [];
  for (const month of open) done.push(countedMonth(tenant, month, options, watched.sighting, before(month.plan, done)));
  const { asked, interrupted, warning } = counted;
  const warned = done.map((month) => withWarning(month, warning));
  // What is interrupted goes on later, and nothing of it is published until then.
  const months = interrupted ? warned : await Promise.all(warned.map((month) => withCpuSeen(month, ports.monitoring)));
  return { months, asked, interrupted };
}

const withWarning = (month: CountedMonth, warning: string | undefined): CountedMonth =>
  warning === undefined || month.days.length === 0 ? month : { ...month, warnings: [...month.warnings, warning] };

/** The days of the month before each month: counted in the same run, or as the ledger has them. */
async function daysBefore(
  plans: readonly MonthPlan[],
  ledger: Ledger,
): Promise<(plan: MonthPlan, counted: readonly CountedMonth[]) => readonly DayUsage[]> {
  const kept = new Map<string, readonly DayUsage[]>();
  for (const { period } of plans) {
    const month = addMonths(period.month, -1);
    if (plans.some((other) => other.period.month === month)) continue;
    kept.set(month, [...(await ledger.read(month)).days.values()]);
  }
  return ({ period }, counted) => {
    const month = addMonths(period.month, -1);
    return counted.find((each) => each.period.month === month)?.days ?? kept.get(month) ?? [];
  };
}

/** What earlier invocations of the same run have counted. */
async function heldMonths(
  tenant: Tenant,
  months: readonly Period[],
  scratch: Checkpoint | undefined,
): Promise<ReadonlyMap<string, Held>> {
  const held = new Map<string, Held>();
  for (const { month } of months) {
    const before = await scratch?.load(tenant, month);
    if (before !== undefined) held.set(month, before);
  }
  return held;
}

/** When monitoring was seen, and the stretch in which that was asked; no window where no day is needed. */
type Watched = { readonly sighting: Sighting; readonly window: Window | undefined };

/** Looks for signs of monitoring, further on where the last day has not settled by then. */
async function watch(
  tenant: Tenant,
  plans: readonly MonthPlan[],
  monitoring: Monitoring,
  now: number,
): Promise<Watched> {
  // Also of the days that an earlier invocation has counted: whether a month shows any sign is judged each time.
  const needed = plans.flatMap((plan) => plan.needed);
  const window = watchWindow(needed, tenant.settle, now, WATCH_DAYS);
  if (window === undefined) return { sighting: NOT_SEEN, window };
  const sighting = await monitoring.seen(window);
  if (observe(needed.slice(-1), sighting, window, tenant.settle, now)[0]?.settled !== false)
    return { sighting, window };
  const whole = watchWindow(needed, tenant.settle, now, Number.MAX_SAFE_INTEGER) ?? window;
  return whole.to > window.to ? { sighting: await monitoring.seen(whole), window: whole } : { sighting, window };
}

/** A month before its pieces are asked: how its days were watched, and what an earlier invocation has counted. */
function openMonth(
  tenant: Tenant,
  plan: MonthPlan,
  held: Held | undefined,
  { sighting, window }: Watched,
  now: number,
): OpenMonth {
  const fresh = new Map<string, FreshDay>(held?.days);
  const missing = plan.needed.filter((day) => !fresh.has(day));
  const observed = window === undefined ? [] : observe(missing, sighting, window, tenant.settle, now);
  const asFar = (each: Observation): Observation => ({
    ...each,
    until: Math.max(each.until, lookAhead(plan, each.day, now)),
  });
  // A day that older rules took as seen, and of which Prometheus has data but no pods, is not known.
  const isSilent = (day: string): boolean =>
    sighting.silent.some(({ from, to }) => from < endOfDay(day) && to > startOf(day));
  const unseen = new Set(observed.filter((each) => each.unseen && plan.older.has(each.day)).map(({ day }) => day));
  const known = new Map([...plan.known].filter(([day]) => !(unseen.has(day) && isSilent(day))));
  return { plan: { ...plan, known }, observed: new Map(observed.map((each) => [each.day, asFar(each)])), fresh };
}

type Counted = {
  readonly asked: { readonly days: number; readonly pieces: number };
  readonly interrupted: boolean;
  readonly warning: string | undefined;
};

/** Asks all pieces, one after the other: memory depends on the largest, not on the months. */
async function countPieces(
  tenant: Tenant,
  months: readonly OpenMonth[],
  held: ReadonlyMap<string, Held>,
  { sighting, window }: Watched,
  ports: CountPorts,
  options: CountOptions,
): Promise<Counted> {
  const { monitoring, ledger } = ports;
  const checks = checksOf(tenant, months, window, monitoring);
  const wanted = months.map((month) => ({ month, days: wantedDays(month, options.allowIncomplete) }));
  const days = wanted.reduce((sum, each) => sum + each.days.length, 0);
  const lastDay = months.flatMap(({ plan }) => plan.needed).at(-1);
  const until = lastDay === undefined ? options.now : Math.min(options.now, endOfDay(lastDay));
  const openPods = new OpenPods([...held.values()].flatMap((each) => [...each.open]));
  const tiling = new Tiling();
  const writing = pLimit(DAYS_AT_ONCE);
  const mostPods = isIndividual(tenant) ? MOST_PODS.jobs : MOST_PODS.figures;
  let pace =
    options.stop !== undefined ? STOPPABLE_PIECE_SIZE : isIndividual(tenant) ? JOBS_PIECE_SIZE : FIRST_PIECE_SIZE;
  const asked = { days: 0, pieces: 0 };
  let warning: string | undefined;
  let done = 0;
  options.progress?.(0, days);
  for (let next = nextPiece(wanted, pace.days); next !== undefined; next = nextPiece(wanted, pace.days)) {
    // The first piece is always counted, so that every invocation gets further.
    if (asked.pieces > 0 && options.stop?.() === true) return { asked, interrupted: true, warning };
    const { month, days: piece } = next;
    asked.pieces += 1;
    asked.days += piece.length;
    const started = monitoring.clock?.();
    try {
      const counted = await countPiece(tenant, monitoring, piece, {
        observed: month.observed,
        seen: sighting.cells,
        tiling,
        until,
      });
      const seconds = started === undefined ? undefined : (monitoring.clock?.() ?? started) - started;
      pace = pieceSizeAfter(pace, { days: piece.length, seconds, pods: counted.finished }, mostPods);
      if (counted.isEmpty) await checks.namespaceKnown();
      const lastEnd = lastEndOf(counted);
      if (lastEnd !== undefined) await checks.labelsOwn(lastEnd);
      if (isWithoutVo(counted)) await checks.voLabelKnown();
      if (counted.days.some(hasJobsWithoutVo)) warning = await checks.voLabelSplit();
      const corrected = openPods.seenAgain(counted, months);
      const taken = counted.days.map((day) => takeDay(day, month, counted));
      await Promise.all([...taken, ...corrected].map((day) => writing(() => store(day, months, ledger))));
      // First what was corrected: a piece that is kept is not asked again, so it would never correct.
      for (const day of corrected) await options.scratch?.correct(tenant, day, openPods.on(day.usage.day));
      await options.scratch?.save(tenant, month.plan.period.month, { open: counted.open, days: taken });
    } catch (error) {
      month.error ??= error;
    }
    done += piece.length;
    options.progress?.(done, days);
  }
  return { asked, interrupted: false, warning };
}

const hasJobsWithoutVo = ({ usage }: { readonly usage: DayUsage }): boolean =>
  usage.groups.some((group) => group.vo === null);

/** The last end of a job, if there is one. */
function lastEndOf({ days }: CountedPiece): number | undefined {
  const ends = days.flatMap(({ usage }) => usage.groups.map((group) => group.lastEnd));
  return ends.length === 0 ? undefined : greatest(ends);
}

/** Checks of the settings that are made at most once, where an answer gives reason to. */
function checksOf(
  tenant: Tenant,
  months: readonly OpenMonth[],
  window: Window | undefined,
  monitoring: Monitoring,
): {
  readonly namespaceKnown: () => Promise<void>;
  readonly labelsOwn: (lastEnd: number) => Promise<void>;
  readonly voLabelKnown: () => Promise<void>;
  readonly voLabelSplit: () => Promise<string | undefined>;
} {
  const known = months.flatMap(({ plan }) => [...plan.known.values()]);
  const hasJobs = known.some((day) => day.groups.length > 0);
  const hasVo = known.some((day) => day.groups.some((group) => group.vo !== null));
  // "Never in the data" means in all of the run's months, or daily runs would be refused where one over all days is not.
  const [first] = months;
  const all = window === undefined || first === undefined ? undefined : { from: first.plan.period.from, to: window.to };
  return {
    namespaceKnown: checkNamespace(tenant, monitoring, all, hasJobs),
    labelsOwn: checkOwnLabels(tenant, monitoring),
    voLabelKnown: checkVoLabel(tenant, monitoring, all, hasVo),
    voLabelSplit: voLabelWarning(tenant, monitoring, window),
  };
}

/** The days of a month that are to be asked: not those that an earlier invocation has counted, nor whole days that were not seen. */
function wantedDays({ plan, observed, fresh }: OpenMonth, allowIncomplete: boolean): readonly string[] {
  return plan.needed
    .filter((day) => !fresh.has(day))
    .filter((day) => allowIncomplete || observed.get(day)?.unseen !== true);
}

/** Takes the next piece off the days that are wanted. */
function nextPiece(
  wanted: { readonly month: OpenMonth; days: readonly string[] }[],
  most: number,
): { readonly month: OpenMonth; readonly days: readonly [string, ...string[]] } | undefined {
  for (const each of wanted) {
    const piece = each.month.error === undefined ? firstPiece(each.days, most) : undefined;
    if (piece === undefined) continue;
    each.days = each.days.slice(piece.length);
    return { month: each.month, days: piece };
  }
  return undefined;
}

/**
 * Takes a fresh day over. Usage that was counted with a shorter sight than the ledger's never replaces it; the single jobs, which
 * the ledger does not have, are then those that are left.
 */
function takeDay(day: CountedPiece["days"][number], month: OpenMonth, { vouched }: CountedPiece): FreshDay {
  const { plan, observed, fresh } = month;
  const { day: name } = day.usage;
  const known = plan.known.get(name);
  const sawLess =
    known !== undefined &&
    (observed.get(name)?.unseen === true ||
      (gapSeconds(known) < gapSeconds(day.usage) && (!plan.older.has(name) || jobsOf(day.usage) < jobsOf(known))));
  const few = vouched.few.get(name);
  const taken: FreshDay = {
    usage: sawLess ? known : day.usage,
    jobs: day.jobs,
    settled: observed.get(name)?.settled === true,
    ...(sawLess ? {} : { fault: vouched.faults.get(name), unproven: vouched.unproven.has(name) }),
    ...(few === undefined ? {} : { few }),
  };
  fresh.set(name, taken);
  return taken;
}

/** Stores a day that is settled and of which the monitoring vouches for the facts. */
async function store(day: FreshDay, months: readonly OpenMonth[], ledger: Ledger): Promise<void> {
  const { usage } = day;
  const month = months.find(({ fresh }) => fresh.get(usage.day) === day);
  if (month === undefined || month.plan.known.get(usage.day) === usage) return;
  if (month.observed.get(usage.day)?.unseen === true) return;
  if (day.settled !== true || day.fault !== undefined || day.unproven === true) return;
  await ledger.write(usage);
}
