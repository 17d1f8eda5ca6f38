import pLimit from "p-limit";
import { GridmeterError } from "../../shared/errors.ts";
import type { Monitoring } from "../model/monitoring.ts";
import type { Tenant } from "../model/tenant.ts";
import { addMonths, endOfDay } from "../model/time.ts";
import { type Period } from "../model/periods.ts";
import { LongestWindows } from "../model/split.ts";
import { withCpuSeen } from "./missing-cpu.ts";
import type { Checkpoint, FreshDay, KeptDays } from "./checkpoint.ts";
import { type CountedMonth, countedMonth } from "./count-month.ts";
import { type CountedPiece, countPiece } from "./count-piece.ts";
import { type Coverage, NOT_LOOKED_FOR, findCoverage } from "./settled-days.ts";
import type { Ledger } from "./ledger.ts";
import { type MonthPlan, type PlanOptions, planMonth } from "./month-plan.ts";
import {
  type OpenMonth,
  OpenPods,
  isStorable,
  monthOfDay,
  openMonth,
  takeDay,
  wantedDays,
} from "./month-in-progress.ts";
import { type Piece, firstPiece, firstPieceSize, pieceSizeAfter } from "./pieces.ts";
import { Preflight } from "./preflight.ts";
import type { DayUsage } from "./usage.ts";

/** Days that are written to the ledger at the same time: each waits for a disk or a bucket. */
const DAYS_AT_ONCE = 8;

export type TenantCount = {
  readonly months: readonly CountedMonth[];
  /** what Prometheus was asked for */
  readonly asked: { readonly days: number; readonly pieces: number };
  /** stopped before all pieces were counted (`CountOptions.stop`) */
  readonly interrupted: boolean;
};

type CountOptions = PlanOptions & {
  readonly allowIncomplete: boolean;
  /** asked before each piece: true ends the counting; settled days are stored by then */
  readonly stop?: () => boolean;
  /** keeps what is counted for the next invocation of the same run */
  readonly checkpoint?: Checkpoint;
  readonly progress?: (done: number, days: number) => void;
};

type CountPorts = { readonly monitoring: Monitoring; readonly ledger: Ledger };

/**
 * Counts a tenant's months: takes settled days from the ledger, asks Prometheus for the others, and stores those that have
 * settled. A fault of one month does not fail another: it is returned as the month's error.
 */
export async function countTenant(
  tenant: Tenant,
  periods: readonly Period[],
  ports: CountPorts,
  options: CountOptions,
): Promise<TenantCount> {
  const { monitoring, ledger } = ports;
  const plans = await Promise.all(periods.map((period) => planMonth(tenant, period, ledger, options)));
  const kept = await loadCheckpoint(tenant, periods, options.checkpoint);
  // Also of days that an earlier invocation has counted: each invocation judges the whole month.
  const needed = plans.flatMap((plan) => plan.needed);
  let coverage: Coverage;
  try {
    coverage = await findCoverage(needed, tenant.settle, monitoring, options.now);
  } catch (error) {
    return uncounted(tenant, plans, kept, ledger, options, error);
  }
  const months = plans.map((plan) => openMonth(tenant, plan, kept.get(plan.period.month), coverage, options.now));
  const { asked, interrupted, warning } = await countPieces(tenant, months, kept, coverage, ports, options);
  if (!interrupted) await markRecounts(months, ledger, options.now);
  const counted = await countedMonths(tenant, months, ledger, coverage, options);
  const warned = counted.map((month) => withWarning(month, warning));
  // An interrupted run goes on later, and publishes nothing before.
  if (interrupted) return { months: warned, asked, interrupted };
  return { months: await Promise.all(warned.map((month) => withCpuSeen(month, monitoring))), asked, interrupted };
}

/** The months of a tenant that --tenant leaves out, as the ledger has them. A month of which days are missing has an error. */
export async function readTenant(
  tenant: Tenant,
  periods: readonly Period[],
  ledger: Ledger,
  options: CountOptions,
): Promise<TenantCount> {
  const onlyRead = { ...options, recount: false, auto: false, jobsWanted: () => false };
  const plans = await Promise.all(periods.map((period) => planMonth(tenant, period, ledger, onlyRead)));
  const months = plans.map((plan) => {
    const month = openMonth(tenant, plan, undefined, NOT_LOOKED_FOR, options.now);
    return plan.needed.length === 0 ? month : { ...month, error: ledgerIncomplete(tenant, plan) };
  });
  const counted = await countedMonths(tenant, months, ledger, NOT_LOOKED_FOR, onlyRead);
  return { months: counted, asked: { days: 0, pieces: 0 }, interrupted: false };
}

function ledgerIncomplete(tenant: Tenant, { period, needed }: MonthPlan): GridmeterError {
  return new GridmeterError(
    "ledger_incomplete",
    `${tenant.name} shares ${tenant.site} ${tenant.submitHost} but was left out by --tenant, and ${needed.length} of its days of ${period.month} are not settled in the ledger ` +
      `(first: ${needed[0] ?? ""}). Nothing was published for that month, since it would be too low. Run without --tenant.`,
  );
}

async function loadCheckpoint(
  tenant: Tenant,
  periods: readonly Period[],
  checkpoint: Checkpoint | undefined,
): Promise<ReadonlyMap<string, KeptDays>> {
  const kept = new Map<string, KeptDays>();
  if (checkpoint !== undefined) for (const { month } of periods) kept.set(month, await checkpoint.load(tenant, month));
  return kept;
}

/** The months where it could not be asked when monitoring was seen: those that lack days have that error. */
async function uncounted(
  tenant: Tenant,
  plans: readonly MonthPlan[],
  kept: ReadonlyMap<string, KeptDays>,
  ledger: Ledger,
  options: CountOptions,
  error: unknown,
): Promise<TenantCount> {
  const months = plans.map((plan) => {
    const month = openMonth(tenant, plan, kept.get(plan.period.month), NOT_LOOKED_FOR, options.now);
    return plan.needed.every((day) => month.fresh.has(day)) ? month : { ...month, error };
  });
  const counted = await countedMonths(tenant, months, ledger, NOT_LOOKED_FOR, options);
  return { months: counted, asked: { days: 0, pieces: 0 }, interrupted: false };
}

type AskedPieces = {
  readonly asked: TenantCount["asked"];
  readonly interrupted: boolean;
  /** for each month */
  readonly warning: string | undefined;
};

/** Counts all pieces, one after the other: memory holds the pods of one piece, however many months there are. */
async function countPieces(
  tenant: Tenant,
  months: readonly OpenMonth[],
  kept: ReadonlyMap<string, KeptDays>,
  coverage: Coverage,
  { monitoring, ledger }: CountPorts,
  options: CountOptions,
): Promise<AskedPieces> {
  const wanted = months.map((month) => ({ month, days: wantedDays(month, options.allowIncomplete) }));
  const days = wanted.reduce((sum, each) => sum + each.days.length, 0);
  const preflight = preflightOf(tenant, months, coverage, monitoring);
  const openPods = new OpenPods(kept.values());
  const longest = new LongestWindows();
  const until = endOfNeeded(months, options.now);
  const asked = { days: 0, pieces: 0 };
  let size = firstPieceSize(tenant, options.stop !== undefined);
  options.progress?.(0, days);
  for (let next = nextPiece(wanted, size.days); next !== undefined; next = nextPiece(wanted, size.days)) {
    // The first piece is always counted, so that every invocation gets further.
    if (asked.pieces > 0 && options.stop?.() === true) return { asked, interrupted: true, warning: preflight.warning };
    const { month, piece } = next;
    asked.pieces += 1;
    asked.days += piece.length;
    try {
      const { observed } = month;
      const seen = coverage.sighting.cells;
      const counted = await countPiece(tenant, monitoring, piece, { observed, seen, longest, until });
      size = pieceSizeAfter(size, { days: piece.length, pods: counted.finished });
      await preflight.check(counted);
      await keepPiece(tenant, counted, month, months, openPods, ledger, options.checkpoint);
    } catch (error) {
      month.error ??= error;
    }
    options.progress?.(asked.days, days);
  }
  return { asked, interrupted: false, warning: preflight.warning };
}

function preflightOf(
  tenant: Tenant,
  months: readonly OpenMonth[],
  { window }: Coverage,
  monitoring: Monitoring,
): Preflight {
  const [first] = months;
  const known = months.flatMap(({ plan }) => [...plan.known.values()]);
  const all = window === undefined || first === undefined ? undefined : { from: first.plan.period.from, to: window.to };
  return new Preflight(tenant, monitoring, { known, months: all, window });
}

/** The end of all days that the run asks for, or now. */
function endOfNeeded(months: readonly OpenMonth[], now: number): number {
  const last = months.flatMap(({ plan }) => plan.needed).at(-1);
  return last === undefined ? now : Math.min(now, endOfDay(last));
}

/** Takes the next piece off the days that are wanted. */
function nextPiece(
  wanted: { readonly month: OpenMonth; days: readonly string[] }[],
  most: number,
): { readonly month: OpenMonth; readonly piece: Piece } | undefined {
  for (const each of wanted) {
    const piece = each.month.error === undefined ? firstPiece(each.days, most) : undefined;
    if (piece === undefined) continue;
    each.days = each.days.slice(piece.length);
    return { month: each.month, piece };
  }
  return undefined;
}

/** Takes a counted piece into its month, the ledger and the checkpoint, with the earlier days that it corrects. */
async function keepPiece(
  tenant: Tenant,
  piece: CountedPiece,
  month: OpenMonth,
  months: readonly OpenMonth[],
  openPods: OpenPods,
  ledger: Ledger,
  checkpoint: Checkpoint | undefined,
): Promise<void> {
  const corrected = openPods.take(piece, months);
  const taken = piece.days.map((day) => takeDay(day, month, piece));
  const limit = pLimit(DAYS_AT_ONCE);
  await Promise.all([...taken, ...corrected].map((day) => limit(() => store(day, months, ledger))));
  // What was corrected goes first: a piece in the checkpoint is not asked for again, so nothing would correct it later.
  for (const day of corrected) await checkpoint?.correct(tenant, day, openPods.on(day.usage.day));
  await checkpoint?.save(tenant, month.plan.period.month, taken, piece.open);
}

async function store(day: FreshDay, months: readonly OpenMonth[], ledger: Ledger): Promise<void> {
  const month = monthOfDay(day.usage.day, months);
  if (month !== undefined && isStorable(day, month)) await ledger.write(day.usage);
}

/** Remembers the recounts that were due and are done: those of months without an error of which no day is missing. */
async function markRecounts(months: readonly OpenMonth[], ledger: Ledger, now: number): Promise<void> {
  for (const { plan, fresh, error } of months) {
    const isWhole = plan.days.every((day) => plan.known.has(day) || fresh.has(day));
    if (plan.recount === "due" && error === undefined && isWhole) await ledger.markRecounted(plan.period.month, now);
  }
}

/** The months, ascending, each compared with the one before: as it was counted in this run, or else as the ledger has it. */
async function countedMonths(
  tenant: Tenant,
  months: readonly OpenMonth[],
  ledger: Ledger,
  { sighting }: Coverage,
  options: CountOptions,
): Promise<readonly CountedMonth[]> {
  const counted: CountedMonth[] = [];
  for (const month of months) {
    const before = addMonths(month.plan.period.month, -1);
    const daysBefore = async (): Promise<readonly DayUsage[]> =>
      counted.find(({ period }) => period.month === before)?.days ?? [...(await ledger.read(before)).days.values()];
    counted.push(await countedMonth(tenant, month, options, sighting, daysBefore));
  }
  return counted;
}

const withWarning = (month: CountedMonth, warning: string | undefined): CountedMonth =>
  warning === undefined || month.days.length === 0 ? month : { ...month, warnings: [...month.warnings, warning] };
