import { createHash } from "node:crypto";
import { z } from "zod";
import type { Tenant } from "../model/tenant.ts";
import { type Damage, readJson } from "../store/json.ts";
import { type ObjectStore, safeSegment } from "../store/store.ts";
import { type DayUsage, dayUsage } from "./usage.ts";

/** Changes with every change of the queries or the counting rules that changes figures: all days are then counted again. */
const QUERY_VERSION = 3;
/** Versions whose days are counted again where Prometheus still has them, and stay as they are otherwise (accounting-rules: older rules). */
const OLDER_VERSIONS = [2];

const storedDay = z.object({ fingerprint: z.string(), usage: dayUsage });
const storedRecount = z.object({ fingerprint: z.string(), at: z.number() });

/** A hash of all settings that decide what is counted. A day that was stored under another one is counted again. */
function fingerprint(tenant: Tenant, version: number): string {
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

/** What the ledger has of a month: days by `yyyy-mm-dd`, and which of them were counted under older rules. */
type KeptMonth = { readonly days: ReadonlyMap<string, DayUsage>; readonly older: ReadonlySet<string> };

/** The days of one tenant that are settled, so that they need not be asked for again. */
export class Ledger {
  readonly #store: ObjectStore;
  readonly #folder: string;
  readonly #fingerprint: string;
  readonly #older: readonly string[];
  readonly #damaged: (damage: Damage) => void;

  constructor(store: ObjectStore, tenant: Tenant, damaged: (damage: Damage) => void) {
    this.#store = store;
    this.#folder = `ledger/${safeSegment(tenant.name)}`;
    this.#fingerprint = fingerprint(tenant, QUERY_VERSION);
    this.#older = OLDER_VERSIONS.map((version) => fingerprint(tenant, version));
    this.#damaged = damaged;
  }

  /** The stored days of a month, without those that were counted under other settings. */
  async read(month: string): Promise<KeptMonth> {
    const days = new Map<string, DayUsage>();
    const older = new Set<string>();
    const keys = await this.#store.list(`${this.#folder}/${month}/${month}-`);
    await Promise.all(
      keys.map(async (key) => {
        const held = await readJson(this.#store, key, storedDay, this.#damaged);
        if (held?.value === undefined) return;
        const { fingerprint: stored, usage } = held.value;
        const isOlder = this.#older.includes(stored);
        if (stored !== this.#fingerprint && !isOlder) return;
        days.set(usage.day, usage);
        if (isOlder) older.add(usage.day);
      }),
    );
    return { days, older };
  }

  /** Stores a settled day. */
  async write(usage: DayUsage): Promise<void> {
    const key = `${this.#folder}/${usage.day.slice(0, 7)}/${usage.day}.json`;
    await this.#store.put(key, JSON.stringify({ fingerprint: this.#fingerprint, usage }));
  }

  #recountKey(month: string): string {
    return `${this.#folder}/${month}/recounted.json`;
  }

  /** Whether the month was counted once more in full after its end (accounting-rules: on the 4th, for late statuses). */
  async wasRecounted(month: string): Promise<boolean> {
    const held = await readJson(this.#store, this.#recountKey(month), storedRecount, this.#damaged);
    return held?.value?.fingerprint === this.#fingerprint;
  }

  /** Remembers that the month was counted once more. */
  async markRecounted(month: string, now: number): Promise<void> {
    await this.#store.put(this.#recountKey(month), JSON.stringify({ fingerprint: this.#fingerprint, at: now }));
  }
}
