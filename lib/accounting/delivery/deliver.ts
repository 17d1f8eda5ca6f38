import { append, chunks } from "../../shared/lists.ts";
import type { Unit } from "../model/tenant.ts";
import type { ObjectStore } from "../store/store.ts";
import { type DeliveryReport, type Way, all, deliverInOrder, listWaiting, refuseStrange, waiting } from "./order.ts";
import { type DeliveredMessage, moveToDelivered } from "./outgoing.ts";
import type { MessageQueue, OpenQueue } from "./queue.ts";
import { type LoadedGeneration, type LoadedMessage, isJobs, readQueue, supersededFiles } from "./supersedes.ts";

export type DeliveryOptions = RoundOptions & {
  /** only these units; all if absent */
  readonly units?: readonly Unit[];
};

/**
 * Moves what is in `outgoing/` into ssmsend's queue under the rules of accounting-rules.md "Spooling", generation by
 * generation, and the objects to `spooled/`. May be killed at any instant and repeated: at worst the messages that were put
 * into the queue together last are delivered twice, which is harmless (APEL: records replace).
 * @throws GridmeterError `store_failed`, `store_no_hard_links`
 */
export async function deliverAll(
  store: ObjectStore,
  queue: MessageQueue,
  options: DeliveryOptions,
): Promise<DeliveryReport[]> {
  const before = await listWaiting(store, options.units);
  if (before.units.length === 0 && before.strange.length === 0) return [];
  const reports = await queue.exclusively(async (open) => {
    // Listed again: another gridmeter may have delivered while this one waited for its turn.
    const { units, strange } = await listWaiting(store, options.units);
    const round = new Round(store, open, queue.place, options);
    const delivered: DeliveryReport[] = [];
    for (const unit of units) delivered.push(await deliverInOrder(store, unit, options.now, round));
    // Last, so that what nobody asked for holds up nothing.
    if (strange.length > 0) delivered.push(await refuseStrange(store, strange));
    return delivered;
  });
  if (reports !== "taken") return reports;
  const reason = `another gridmeter is at the queue ${queue.place}; the next round tries again`;
  return before.units.map((unit) => waiting(unit, reason));
}

/** Messages of single jobs that are put into the queue together, each of up to 500 kB. */
const AT_ONCE = 8;
const GONE = "its object was removed or changed while it was being delivered; the next round looks again";

type RoundOptions = {
  /** epoch seconds, for APEL's rules about the future */
  readonly now: number;
  /** Told, once each, of files in the queue that are no APEL messages; they are left alone. */
  readonly warn?: (text: string) => void;
};

/** One round of delivery at a queue that nobody else changes. */
class Round implements Way {
  readonly stage = "spooled";
  readonly #store: ObjectStore;
  readonly #queue: OpenQueue;
  readonly #place: string;
  readonly #options: RoundOptions;
  readonly #warned = new Set<string>();

  constructor(store: ObjectStore, queue: OpenQueue, place: string, options: RoundOptions) {
    this.#store = store;
    this.#queue = queue;
    this.#place = place;
    this.#options = options;
  }

  async deliver(generation: LoadedGeneration): Promise<readonly DeliveredMessage[]> {
    const own = new Set(generation.messages.map(({ hash }) => hash));
    const { there, others } = await readQueue(this.#queue, own, (name, reason) => this.#warn(name, reason));
    const superseded = supersededFiles(others, new Set(generation.messages.flatMap(({ keys }) => keys)));
    if ("uncovered" in superseded)
      return all(generation.messages, "waiting", this.#uncovered(superseded.uncovered, superseded.lacking));
    const batches = inBatches(generation.messages);
    const results: DeliveredMessage[] = [];
    for (const [index, batch] of batches.entries()) {
      const added = await this.#add(batch, index === 0 ? superseded.older : [], there);
      if ("busy" in added) return [...results, ...all(batches.slice(index).flat(), "waiting", this.#busy(added.busy))];
      append(results, added.results);
    }
    return results;
  }

  /** Puts messages into the queue, but for those that are there, and at once where nothing sends them again. */
  async #add(
    messages: readonly LoadedMessage[],
    older: readonly string[],
    there: ReadonlySet<string>,
  ): Promise<{ readonly results: readonly DeliveredMessage[] } | { readonly busy: string }> {
    const texts: { readonly key: string; readonly hash: string; readonly body: string }[] = [];
    const results: DeliveredMessage[] = [];
    for (const { key, hash, read } of messages) {
      const body = await read();
      if (body === undefined) results.push({ key, status: "waiting", reason: GONE });
      else texts.push({ key, hash, body });
    }
    const fresh = texts.filter(({ hash }) => !there.has(hash)).map(({ body }) => body);
    if (older.length > 0 || fresh.length > 0) {
      const result = await this.#queue.replace(older, fresh);
      if (result.status === "busy") return { busy: result.name };
    }
    for (const { key, hash, body } of texts) {
      await moveToDelivered(this.#store, key, body, this.stage);
      results.push({ key, status: there.has(hash) ? "already_there" : "delivered" });
    }
    return { results };
  }

  #uncovered(name: string, lacking: readonly string[]): string {
    return (
      `${name} in ${this.#place} holds some of the same APEL keys and others that this generation lacks ` +
      `(${lacking[0] ?? ""}${lacking.length > 1 ? ` and ${lacking.length - 1} more` : ""}), so it must be sent first. ` +
      `Let ssmsend run, or remove that file if it is not to be sent`
    );
  }

  #busy(name: string): string {
    return (
      `ssmsend has locked the older ${name} in ${this.#place}. The next round tries again; if ssmsend failed and left ` +
      `the lock, its next run drops it after 10 minutes`
    );
  }

  #warn(name: string, reason: string): void {
    if (this.#warned.has(name)) return;
    this.#warned.add(name);
    this.#options.warn?.(`${name} in ${this.#place} is no APEL message and is left alone: ${reason}`);
  }
}

/** What replaces older figures first and together; then single jobs, which replace none, so that a few are in memory. */
function inBatches(messages: readonly LoadedMessage[]): readonly (readonly LoadedMessage[])[] {
  return [messages.filter((message) => !isJobs(message)), ...chunks(messages.filter(isJobs), AT_ONCE)];
}
