import { checkedKey } from "./object-key.ts";
import type { ObjectStore, PutResult, StoredObject } from "./object-store.ts";

/**
 * What a dry run sees: the real store, with this run's own changes laid over it in memory. Nothing below is written, yet
 * the run goes on as the real one would.
 */
export class ReadOnlyStore implements ObjectStore {
  readonly #below: ObjectStore;
  /** what this run put, or undefined where it removed */
  readonly #overlay = new Map<string, StoredObject | undefined>();
  #puts = 0;

  constructor(below: ObjectStore) {
    this.#below = below;
  }

  async get(key: string, most?: number): Promise<StoredObject | undefined> {
    return this.#over(key, await this.#below.get(key, most));
  }

  async put(key: string, body: string, condition?: Parameters<ObjectStore["put"]>[2]): Promise<PutResult> {
    const below = condition === undefined ? undefined : await this.#below.get(key);
    // No await from here on, so that of two puts at once one comes first.
    if (condition !== undefined) {
      const held = this.#over(key, below);
      const holds = "absent" in condition ? held === undefined : held?.version === condition.version;
      if (!holds) return "conflict";
    }
    this.#puts += 1;
    this.#overlay.set(checkedKey(key), { body, version: `dry-run-${this.#puts}` });
    return "stored";
  }

  async list(prefix: string): Promise<string[]> {
    const keys = new Set(await this.#below.list(prefix));
    for (const [key, object] of this.#overlay) {
      if (object === undefined) keys.delete(key);
      else if (key.startsWith(prefix)) keys.add(key);
    }
    return [...keys].sort();
  }

  async remove(key: string): Promise<void> {
    this.#overlay.set(checkedKey(key), undefined);
  }

  #over(key: string, below: StoredObject | undefined): StoredObject | undefined {
    return this.#overlay.has(key) ? this.#overlay.get(key) : below;
  }
}
