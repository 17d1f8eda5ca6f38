import { checkedKey } from "./object-key.ts";
import { LARGEST_OBJECT, tooLarge } from "./object-store.ts";
import type { ObjectStore, PutResult, StoredObject } from "./object-store.ts";

/** Objects in memory: for `--ledger none`, for tests, and as the overlay of a dry run. */
export class MemoryStore implements ObjectStore {
  readonly #objects = new Map<string, StoredObject>();
  #puts = 0;

  async get(key: string, most = LARGEST_OBJECT): Promise<StoredObject | undefined> {
    const held = this.#objects.get(checkedKey(key));
    // A character is three bytes at most in UTF-8, and mostly one: only of a long text are they counted.
    const size = held === undefined || held.body.length * 3 <= most ? 0 : Buffer.byteLength(held.body);
    if (size > most) throw tooLarge(key, size, most);
    return held;
  }

  put(key: string, body: string, condition?: Parameters<ObjectStore["put"]>[2]): Promise<PutResult> {
    const held = this.#objects.get(checkedKey(key));
    if (condition !== undefined) {
      const holds = "absent" in condition ? held === undefined : held?.version === condition.version;
      if (!holds) return Promise.resolve("conflict");
    }
    this.#puts += 1;
    this.#objects.set(key, { body, version: `memory-${this.#puts}` });
    return Promise.resolve("stored");
  }

  list(prefix: string): Promise<string[]> {
    return Promise.resolve([...this.#objects.keys()].filter((key) => key.startsWith(prefix)).sort());
  }

  remove(key: string): Promise<void> {
    this.#objects.delete(checkedKey(key));
    return Promise.resolve();
  }
}
