import { z } from "zod";
import type { ObjectStore } from "../store/object-store.ts";
import { safeSegment } from "../store/object-store.ts";
import { JobList } from "./job-list.ts";
import type { CountedDay } from "./job-list.ts";
import { readJson } from "./ledger.ts";
import type { Damage } from "./ledger.ts";
import type { CountedPiece } from "./count-piece.ts";
import type { Tenant } from "./tenant.ts";
import { dayUsage } from "./usage.ts";

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
const heldPiece = z.object({
  to: count,
  days: z.array(z.object({ usage: dayUsage, jobs: z.array(job), settled: z.boolean() })),
  notFinished: z.array(z.tuple([z.string(), z.number()])),
  noEnd: z.array(z.string()),
});

/** What earlier invocations of the same run have counted of a month, settled or not. */
export type Held = {
  readonly days: ReadonlyMap<string, CountedDay & { readonly settled: boolean }>;
  /** of the piece that looked furthest */
  readonly latest: { readonly to: number; readonly notFinished: ReadonlyMap<string, number> };
  readonly noEnd: ReadonlySet<string>;
};

const NOTHING: Held = { days: new Map(), latest: { to: 0, notFinished: new Map() }, noEnd: new Set() };

function withPiece(held: Held, piece: z.infer<typeof heldPiece>): Held {
  const days = new Map(held.days);
  for (const { usage, jobs, settled } of piece.days) days.set(usage.day, { usage, jobs: new JobList(jobs), settled });
  return {
    days,
    latest: piece.to > held.latest.to ? { to: piece.to, notFinished: new Map(piece.notFinished) } : held.latest,
    noEnd: new Set([...held.noEnd, ...piece.noEnd]),
  };
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
    const keys = await this.#store.list(this.#prefix(tenant, month));
    let held = NOTHING;
    // One after the other: as JSON and as objects single jobs take several times as much as in their lists.
    for (const key of keys) {
      const read = await readJson(this.#store, key, heldPiece, this.#damaged);
      if (read?.value !== undefined) held = withPiece(held, read.value);
    }
    return held;
  }

  async save(tenant: Tenant, month: string, piece: CountedPiece, settled: (day: string) => boolean): Promise<void> {
    const { unfinished } = piece;
    const body: z.infer<typeof heldPiece> = {
      to: piece.to,
      days: piece.days.map(({ usage, jobs }) => ({ usage, jobs: [...jobs], settled: settled(usage.day) })),
      notFinished: [...unfinished.notFinished],
      noEnd: [...unfinished.noEnd],
    };
    await this.#store.put(
      `${this.#prefix(tenant, month)}${piece.days[0]?.usage.day ?? "none"}.json`,
      JSON.stringify(body),
    );
  }

  /** Removes what the run kept, once it is done. */
  async clear(): Promise<void> {
    for (const key of await this.#store.list(`scratch/${safeSegment(this.#run)}/`)) await this.#store.remove(key);
  }
}
