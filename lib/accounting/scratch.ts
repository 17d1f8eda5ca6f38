import { z } from "zod";
import type { ObjectStore } from "../store/object-store.ts";
import { safeSegment } from "../store/object-store.ts";
import { JobList } from "./job-list.ts";
import { readJson } from "./ledger.ts";
import type { Damage } from "./ledger.ts";
import type { FreshDay } from "./counted-month.ts";
import type { Tenant } from "./tenant.ts";
import { dayUsage } from "./usage.ts";
import type { OpenPod } from "./usage.ts";
import type { DayFault } from "./vouch.ts";

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
    lacks: z.enum(["end", "phase"]),
    pods: count,
    of: count,
    example: z.string(),
  }),
]);
const openPod = z.object({ day: z.string(), reason: z.enum(["not_finished", "no_end"]), succeeded: z.boolean() });
const heldPiece = z.object({
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

/** What earlier invocations of the same run have counted of a month, settled or not. */
export type Held = {
  readonly days: ReadonlyMap<string, FreshDay>;
  /** pods that were left open, by uid */
  readonly open: ReadonlyMap<string, OpenPod>;
};

/** Days as they were taken over, and the pods that are left open on them, by uid. */
export type KeptDays = { readonly days: readonly FreshDay[]; readonly open: ReadonlyMap<string, OpenPod> };

const NOTHING: Held = { days: new Map(), open: new Map() };

function withPiece(held: Held, piece: z.infer<typeof heldPiece>): Held {
  const days = new Map(held.days);
  for (const day of piece.days) days.set(day.usage.day, { ...day, jobs: new JobList(day.jobs) });
  const names = new Set(piece.days.map(({ usage }) => usage.day));
  const others = [...held.open].filter(([, { day }]) => !names.has(day));
  return { days, open: new Map([...others, ...piece.open]) };
}

/**
 * Where a run that does not fit into one Lambda invocation keeps its pieces until the next: also the days that are not
 * settled, which the ledger never holds. They are good only for the very same run, that is for the same `now`.
 */
export class Scratch {
  readonly #store: ObjectStore;
  readonly #run: string;
  readonly #damaged: (damage: Damage) => void;

  constructor(store: ObjectStore, run: string, damaged: (damage: Damage) => void) {
    this.#store = store;
    this.#run = run;
    this.#damaged = damaged;
  }

  #prefix(tenant: Tenant, month: string): string {
    return `scratch/${safeSegment(this.#run)}/${safeSegment(tenant.name)}/${month}/`;
  }

  async load(tenant: Tenant, month: string): Promise<Held> {
    // In order: pieces are named by a day, and what was corrected since comes after them.
    const keys = await this.#store.list(this.#prefix(tenant, month));
    let held = NOTHING;
    // One after the other: as JSON and as objects single jobs take several times as much as in their lists.
    for (const key of keys) {
      const read = await readJson(this.#store, key, heldPiece, this.#damaged);
      if (read?.value !== undefined) held = withPiece(held, read.value);
    }
    return held;
  }

  /** Keeps a piece. */
  async save(tenant: Tenant, month: string, piece: KeptDays): Promise<void> {
    await this.#put(`${this.#prefix(tenant, month)}${piece.days[0]?.usage.day ?? "none"}.json`, piece);
  }

  /**
   * Keeps a day of an earlier piece that a later one has corrected.
   * @param open the pods that are still left open on it, by uid
   */
  async correct(tenant: Tenant, day: FreshDay, open: ReadonlyMap<string, OpenPod>): Promise<void> {
    const name = day.usage.day;
    await this.#put(`${this.#prefix(tenant, name.slice(0, 7))}corrected/${name}.json`, { days: [day], open });
  }

  async #put(key: string, piece: KeptDays): Promise<void> {
    const body: z.infer<typeof heldPiece> = {
      days: piece.days.map((day) => ({
        ...day,
        jobs: [...day.jobs],
        settled: day.settled === true,
        unproven: day.unproven === true,
      })),
      open: [...piece.open],
    };
    await this.#store.put(key, JSON.stringify(body));
  }

  /** Removes what the run kept, once it is done. */
  async clear(): Promise<void> {
    for (const key of await this.#store.list(`scratch/${safeSegment(this.#run)}/`)) await this.#store.remove(key);
  }
}
