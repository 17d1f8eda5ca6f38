import type { Unit } from "../accounting/tenant.ts";
import type { MessageQueue, OpenQueue, ReplaceResult } from "../outbox/message-queue.ts";
import { listOutgoing, unitPrefix } from "../outbox/outgoing.ts";
import type { OutgoingUnit } from "../outbox/outgoing.ts";
import type { ObjectStore } from "../store/object-store.ts";
import { coveredBy } from "./covers.ts";
import { loadUnit } from "./load.ts";
import type { LoadedGeneration, LoadedMessage } from "./load.ts";
import { moveToRefused, moveToSpooled, pruneSpooled } from "./move.ts";
import { overlapWith, readQueue } from "./overlap.ts";
import type { DeliveredMessage, DeliveryReport } from "./report.ts";

/** Messages of single jobs that are put into the queue together, each of up to 500 kB. */
const AT_ONCE = 8;

export type DeliveryOptions = {
  /** epoch seconds, for APEL's rules about the future */
  readonly now: number;
  /** only these units; all if absent */
  readonly units?: readonly Unit[];
  /** Told, once each, of files in the queue that are no APEL messages; they are left alone. */
  readonly warn?: (text: string) => void;
};

/**
 * Moves what is in `outgoing/` into ssmsend's queue under the rules of accounting-rules.md "Spooling", generation by
 * generation, and the objects to `spooled/`. May be killed at any instant and repeated: at worst a message is delivered
 * twice, which is harmless (APEL: records replace).
 * @throws GridmeterError `store_failed`, `store_no_hard_links`, `store_conflict`
 */
export async function deliverAll(
  store: ObjectStore,
  queue: MessageQueue,
  options: DeliveryOptions,
): Promise<DeliveryReport[]> {
  const before = await waitingFor(store, options);
  if (before.units.length === 0 && before.strange.length === 0) return [];
  const reports = await queue.exclusively(async (open) => {
    // Listed again: another gridmeter may have delivered while this one waited for its turn.
    const { units, strange } = await waitingFor(store, options);
    const round = new Round(store, open, queue.place, options);
    const strangers = strange.length > 0 ? [{ messages: await refuseStrange(store, strange) }] : [];
    const delivered: DeliveryReport[] = [];
    for (const unit of units) delivered.push(await round.deliverUnit(unit));
    return [...delivered, ...strangers];
  });
  if (reports !== "taken") return reports;
  const reason = `another gridmeter is at the queue ${queue.place}; the next round tries again`;
  return before.units.map(({ unit, generations }) => ({
    unit,
    messages: generations.flatMap(({ keys }) => keys.map(({ key }) => ({ key, status: "waiting" as const, reason }))),
  }));
}

async function waitingFor(
  store: ObjectStore,
  { units: wanted }: DeliveryOptions,
): Promise<{ units: readonly OutgoingUnit[]; strange: readonly string[] }> {
  const found = await listOutgoing(store);
  if (wanted === undefined) return found;
  const prefixes = new Set(wanted.map((unit) => unitPrefix(unit)));
  return { units: found.units.filter(({ unit }) => prefixes.has(unitPrefix(unit))), strange: [] };
}

async function refuseStrange(store: ObjectStore, strange: readonly string[]): Promise<DeliveredMessage[]> {
  const reason = "its key is none that gridmeter makes";
  for (const key of strange) {
    const object = await store.get(key);
    if (object !== undefined) await moveToRefused(store, key, object.body, reason);
  }
  return strange.map((key) => ({ key, status: "refused", reason }));
}

/** One round of delivery at a queue that nobody else changes. */
class Round {
  readonly #store: ObjectStore;
  readonly #queue: OpenQueue;
  readonly #place: string;
  readonly #options: DeliveryOptions;
  readonly #warned = new Set<string>();

  constructor(store: ObjectStore, queue: OpenQueue, place: string, options: DeliveryOptions) {
    this.#store = store;
    this.#queue = queue;
    this.#place = place;
    this.#options = options;
  }

  async deliverUnit(outgoing: OutgoingUnit): Promise<DeliveryReport> {
    const { generations, settled } = await loadUnit(this.#store, outgoing, this.#options.now);
    const messages = [...settled];
    let waitsFor: string | undefined;
    for (const [index, generation] of generations.entries()) {
      if (waitsFor !== undefined) {
        messages.push(...all(generation, "waiting", waitsFor));
        continue;
      }
      const later = await coveredBy(generation, generations.slice(index + 1));
      const results =
        later === undefined
          ? await this.#deliver(generation)
          : all(generation, "superseded", `generation ${later.generation} holds all its keys`);
      messages.push(...results);
      if (results.some(({ status }) => status === "waiting")) {
        waitsFor = `generation ${generation.generation} is to go first, and it waits`;
        continue;
      }
      for (const { key, read } of generation.messages) await moveToSpooled(this.#store, key, await read());
    }
    await pruneSpooled(this.#store, outgoing.unit);
    return { unit: outgoing.unit, messages };
  }

  async #deliver(generation: LoadedGeneration): Promise<DeliveredMessage[]> {
    const own = new Set(generation.messages.map(({ hash }) => hash));
    const { there, others } = await readQueue(this.#queue, own, (name, reason) => this.#warn(name, reason));
    const overlap = overlapWith(others, new Set(generation.messages.flatMap(({ keys }) => keys)));
    if ("uncovered" in overlap) return all(generation, "waiting", this.#uncovered(overlap.uncovered, overlap.lacking));
    const fresh = generation.messages.filter(({ hash }) => !there.has(hash));
    const isJobs = ({ kind }: LoadedMessage): boolean => kind === "individual";
    // What replaces older figures goes first and together; single jobs replace none, and a few messages are in memory.
    const result = await this.#add(
      overlap.older,
      fresh.filter((message) => !isJobs(message)),
    );
    if (result.status === "busy") return all(generation, "waiting", this.#busy(result.name));
    const jobs = fresh.filter(isJobs);
    for (let from = 0; from < jobs.length; from += AT_ONCE) await this.#add([], jobs.slice(from, from + AT_ONCE));
    return generation.messages.map(({ key, hash }) => ({
      key,
      status: there.has(hash) ? "already_there" : "delivered",
    }));
  }

  async #add(older: readonly string[], messages: readonly LoadedMessage[]): Promise<ReplaceResult> {
    if (older.length === 0 && messages.length === 0) return { status: "added", names: [] };
    const bodies: string[] = [];
    for (const { read } of messages) bodies.push(await read());
    return this.#queue.replace(older, bodies);
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

function all(generation: LoadedGeneration, status: "waiting" | "superseded", reason: string): DeliveredMessage[] {
  return generation.messages.map(({ key }) => ({ key, status, reason }));
}
