import { createHash } from "node:crypto";
import { z } from "zod";
import { shapeText } from "../../shared/text.ts";
import type { Tenant } from "../model/tenant.ts";
import { type ObjectStore, safeSegment } from "../store/store.ts";
import { type CountedDay, JobList } from "./jobs.ts";
import type { OpenPod } from "./pods.ts";
import { type DayUsage, dayUsage } from "./usage.ts";
import type { DayFault, JudgedFacts } from "./missing-metrics.ts";

/** What a piece brought. The pods themselves are gone: memory holds few pieces of them. */
export type CountedPiece = {
  /** pods that have no end that counts, by uid: those of the piece's days */
  readonly open: ReadonlyMap<string, OpenPod>;
  /** whether any pod was seen */
  readonly isEmpty: boolean;
  /** how many finished pods were seen, those of other days included */
  readonly finished: number;
  readonly days: readonly CountedDay[];
  readonly vouched: JudgedFacts;
  /** the day to which a pod belongs as far as the piece shows it: of its end, of its absence, or the last one while it runs on */
  readonly dayOf: (uid: string) => string | undefined;
};

/** A day that was asked for in this run. `settled` is known only of days that an earlier invocation has counted. */
export type FreshDay = CountedDay & {
  readonly settled?: boolean;
  readonly fault?: DayFault | undefined;
  /** not yet known whether its facts are whole (requests): it is published, but not stored */
  readonly unproven?: boolean;
  /** pods that lack something and are left out */
  readonly few?: number;
};

/** Changes whenever the queries or the counting rules change in a way that changes figures: all days are asked again then. */
const QUERY_VERSION = 3;
/** Versions whose days are still read: they are asked again, and stay where Prometheus has them no more (accounting-rules: older rules). */
const OLDER_VERSIONS = [2];

const entry = z.object({ fingerprint: z.string(), usage: dayUsage });
const recounted = z.object({ fingerprint: z.string(), at: z.number() });

/** What was found damaged, and where it was put aside. */
export type Damage = { readonly key: string; readonly setAside: string; readonly what: string };

/** Of all that decides a tenant's count: another fingerprint means the day must be asked again. */
export function fingerprint(tenant: Tenant, version = QUERY_VERSION): string {
  const { namespace, matchers, labelPrefix, voLabel } = tenant.selection;
  const decides = [
    version,
    tenant.server ?? null,
    namespace,
    matchers,
    labelPrefix,
    voLabel ?? null,
    tenant.defaultMilliCores ?? null,
  ];
  return createHash("sha256").update(JSON.stringify(decides)).digest("hex").slice(0, 32);
}

/** Reads stored JSON under a schema. A damaged object is set aside and reported, never used and never lost: its value is undefined. */
export async function readJson<T>(
  store: ObjectStore,
  key: string,
  schema: z.ZodType<T>,
  damaged: (damage: Damage) => void,
): Promise<{ value: T | undefined; version: string } | undefined> {
  const held = await store.get(key);
  if (held === undefined) return undefined;
  const parsed = parse(held.body, schema);
  if (parsed.success) return { value: parsed.data, version: held.version };
  damaged(await setAsideDamaged(store, key, held.body, parsed.what));
  return { value: undefined, version: held.version };
}

/** Keeps a copy of a damaged object where nothing reads it. */
export async function setAsideDamaged(store: ObjectStore, key: string, body: string, what: string): Promise<Damage> {
  const hash = createHash("sha256").update(body).digest("hex").slice(0, 16);
  const setAside = `damaged/${key.replaceAll("/", "=2F")}.${hash}`;
  await store.put(setAside, body, { absent: true });
  return { key, setAside, what };
}

function parse<T>(body: string, schema: z.ZodType<T>): { success: true; data: T } | { success: false; what: string } {
  let json: unknown;
  try {
    json = JSON.parse(body);
  } catch {
    return { success: false, what: `not JSON (${body.length} characters)` };
  }
  const result = schema.safeParse(json);
  return result.success ? result : { success: false, what: shapeText(result.error) };
}

/** What the ledger has of a month: days by `yyyy-mm-dd`, and which of them were counted under older rules. */
export type KeptMonth = { readonly days: ReadonlyMap<string, DayUsage>; readonly older: ReadonlySet<string> };

/** The days of one tenant that are settled and need not be asked again. */
export class Ledger {
  readonly #store: ObjectStore;
  readonly #tenant: Tenant;
  readonly #fingerprint: string;
  readonly #older: readonly string[];
  readonly #damaged: (damage: Damage) => void;

  constructor(store: ObjectStore, tenant: Tenant, damaged: (damage: Damage) => void) {
    this.#store = store;
    this.#tenant = tenant;
    this.#fingerprint = fingerprint(tenant);
    this.#older = OLDER_VERSIONS.map((version) => fingerprint(tenant, version));
    this.#damaged = damaged;
  }

  #key(month: string, name: string): string {
    return `ledger/${safeSegment(this.#tenant.name)}/${month}/${name}.json`;
  }

  /** The stored usage of a month; days of a fingerprint that no rules give are left out. */
  async read(month: string): Promise<KeptMonth> {
    const days = new Map<string, DayUsage>();
    const older = new Set<string>();
    const keys = await this.#store.list(`ledger/${safeSegment(this.#tenant.name)}/${month}/${month}-`);
    await Promise.all(
      keys.map(async (key) => {
        const held = await readJson(this.#store, key, entry, this.#damaged);
        if (held?.value === undefined) return;
        const { fingerprint: print, usage } = held.value;
        const isOlder = this.#older.includes(print);
        if (print !== this.#fingerprint && !isOlder) return;
        days.set(usage.day, usage);
        if (isOlder) older.add(usage.day);
      }),
    );
    return { days, older };
  }

  /** Stores a settled day. */
  async write(usage: DayUsage): Promise<void> {
    const body = JSON.stringify({ fingerprint: this.#fingerprint, usage });
    await this.#store.put(this.#key(usage.day.slice(0, 7), usage.day), body);
  }

  /** Whether the month was counted once more in full after its end (accounting-rules: on the 4th, for late statuses). */
  async wasRecounted(month: string): Promise<boolean> {
    const held = await readJson(this.#store, this.#key(month, "recounted"), recounted, this.#damaged);
    return held?.value?.fingerprint === this.#fingerprint;
  }

  /** Remembers that it was. */
  async markRecounted(month: string, now: number): Promise<void> {
    await this.#store.put(this.#key(month, "recounted"), JSON.stringify({ fingerprint: this.#fingerprint, at: now }));
  }
}

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
type KeptDays = { readonly days: readonly FreshDay[]; readonly open: ReadonlyMap<string, OpenPod> };

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
export class Checkpoint {
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
