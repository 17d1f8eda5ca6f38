import { GridmeterError, errorText } from "../../shared/errors.ts";
import { greatest } from "../../shared/lists.ts";
import type { CountedMonth } from "../counting/count-month.ts";
import { type Damage, setAsideDamaged } from "../store/json.ts";
import type { ObjectStore } from "../store/store.ts";
import { type Tenant, type Unit, isIndividual, unitName, voOf } from "../model/tenant.ts";
import { type GuardReport, type Move, guard, jobRecordsFault, unitKey } from "./guards.ts";
import { cpuFault } from "../counting/missing-cpu.ts";
import { apelKey } from "../apel/replace-keys.ts";
import { readMessage } from "../apel/read.ts";
import type { ApelRecord } from "../apel/record.ts";
import {
  type OutgoingKey,
  type OutgoingMessage,
  contentFault,
  listGenerations,
  putGeneration,
} from "../delivery/outgoing.ts";
import { type DecideOptions, type Decision, type Want, decide } from "./decide.ts";
import { individualWant } from "./jobs.ts";
import { type MonthlyRecord, monthlyRecords } from "./records.ts";
import { type Figure, type HeldState, type UnitState, readState, readStates, sourceOf, writeState } from "./state.ts";

/** How often a month is decided again because another run changed a state meanwhile. */
const TRIES = 5;

/** What became of a unit in this run. `failed`: it could not be counted or stored; `refused`: it must not be published. */
export type UnitOutcome = {
  readonly unit: Unit;
  readonly tenants: readonly string[];
  readonly status: "published" | "unchanged" | "refused" | "failed" | "empty";
  readonly why?: "new" | "changed" | "again";
  readonly generation?: number;
  readonly keys?: readonly string[];
  /** the texts that were stored, made again each time they are asked for: those of single jobs may be large together */
  readonly messages?: Iterable<string>;
  readonly error?: unknown;
};

type PublishOptions = Omit<DecideOptions, "open"> & {
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
  const jobSources = months.filter((month) => isIndividual(month.tenant)).map((month) => sourceOf(month.tenant));
  const monthlyJobs = figures
    .filter((figure) => !jobSources.includes(figure.source))
    .reduce((sum, figure) => sum + figure.jobs, 0);
  const singleJobs = jobSources
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
      const outcome = await settle(stores, held === undefined ? each : refusedMove(each, held));
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
  const countedTwice = jobRecordsFault(
    unit,
    months,
    states.map((each) => each.state),
  );
  if (countedTwice !== undefined) return { action: "refuse", error: countedTwice };
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
    `${unitName(unit)}: tenant ${tenant} moved from ${from.site} ${from.submitHost} to ${to.site} ${to.submitHost}, and only both ` +
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

function* textsOf(messages: Iterable<OutgoingMessage>): Generator<string> {
  for (const { body } of messages) yield body;
}

async function settle(stores: Stores, each: Case): Promise<UnitOutcome | undefined> {
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
        published = await publish(stores, decision, each.held);
      } catch (error) {
        return { ...about(each), status: "failed", error };
      }
      if (published === undefined) return undefined;
      return {
        ...about(each),
        status: "published",
        why: decision.why,
        ...published,
        messages: { [Symbol.iterator]: () => textsOf(decision.checked.messages) },
      };
    }
  }
}

const blank = (unit: Unit): UnitState => ({ unit, generation: 0, pins: [], known: [] });

/**
 * The state of a unit; a new or a damaged one begins where the messages in the store end, so that no generation is ever
 * given twice and rows that were published are still known.
 */
export async function openState(
  { store, outbox }: Stores,
  unit: Unit,
  now: number,
  damaged: (damage: Damage) => void,
): Promise<{ state: UnitState; version: string | undefined }> {
  const held = await readState(store, unit, damaged);
  if (held?.state !== undefined) return { state: held.state, version: held.version };
  return { state: await recover(outbox, unit, now, damaged), version: held?.version };
}

async function recover(
  outbox: ObjectStore,
  unit: Unit,
  now: number,
  damaged: (damage: Damage) => void,
): Promise<UnitState> {
  const generations = await listGenerations(outbox, unit);
  const generation = Math.max(0, greatest(generations.keys()));
  const known = new Map<string, MonthlyRecord>();
  // All that is kept and not the newest only: a hand-written generation does not hold the whole unit.
  for (const key of [...generations.values()].flat()) {
    for (const record of await monthlyOf(outbox, key, now, damaged)) known.set(apelKey(record), record);
  }
  return { ...blank(unit), generation, known: [...known.values()] };
}

/** The monthly records of a message; none of one that is not what its key says, which nothing sends either. */
async function monthlyOf(
  outbox: ObjectStore,
  key: OutgoingKey,
  now: number,
  damaged: (damage: Damage) => void,
): Promise<readonly MonthlyRecord[]> {
  const object = key.kind === "individual" ? undefined : await outbox.get(key.key);
  if (object === undefined) return [];
  const read = recordsUnder(key, object.body, now);
  if ("fault" in read) {
    damaged(await setAsideDamaged(outbox, key.key, object.body, read.fault));
    return [];
  }
  return read.records.filter((record) => record.kind === "summary" || record.kind === "normalised");
}

function recordsUnder(
  key: OutgoingKey,
  body: string,
  now: number,
): { readonly fault: string } | { readonly records: readonly ApelRecord[] } {
  const fault = contentFault(key, body, now);
  if (fault !== undefined) return { fault };
  try {
    return { records: readMessage(body, now) };
  } catch (thrown) {
    return { fault: errorText(thrown) };
  }
}

/** Where a unit's state lives, and where its messages go. */
export type Stores = { readonly store: ObjectStore; readonly outbox: ObjectStore };

export type Published = { readonly generation: number; readonly keys: readonly string[] };

/**
 * Publishes a decision under a new generation: reserves it in the unit's state, stores the messages, then confirms. It may
 * be killed between any two steps: the state then says "pending", and the next run publishes again with a later generation.
 * @param held the state that the decision was made from
 * @returns undefined if another run changed the state meanwhile; nothing was written then
 * @throws GridmeterError `store_failed`
 */
export async function publish(
  { store, outbox }: Stores,
  decision: Extract<Decision, { action: "publish" }>,
  held: { readonly state: UnitState; readonly version: string | undefined },
): Promise<Published | undefined> {
  const { unit } = held.state;
  const generation = held.state.generation + 1;
  const publication = { ...decision.publication, generation };
  const reserved: UnitState = { ...held.state, generation, pending: publication };
  if ((await writeState(store, reserved, held.version)) === "conflict") return undefined;
  const keys = await putGeneration(outbox, generation, decision.checked);
  await confirm(store, unit, generation);
  return { generation, keys };
}

/** Turns the reserved publication into the published one, unless a later run has reserved another since. */
async function confirm(store: ObjectStore, unit: Unit, generation: number): Promise<void> {
  const held: HeldState | undefined = await readState(store, unit, () => undefined);
  if (held?.state?.pending?.generation !== generation) return;
  const { pending, known: _covered, ...rest } = held.state;
  await writeState(store, { ...rest, published: pending, known: [] }, held.version);
}

/** The error after too many conflicts. */
export function conflictError(unit: Unit, times: number): GridmeterError {
  return new GridmeterError(
    "store_conflict",
    `${unitName(unit)}: another run changed its state ${times} times while this one was publishing. ` +
      "Nothing of this run was published for it. See that not two schedules run the same accounting, and run it again.",
  );
}
