import type { ApelRecord } from "../../../lib/accounting/apel/record.ts";
import { fromFields } from "../../../lib/accounting/apel/read.ts";
import { parseMessage } from "../../../lib/accounting/apel/parse.ts";
import type { Monitoring, Sighting } from "../../../lib/accounting/model/monitoring.ts";
import type { CountedMonth } from "../../../lib/accounting/counting/count-month.ts";
import type { Selection, Tenant, Unit } from "../../../lib/accounting/model/tenant.ts";
import { MemoryStore, type ObjectStore } from "../../../lib/accounting/store/store.ts";
import { type RunOptions, type RunResult, runAccounting } from "../../../lib/accounting/run.ts";
import type { UnitOutcome } from "../../../lib/accounting/publishing/publish.ts";
import { startOf } from "../../../lib/accounting/model/time.ts";
import { LEFT_OUT, type LeftOut, type UsageGroup } from "../../../lib/accounting/counting/usage.ts";
import { GridmeterError, errorText } from "../../../lib/shared/errors.ts";
import { parseOutgoingKey } from "../../../lib/accounting/delivery/outgoing.ts";
import { makeJob, Random, simulate, STACK } from "../../simulator/index.ts";
import type { Cluster, Job, Series } from "../../simulator/index.ts";
import type { JobPlan } from "../../simulator/make-job.ts";
import { ApelTable } from "../../support/apel-table.ts";
import type { Totals } from "../../support/apel-table.ts";
import { MemoryMonitoring } from "../../support/memory-monitoring.ts";
import type { MemoryOptions } from "../../support/memory-monitoring.ts";
import { changedMonitoring } from "../../support/stub-monitoring.ts";

export const MINUTE = 60;
export const HOUR = 3600;
export const DAY = 86_400;
export const SITE = "UNI-TEST";
export const HOST = "k8s.example.org";

/** An instant `yyyy-mm-dd` or `yyyy-mm-ddThh:mm[:ss]`, UTC, epoch seconds. */
export const at = (text: string): number => startOf(text);

/** A tenant like KAPEL's defaults; its namespace is its name. */
export function tenant(name: string, more: Partial<Tenant> & { readonly pods?: Partial<Selection> } = {}): Tenant {
  const { pods, ...rest } = more;
  return {
    name,
    selection: { namespace: name, matchers: [], labelPrefix: "", ...pods },
    site: SITE,
    submitHost: HOST,
    vo: "ops",
    infrastructureType: "grid",
    nodeCount: 0,
    processors: 0,
    model: "core-seconds",
    format: "summary-0.2",
    serviceLevel: { type: "si2k", value: 2500 },
    settle: 6 * HOUR,
    ...rest,
  };
}

/** The tenant of most tests. */
export const GRID = tenant("grid");
/** All of January and February 2025 is settled by then. */
export const NOW = "2025-03-20";
export const FEBRUARY = { gap: "2025-02" } as const;
export const BOTH_MONTHS = { gap: ["2025-01", "2025-02"] } as const;

const random = new Random("world");

/** A pod of one core in the namespace `grid` unless said otherwise; it lingers for 30 minutes. */
export function job(start: number, end: number | null, more: Partial<JobPlan> & { readonly in?: string } = {}): Job {
  const { in: namespace = "grid", ...plan } = more;
  return makeJob("plain", namespace, random, { lingers: 30 * MINUTE, labels: {}, ...plan, start, end });
}

/** A pod of one core that ran for the hour before the given end. */
export const ended = (end: number | string, more: Parameters<typeof job>[2] = {}): Job => {
  const time = typeof end === "string" ? at(end) : end;
  return job(time - HOUR, time, more);
};

/** A pod that ran for the hour before the given end and requests no CPU. */
export const bare = (end: number | string, more: Parameters<typeof job>[2] = {}): Job =>
  ended(end, { containers: [{}], ...more });

/** Watched without a break from 2025-01-01 to 2025-04-01, unless said otherwise. */
export function cluster(jobs: readonly Job[], more: Partial<Cluster> = {}): Cluster {
  return {
    from: at("2025-01-01"),
    to: at("2025-04-01"),
    scrapeInterval: 60,
    jobs,
    stacks: [STACK],
    outages: [],
    emptyNamespaces: ["grid", "second"],
    ...more,
  };
}

export type WorldRun = Partial<Omit<RunOptions, "now" | "request">> & {
  /** gap mode over this month or these months `yyyy-mm`; absent: auto */
  readonly gap?: string | readonly [string, string];
  readonly memory?: MemoryOptions;
  readonly store?: ObjectStore;
  readonly monitoring?: (tenant: Tenant) => Monitoring;
};

/** When monitoring was seen, by matchers: worlds that share their series share it. */
const CELLS = new WeakMap<readonly Series[], Map<string, Promise<Sighting>>>();

/** A simulated cluster, the store of gridmeter, and the table of the APEL server, to which whatever is published goes. */
export class World {
  readonly cluster: Cluster;
  readonly series: readonly Series[];
  readonly store = new MemoryStore();
  readonly table = new ApelTable();
  /** every run's questions to the monitoring: [tenant, facts answered] */
  answered = 0;
  readonly #loaded = new Map<string, number>();
  readonly #seenKeys = new Set<string>();

  constructor(cluster: Cluster, series: readonly Series[] = simulate(cluster)) {
    this.cluster = cluster;
    this.series = series;
  }

  /** The same cluster, of whose series Prometheus holds these. */
  holding(change: (series: readonly Series[]) => readonly Series[]): World {
    return new World(this.cluster, change(this.series));
  }

  /** Runs in invocations of one piece each, until nothing is left to count. */
  async runInInvocations(
    now: number | string,
    tenants: readonly Tenant[],
    options: WorldRun = {},
  ): Promise<{ readonly result: RunResult; readonly invocations: number }> {
    for (let invocations = 1; ; invocations += 1) {
      const result = await this.run(now, tenants, { ...options, stop: () => true, run: "invocations" });
      if (!result.interrupted) return { result, invocations };
    }
  }

  /** Runs at a moment, and loads what is published into the table in the order of publication. */
  async run(now: number | string, tenants: readonly Tenant[], options: WorldRun = {}): Promise<RunResult> {
    const result = await this.runOnly(now, tenants, options);
    for (const unit of result.months.flatMap((month) => month.units)) {
      for (const message of unit.messages ?? []) this.#load(message, now);
    }
    return result;
  }

  /** Runs at a moment; what is published stays in the store. */
  async runOnly(now: number | string, tenants: readonly Tenant[], options: WorldRun = {}): Promise<RunResult> {
    const { gap, memory, store = this.store, monitoring, ...rest } = options;
    const [first, last] = typeof gap === "string" ? [gap, gap] : (gap ?? ["", ""]);
    const asked: MemoryMonitoring[] = [];
    const result = await runAccounting(
      tenants,
      {
        store,
        monitoring: (one) => {
          if (monitoring !== undefined) return monitoring(one);
          const made = new MemoryMonitoring(this.series, one.selection, memory);
          asked.push(made);
          return memory?.forgetBefore === undefined ? this.#rememberingCells(made, one) : made;
        },
      },
      {
        now: timeOf(now),
        request: gap === undefined ? { mode: "auto" } : { mode: "gap", start: at(first), end: at(last) + DAY },
        recount: false,
        force: false,
        allowDecrease: false,
        allowIncomplete: false,
        ...rest,
      },
    );
    this.answered = asked.reduce((sum, each) => sum + each.answered, 0);
    return result;
  }

  /** Looking for evidence takes most of a run's time, and the answer is the same in each: it is computed once. */
  #rememberingCells(made: MemoryMonitoring, { selection }: Tenant): Monitoring {
    const { from, to } = this.cluster;
    const key = selection.matchers.join();
    const whole = { from: Math.floor(from / DAY) * DAY - DAY, to: Math.ceil(to / DAY) * DAY };
    return changedMonitoring(made, {
      seen: async (window) => {
        const known = CELLS.get(this.series) ?? new Map<string, Promise<Sighting>>();
        const sighting = known.get(key) ?? made.seen(whole);
        CELLS.set(this.series, known.set(key, sighting));
        const { cells, ...others } = await sighting;
        return { ...others, cells: cells.filter((cell) => cell > window.from && cell <= window.to) };
      },
    });
  }

  /** Loads what lies in the store as the spooler would: per unit in the order of generations, never an older after a newer. */
  async deliver(now: number | string): Promise<void> {
    for (const key of await this.store.list("outgoing/")) {
      const parsed = parseOutgoingKey(key);
      if (parsed === undefined) throw new Error(`a strange key: ${key}`);
      const unit = JSON.stringify(parsed.unit);
      if (this.#seenKeys.has(key) || parsed.generation < (this.#loaded.get(unit) ?? 0)) continue;
      this.#seenKeys.add(key);
      this.#loaded.set(unit, parsed.generation);
      this.#load((await this.store.get(key))!.body, now);
    }
  }

  /** APEL would refuse a bad message as a whole and tell nobody; here it ends the test. */
  #load(text: string, now: number | string): void {
    const refused = this.table.load(text, timeOf(now));
    if (refused.length > 0) throw new Error(`APEL refuses a message: ${JSON.stringify(refused)}\n${text}`);
  }

  /** What APEL shows of the month for the site. */
  shown(month: string, site = SITE): Totals {
    return this.table.totals(month).get(site) ?? { jobs: 0, coreSeconds: 0, syncJobs: 0 };
  }
}

export const timeOf = (now: number | string): number => (typeof now === "string" ? at(now) : now);

/** The only unit of a month, or that of the given submit host. */
export function unitIn(result: RunResult, month: string, more: Partial<Unit> = {}): UnitOutcome {
  const found = result.months
    .filter(({ period }) => period.month === month)
    .flatMap(({ units }) => units)
    .filter(
      ({ unit }) => unit.submitHost === (more.submitHost ?? unit.submitHost) && unit.site === (more.site ?? unit.site),
    );
  if (found.length !== 1) throw new Error(`${found.length} units of ${month}`);
  return found[0]!;
}

/** Status, or the code of the error where there is one. */
export function became(outcome: UnitOutcome): string {
  if (outcome.error === undefined) return outcome.status;
  const { error } = outcome;
  return error instanceof GridmeterError ? error.code : `unexpected: ${errorText(error)}`;
}

/** Status or error code of each month's only unit, e.g. `{"2025-01": "published"}`. */
export function outcomes(result: RunResult): Record<string, string> {
  return Object.fromEntries(
    result.months.flatMap(({ period, units }) =>
      units.map((unit) => [
        units.length === 1 ? period.month : `${period.month} ${unit.unit.site} ${unit.unit.submitHost}`,
        became(unit),
      ]),
    ),
  );
}

export function message(outcome: UnitOutcome): string {
  return outcome.error instanceof Error ? outcome.error.message : "";
}

/** The texts of published messages, in order. */
export const texts = (outcome: UnitOutcome): string[] => [...(outcome.messages ?? [])];

/** The records of published messages, in order. */
export function records(outcome: UnitOutcome): ApelRecord[] {
  return texts(outcome).flatMap((text) => parseMessage(text).records.map(fromFields));
}

export function countedIn(result: RunResult, month: string, name?: string): CountedMonth {
  const found = result.months
    .filter(({ period }) => period.month === month)
    .flatMap(({ counted }) => counted)
    .find((each) => name === undefined || each.tenant.name === name);
  if (found === undefined) throw new Error(`nothing counted for ${month}`);
  return found;
}

/** Figures of a counted month, comparable with the simulator's truth. */
export function figures({ days }: CountedMonth) {
  const groups: readonly UsageGroup[] = days.flatMap((day) => day.groups);
  const sum = (value: (group: UsageGroup) => number): number => groups.reduce((total, each) => total + value(each), 0);
  return {
    jobs: sum((group) => group.jobs),
    wallSeconds: sum((group) => group.wallSeconds),
    milliCoreSeconds: sum((group) => group.milliCoreSeconds),
    ...(groups.length === 0
      ? {}
      : {
          firstEnd: Math.min(...groups.map((group) => group.firstEnd)),
          lastEnd: Math.max(...groups.map((group) => group.lastEnd)),
        }),
    leftOut: Object.fromEntries(
      LEFT_OUT.map((reason) => [reason, days.reduce((sum, { leftOut }) => sum + leftOut[reason], 0)]),
    ),
  };
}

/** The CPU use of a counted month, comparable with the simulator's truth. */
export function cpuOf({ days }: CountedMonth) {
  const groups = days.flatMap((day) => day.groups);
  return {
    cpuMs: groups.reduce((sum, group) => sum + (group.cpu?.milliseconds ?? 0), 0),
    jobsWithoutCpu: groups.reduce((sum, group) => sum + group.jobs - (group.cpu?.jobs ?? 0), 0),
  };
}

/** What is left out of each day of a month, without days and reasons of which there is nothing. */
export function leftOutOf(result: RunResult, month: string): Record<string, Partial<Record<LeftOut, number>>> {
  const days = countedIn(result, month).days.map(({ day, leftOut }) => [
    day,
    Object.fromEntries(Object.entries(leftOut).filter(([, pods]) => pods > 0)),
  ]);
  return Object.fromEntries(days.filter(([, reasons]) => Object.keys(reasons!).length > 0));
}

/** The days of a month in the ledger of `grid`. */
export async function ledgerDays(one: World, month: string, name = "grid"): Promise<string[]> {
  const keys = await one.store.list(`ledger/${name}/${month}/${month}-`);
  return keys.map((key) => key.slice(-"yyyy-mm-dd.json".length, -".json".length));
}
