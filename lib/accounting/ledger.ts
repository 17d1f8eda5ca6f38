import { createHash } from "node:crypto";
import { z } from "zod";
import { shapeText } from "../shape-text.ts";
import type { ObjectStore } from "../store/object-store.ts";
import { safeSegment } from "../store/object-store.ts";
import type { Tenant } from "./tenant.ts";
import { dayUsage } from "./usage.ts";
import type { DayUsage } from "./usage.ts";

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
