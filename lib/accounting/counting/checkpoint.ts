import { z } from "zod";
import type { Tenant } from "../model/tenant.ts";
import { type Damage, readJson } from "../store/json.ts";
import { type ObjectStore, safeSegment } from "../store/store.ts";
import type { CountedDay } from "./count-piece.ts";
import { JobList } from "./jobs.ts";
import type { DayFault } from "./missing-metrics.ts";
import type { OpenPod } from "./pods.ts";
import { dayUsage } from "./usage.ts";

/** A day that was counted in this run, by this invocation or an earlier one. */
export type FreshDay = CountedDay & {
  readonly settled: boolean;
  /** a metric is missing, or answers disagree: the month is refused */
  readonly fault?: DayFault | undefined;
  /** it is not known yet whether CPU requests are missing: the day is published, but not stored in the ledger */
  readonly unproven: boolean;
  /** how many pods lack a fact, where they are so few that they are left out */
  readonly few?: number;
};

/** The days of a month that earlier invocations of the run have counted, and the pods that are open on them, by uid. */
export type KeptDays = {
  readonly days: ReadonlyMap<string, FreshDay>;
  readonly open: ReadonlyMap<string, OpenPod>;
};

const count = z.number().int().min(0);
const job = z.object({
  uid: z.string(),
  pod: z.string(),
  vo: z.string().nullable(),
  start: count,
  end: count,
  milliCores: count,
  cpuMilliseconds: count.exactOptional(),
  memoryRequest: count.exactOptional(),
  memoryUsed: count.exactOptional(),
});
const fault: z.ZodType<DayFault> = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("metric_missing"), fact: z.enum(["ends", "starts", "phases", "requests"]) }),
  z.object({
    kind: z.literal("answers_disagree"),
    lacks: z.enum(["end", "phase", "one phase"]),
    pods: count,
    of: count,
    example: z.string(),
  }),
]);
const openPod = z.object({ day: z.string(), reason: z.enum(["not_finished", "no_end"]), succeeded: z.boolean() });
const storedPiece = z.object({
  days: z.array(
    z.object({
      usage: dayUsage,
      jobs: z.array(job),
      settled: z.boolean(),
      fault: fault.optional(),
      unproven: z.boolean(),
      few: count.exactOptional(),
    }),
  ),
  open: z.array(z.tuple([z.string(), openPod])),
});

/**
 * What a run has counted so far, if it does not fit into one Lambda invocation: the next one goes on from there. It also
 * holds the days that are not settled, which the ledger never does. It is good only for the same run, which has the same `now`.
 */
export class Checkpoint {
  readonly #store: ObjectStore;
  readonly #folder: string;
  readonly #damaged: (damage: Damage) => void;

  constructor(store: ObjectStore, run: string, damaged: (damage: Damage) => void) {
    this.#store = store;
    // The folder is named as in earlier versions, whose runs may be under way.
    this.#folder = `scratch/${safeSegment(run)}`;
    this.#damaged = damaged;
  }

  #monthFolder(tenant: Tenant, month: string): string {
    return `${this.#folder}/${safeSegment(tenant.name)}/${month}`;
  }

  /** What earlier invocations have counted of a month. */
  async load(tenant: Tenant, month: string): Promise<KeptDays> {
    const days = new Map<string, FreshDay>();
    const open = new Map<string, OpenPod>();
    // In the order of their names: pieces are named by their first day, and `corrected/` comes after them.
    const keys = await this.#store.list(`${this.#monthFolder(tenant, month)}/`);
    // One after the other: as JSON and as objects jobs take several times the memory that their lists take.
    for (const key of keys) {
      const piece = (await readJson(this.#store, key, storedPiece, this.#damaged))?.value;
      if (piece === undefined) continue;
      for (const day of piece.days) days.set(day.usage.day, { ...day, jobs: new JobList(day.jobs) });
      const again = new Set(piece.days.map(({ usage }) => usage.day));
      for (const [uid, { day }] of open) if (again.has(day)) open.delete(uid);
      for (const [uid, pod] of piece.open) open.set(uid, pod);
    }
    return { days, open };
  }

  /** Keeps the days of a piece, and the pods that it leaves open. */
  async save(
    tenant: Tenant,
    month: string,
    days: readonly FreshDay[],
    open: ReadonlyMap<string, OpenPod>,
  ): Promise<void> {
    await this.#put(`${this.#monthFolder(tenant, month)}/${days[0]?.usage.day ?? "none"}.json`, days, open);
  }

  /**
   * Keeps a day of an earlier piece that a later one has corrected.
   * @param open the pods that are still open on that day
   */
  async correct(tenant: Tenant, day: FreshDay, open: ReadonlyMap<string, OpenPod>): Promise<void> {
    const { day: name } = day.usage;
    await this.#put(`${this.#monthFolder(tenant, name.slice(0, 7))}/corrected/${name}.json`, [day], open);
  }

  async #put(key: string, days: readonly FreshDay[], open: ReadonlyMap<string, OpenPod>): Promise<void> {
    const piece: z.infer<typeof storedPiece> = {
      days: days.map((day) => ({ ...day, jobs: [...day.jobs] })),
      open: [...open],
    };
    await this.#store.put(key, JSON.stringify(piece));
  }

  /** Removes all of it, once the run is done. */
  async clear(): Promise<void> {
    for (const key of await this.#store.list(`${this.#folder}/`)) await this.#store.remove(key);
  }
}
