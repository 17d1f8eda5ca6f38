import type { ApelMessage } from "../apel/write.ts";
import { GridmeterError } from "../errors.ts";
import type { CountedMonth } from "./counted-month.ts";
import { decide } from "./decide.ts";
import type { DecideOptions, Decision, Want } from "./decide.ts";
import { guard, unitKey } from "./guard.ts";
import type { GuardReport, Move } from "./guard.ts";
import { individualWant } from "./individual.ts";
import type { Damage } from "./ledger.ts";
import { conflictError, openState, publish } from "./publish.ts";
import type { Published, Stores } from "./publish.ts";
import { isIndividual, monthlyRecords } from "./records.ts";
import { singlesFault } from "./singles.ts";
import { readStates, sourceOf } from "./state.ts";
import type { Figure, UnitState } from "./state.ts";
import { voOf } from "./tenant.ts";
import type { Tenant, Unit } from "./tenant.ts";
import { cpuFault } from "./cpu-share.ts";

/** How often a month is decided anew because another run changed a state meanwhile. */
const TRIES = 5;

/** What became of a unit in this run. `failed`: it could not be counted or stored; `refused`: it must not be published. */
export type UnitOutcome = {
  readonly unit: Unit;
  readonly tenants: readonly string[];
  readonly status: "published" | "unchanged" | "refused" | "failed" | "empty";
  readonly why?: "new" | "changed" | "again";
  readonly generation?: number;
  readonly keys?: readonly string[];
  /** the texts that were stored, made anew each time they are asked for: those of single jobs may be large together */
  readonly messages?: Iterable<string>;
  readonly error?: unknown;
};

export type PublishOptions = Omit<DecideOptions, "open"> & {
  readonly open: (month: string) => boolean;
  readonly damaged: (damage: Damage) => void;
  /** only the units of these tenants are published, and those that a moved tenant ties to them; all if absent */
  readonly only?: readonly string[];
};

type Held = { readonly state: UnitState; readonly version: string | undefined };
type Case = {
  readonly unit: Unit;
  readonly months: readonly CountedMonth[];
  readonly held: Held;
  readonly decision: Decision | { action: "failed"; error: unknown } | { action: "empty" };
};

/** A counted tenant's figures by VO: what the guard compares, whatever model and format. */
export function figuresOf(month: CountedMonth): Figure[] {
  const byVo = new Map<string, Figure>();
  const { tenant } = month;
  for (const group of month.days.flatMap((day) => day.groups)) {
    const vo = voOf(group.vo, tenant);
    const held = byVo.get(vo) ?? { tenant: tenant.name, source: sourceOf(tenant), vo, jobs: 0, milliCoreSeconds: 0 };
    byVo.set(vo, {
      ...held,
      jobs: held.jobs + group.jobs,
      milliCoreSeconds: held.milliCoreSeconds + group.milliCoreSeconds,
    });
  }
  return [...byVo.values()];
}

/** What the unit should hold at APEL, from its tenants' counted months. */
function wantOf(unit: Unit, months: readonly CountedMonth[], state: UnitState): Want {
  const contributions = months.map((month) => ({
    tenant: month.tenant,
    groups: month.days.flatMap((day) => day.groups),
  }));
  const published = state.published?.individual ?? {};
  const individual = individualWant(
    months.filter((month) => isIndividual(month.tenant)),
    published,
  );
  const figures = months.flatMap(figuresOf);
  const singles = months.filter((month) => isIndividual(month.tenant)).map((month) => sourceOf(month.tenant));
  const monthlyJobs = figures
    .filter((figure) => !singles.includes(figure.source))
    .reduce((sum, figure) => sum + figure.jobs, 0);
  const singleJobs = singles
    .flatMap((source) => Object.values({ ...published[source], ...individual.days[source] }))
    .reduce((sum, jobs) => sum + jobs, 0);
  // Only Gratia takes single jobs without a service level, and it knows no sync record.
  const forGratia =
    months.length > 0 && months.every(({ tenant }) => isIndividual(tenant) && tenant.serviceLevel === undefined);
  return {
    unit,
    format: months[0]?.tenant.format ?? "summary-0.2",
    records: monthlyRecords(unit, contributions),
    figures,
    sync: forGratia ? null : monthlyJobs + singleJobs,
    individual,
  };
}

/**
 * Decides all units of one month together and publishes them. Together, because a tenant that moved to another site or
 * submit host must leave one unit and appear in the other, both or neither; units that lose go first.
 */
export async function publishMonth(
  stores: Stores,
  month: string,
  counted: readonly CountedMonth[],
  options: PublishOptions,
): Promise<readonly UnitOutcome[]> {
  const outcomes = new Map<string, UnitOutcome>();
  for (let attempt = 0; attempt < TRIES; attempt += 1) {
    const { cases, moves } = await decideMonth(stores, month, counted, options);
    let conflict = false;
    for (const each of cases) {
      const key = unitKey(each.unit);
      if (outcomes.get(key)?.status === "published") continue;
      const held = moves.find(
        ({ from, to }) => unitKey(to) === key && outcomes.get(unitKey(from))?.status === "failed",
      );
      const outcome = await settle(stores, held === undefined ? each : refusedMove(each, held), options.now);
      conflict ||= outcome === undefined;
      outcomes.set(key, outcome ?? { ...about(each), status: "failed", error: conflictError(each.unit, TRIES) });
    }
    if (!conflict) break;
  }
  return [...outcomes.values()];
}

async function decideMonth(
  stores: Stores,
  month: string,
  counted: readonly CountedMonth[],
  options: PublishOptions,
): Promise<{ readonly cases: readonly Case[]; readonly moves: readonly Move[] }> {
  const current = (tenant: Tenant): Unit => ({ site: tenant.site, submitHost: tenant.submitHost, month });
  const states = await readStates(stores.store, month, options.damaged);
  const report = guard(
    states.map(({ state }) => state),
    counted.map((each) => ({ tenant: each.tenant, figures: each.error === undefined ? figuresOf(each) : undefined })),
    current,
  );
  const units = new Map<string, Unit>();
  for (const unit of [...report.left, ...counted.map(({ tenant }) => current(tenant))]) units.set(unitKey(unit), unit);
  const chosen = options.only === undefined ? undefined : chosenUnits(counted, options.only, current, report);
  for (const key of units.keys()) if (chosen?.has(key) === false) units.delete(key);
  const cases: Case[] = [];
  for (const [key, unit] of units) {
    const months = counted.filter(({ tenant }) => unitKey(current(tenant)) === key);
    // The very state the guard compared with, so that compare-and-set notices whatever came in between.
    const held =
      states.find(({ state }) => unitKey(state.unit) === key) ??
      (await openState(stores, unit, options.now, options.damaged));
    cases.push({ unit, months, held, decision: decideUnit(unit, months, held.state, states, report, options) });
  }
  return { cases: inOrder(coupled(cases, report), report), moves: report.moves };
}

/** The units of the chosen tenants and all that moved tenants tie to them. */
function chosenUnits(
  counted: readonly CountedMonth[],
  only: readonly string[],
  current: (tenant: Tenant) => Unit,
  report: GuardReport,
): ReadonlySet<string> {
  const chosen = new Set(
    counted.filter(({ tenant }) => only.includes(tenant.name)).map(({ tenant }) => unitKey(current(tenant))),
  );
  for (let before = -1; before !== chosen.size;) {
    before = chosen.size;
    for (const { from, to } of report.moves) {
      if (chosen.has(unitKey(from)) || chosen.has(unitKey(to))) chosen.add(unitKey(from)).add(unitKey(to));
    }
  }
  return chosen;
}

function decideUnit(
  unit: Unit,
  months: readonly CountedMonth[],
  state: UnitState,
  states: readonly { readonly state: UnitState }[],
  report: GuardReport,
  options: PublishOptions,
): Case["decision"] {
  const failed = months.find((each) => each.error !== undefined);
  if (failed !== undefined) return { action: "failed", error: failed.error };
  if (months.length > 0 && months.every((each) => each.empty)) return { action: "empty" };
  const cpu = cpuFault(unit, months);
  if (cpu !== undefined) return { action: "refuse", error: cpu };
  const singles = singlesFault(
    unit,
    months,
    states.map((each) => each.state),
  );
  if (singles !== undefined) return { action: "refuse", error: singles };
  try {
    const decideOptions = { ...options, open: options.open(unit.month) };
    return decide(wantOf(unit, months, state), state, report.decreases.get(unitKey(unit)) ?? [], decideOptions);
  } catch (error) {
    return { action: "failed", error };
  }
}

const stopped = (each: Case): boolean => each.decision.action === "refuse" || each.decision.action === "failed";

/** Units joined by a moved tenant are published all or none. */
function coupled(cases: readonly Case[], report: GuardReport): readonly Case[] {
  const byKey = new Map(cases.map((each) => [unitKey(each.unit), each]));
  for (let changed = true; changed;) {
    changed = false;
    for (const move of report.moves) {
      const { from, to } = move;
      const [a, b] = [byKey.get(unitKey(from)), byKey.get(unitKey(to))];
      for (const [one, other] of [
        [a, b],
        [b, a],
      ]) {
        if (one === undefined || stopped(one) || (other !== undefined && !stopped(other))) continue;
        byKey.set(unitKey(one.unit), refusedMove(one, move));
        changed = true;
      }
    }
  }
  return [...byKey.values()];
}

function refusedMove(each: Case, { tenant, from, to }: Move): Case {
  const { unit } = each;
  const error = new GridmeterError(
    "moved_tenant_refused",
    `${unit.site} ${unit.submitHost} ${unit.month}: tenant ${tenant} moved from ${from.site} ${from.submitHost} to ${to.site} ${to.submitHost}, and only both ` +
      "together may be published, or its jobs would count twice or not at all. Nothing was published for either. Mend what the other one says.",
  );
  return { ...each, decision: { action: "refuse", error } };
}

/** Units that lose a tenant before those that gain it. */
function inOrder(cases: readonly Case[], report: GuardReport): readonly Case[] {
  const losing = new Set(report.moves.map(({ from }) => unitKey(from)));
  return [...cases].sort((a, b) => Number(losing.has(unitKey(b.unit))) - Number(losing.has(unitKey(a.unit))));
}

const about = (each: Case): Pick<UnitOutcome, "unit" | "tenants"> => ({
  unit: each.unit,
  tenants: each.months.map(({ tenant }) => tenant.name),
});

function* textsOf(messages: Iterable<ApelMessage>): Generator<string> {
  for (const { body } of messages) yield body;
}

async function settle(stores: Stores, each: Case, now: number): Promise<UnitOutcome | undefined> {
  const { decision } = each;
  switch (decision.action) {
    case "empty":
    case "unchanged":
      return { ...about(each), status: decision.action };
    case "refuse":
      return { ...about(each), status: "refused", error: decision.error };
    case "failed": {
      const refused = decision.error instanceof GridmeterError && decision.error.exit === 3;
      return { ...about(each), status: refused ? "refused" : "failed", error: decision.error };
    }
    case "publish": {
      let published: Published | undefined;
      try {
        published = await publish(stores, decision, each.held, now);
      } catch (error) {
        return { ...about(each), status: "failed", error };
      }
      if (published === undefined) return undefined;
      return {
        ...about(each),
        status: "published",
        why: decision.why,
        ...published,
        messages: { [Symbol.iterator]: () => textsOf(decision.messages) },
      };
    }
  }
}
