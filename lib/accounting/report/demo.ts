import { Ledger } from "../counting/ledger.ts";
import type { DayUsage, UsageGroup } from "../counting/usage.ts";
import { type Tenant, voOf } from "../model/tenant.ts";
import { DAY, HOUR, addMonths, dayOf, endOfMonth, monthOf, startOf } from "../model/time.ts";
import { monthlyRecords } from "../publishing/records.ts";
import { type Figure, sourceOf, writeState } from "../publishing/state.ts";
import { MemoryStore, type ObjectStore } from "../store/store.ts";

/** How many months the made-up ledger has, the current one included. */
const MONTHS = 6;

const SITE = { site: "MADE-UP-SITE", submitHost: "k8s.example.org:6443/demo" };

/** The tenants of the made-up ledger. */
export const DEMO_TENANTS: readonly Tenant[] = [
  demoTenant("atlas", { model: "wallclock" }),
  demoTenant("cms", { model: "wallclock" }),
  demoTenant("shared", { vo: "ops" }),
];

function demoTenant(name: string, more: Partial<Tenant>): Tenant {
  return {
    name,
    selection: { namespace: `${name}-jobs`, matchers: [], labelPrefix: "" },
    ...SITE,
    vo: name,
    infrastructureType: "grid",
    nodeCount: 1,
    processors: 1,
    model: "core-seconds",
    format: "summary-0.4",
    serviceLevel: { type: "hepscore23", value: 14.2 },
    settle: 6 * HOUR,
    ...more,
  };
}

/** How much each tenant does of each VO and size on an ordinary day: jobs, their mean hours, and their CPU efficiency. */
const LOAD: Readonly<
  Record<
    string,
    readonly (readonly [vo: string | null, cores: number, jobs: number, hours: number, efficiency: number])[]
  >
> = {
  atlas: [
    [null, 8, 210, 9.5, 0.91],
    [null, 1, 420, 3.2, 0.78],
  ],
  cms: [
    [null, 8, 120, 7.5, 0.84],
    [null, 4, 60, 5, 0.88],
  ],
  shared: [
    ["biomed", 1, 260, 1.4, 0],
    ["belle", 2, 90, 4.2, 0],
    [null, 1, 48, 0.1, 0],
  ],
};

/**
 * A ledger in memory with six months of made-up days, and the states of their publications: what `report --demo` shows. It is filled as
 * a run fills it. The same moment gives the same ledger.
 */
export async function demoLedger(now: number): Promise<ObjectStore> {
  const store = new MemoryStore();
  const damaged = (): void => undefined;
  const last = monthOf(now);
  const settledUntil = now - 6 * HOUR - DAY;
  for (let month = addMonths(last, 1 - MONTHS); month <= last; month = addMonths(month, 1)) {
    const counted: { tenant: Tenant; days: DayUsage[] }[] = [];
    for (const tenant of DEMO_TENANTS) {
      const ledger = new Ledger(store, tenant, damaged);
      const days: DayUsage[] = [];
      for (let from = startOf(month); from < Math.min(endOfMonth(month), now); from += DAY) {
        const usage = madeUpDay(tenant, dayOf(from));
        days.push(usage);
        if (from <= settledUntil) await ledger.write(usage);
      }
      counted.push({ tenant, days });
    }
    await publish(store, month, counted, Math.min(now, endOfMonth(month) + 3 * DAY + 2 * HOUR));
  }
  return store;
}

/** The state as it is after the last run: all days that had begun were published, those not settled too. */
async function publish(
  store: ObjectStore,
  month: string,
  counted: readonly { readonly tenant: Tenant; readonly days: readonly DayUsage[] }[],
  at: number,
): Promise<void> {
  const unit = { ...SITE, month };
  const contributions = counted.map(({ tenant, days }) => ({ tenant, groups: days.flatMap(({ groups }) => groups) }));
  const figures = new Map<string, Figure>();
  for (const { tenant, groups } of contributions) {
    for (const group of groups) {
      const vo = voOf(group.vo, tenant);
      const key = JSON.stringify([tenant.name, vo]);
      const held = figures.get(key);
      const jobs = (held?.jobs ?? 0) + group.jobs;
      const milliCoreSeconds = (held?.milliCoreSeconds ?? 0) + group.milliCoreSeconds;
      figures.set(key, { tenant: tenant.name, source: sourceOf(tenant), vo, jobs, milliCoreSeconds });
    }
  }
  const sync = [...figures.values()].reduce((sum, { jobs }) => sum + jobs, 0);
  const generation = Math.max(1, Math.ceil((at - startOf(month)) / DAY));
  const published = {
    generation,
    at,
    hash: `demo-${month}`,
    records: [...monthlyRecords(unit, contributions)],
    sync,
    figures: [...figures.values()],
    individual: {},
  };
  await writeState(store, { unit, generation, published, pins: [], known: [] }, undefined);
}

function madeUpDay(tenant: Tenant, day: string): DayUsage {
  const random = numbersOf(`${tenant.name} ${day}`);
  const weekday = Math.floor(startOf(day) / DAY) % 7;
  const busy = ([2, 3].includes(weekday) ? 0.6 : 1) * (0.7 + 0.6 * random());
  const groups = (LOAD[tenant.name] ?? []).map((load) => madeUpGroup(load, tenant, day, busy, random));
  const isGap = day.endsWith("-11") && tenant.name !== "cms";
  return {
    day,
    groups: groups.filter(({ jobs }) => jobs > 0),
    leftOut: {
      no_cpu_request: tenant.name === "shared" ? Math.floor(random() * 4) : 0,
      negative_duration: 0,
      no_start: 0,
      not_finished: 0,
      no_end: Math.floor(random() * 3),
    },
    succeededLeftOut: 0,
    gaps: isGap ? [{ from: startOf(day) + 9 * HOUR, to: startOf(day) + 11 * HOUR + 1200 }] : [],
    cpuAsked: tenant.model === "wallclock",
  };
}

function madeUpGroup(
  [vo, cores, usual, hours, efficiency]: readonly [string | null, number, number, number, number],
  { model }: Tenant,
  day: string,
  busy: number,
  random: () => number,
): UsageGroup {
  const jobs = Math.round(usual * busy);
  const wallSeconds = Math.round(jobs * hours * HOUR * (0.8 + 0.4 * random()));
  const milliCoreSeconds = wallSeconds * cores * 1000;
  // Of some jobs CPU use is not known, as on a real cluster.
  const known = Math.round(milliCoreSeconds * 0.985);
  const used = Math.round(known * efficiency * (0.95 + 0.1 * random()));
  const cpu = { milliseconds: used, jobs: Math.round(jobs * 0.985), milliCoreSeconds: known };
  return {
    vo,
    milliCores: cores * 1000,
    jobs,
    wallSeconds,
    milliCoreSeconds,
    ...(model === "wallclock" ? { cpu } : {}),
    firstEnd: startOf(day) + Math.floor(random() * HOUR),
    lastEnd: startOf(day) + DAY - 1 - Math.floor(random() * HOUR),
  };
}

/** Numbers from 0 to 1 that look like chance; the same text gives the same ones. */
function numbersOf(seed: string): () => number {
  let state = 2166136261;
  for (const character of seed) state = Math.imul(state ^ (character.codePointAt(0) ?? 0), 16777619) >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
