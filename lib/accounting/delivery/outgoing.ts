import { createHash } from "node:crypto";
import { GridmeterError, errorText } from "../../shared/errors.ts";
import { readChecked } from "../apel/check.ts";
import { parsedUnit } from "../apel/record.ts";
import { type RecordKind } from "../apel/fields.ts";
import { LAYOUTS } from "../apel/fields.ts";
import { problemText } from "../apel/values.ts";
import type { Unit } from "../model/tenant.ts";
import { type ObjectStore, readSegment, safeSegment } from "../store/store.ts";
import { isMonth } from "../model/time.ts";

export type DeliveredMessage = {
  /** the object's key in `outgoing/` */
  readonly key: string;
  readonly status: DeliveryStatus;
  readonly reason?: string;
};
/**
 * - `delivered`: added to the queue now
 * - `already_there`: a file with the same text is in the queue, or it was spooled before
 * - `waiting`: still in `outgoing/`, to be tried again in the next round; `reason` says for what
 * - `superseded`: not sent, a later generation holds all its APEL keys
 * - `refused`: moved to `refused/`, never to be sent; `reason` says why
 */
export type DeliveryStatus = "delivered" | "already_there" | "waiting" | "superseded" | "refused";

/** Where a message ends that was delivered: in ssmsend's queue, or sent to AMS. */
export type Delivered = "spooled" | "sent";
/** Where a message is: waiting, delivered, or found bad. */
type Stage = "outgoing" | Delivered | "refused";

/** A message to be sent, and its kind as it appears in the key: summary, normalised, individual or sync. */
export type OutgoingMessage = { readonly kind: string; readonly body: string };

/** What the key of an outgoing or delivered object says. */
export type OutgoingKey = {
  readonly key: string;
  readonly unit: Unit;
  readonly generation: number;
  readonly kind: RecordKind;
  /** first 32 hexadecimal digits of the body's sha256 */
  readonly hash: string;
};

/**
 * No unit has more generations: one a minute takes nineteen years, and a unit is one month. A higher one in a key is none of
 * ours, and would shut out all that come after it.
 */
export const LAST_GENERATION = 9_999_999;

const LEAF = /^(\d{10})-([a-z]+)-([0-9a-f]{32})$/;
/** S3 takes no longer keys. */
const LONGEST_KEY = 1024;

export function bodyHash(body: string): string {
  return createHash("sha256").update(body).digest("hex").slice(0, 32);
}

/** The prefix of all a unit's objects in a stage: `outgoing/<site>/<submit host>/<yyyy-mm>/`. */
export function unitPrefix(unit: Unit, stage: Stage = "outgoing"): string {
  return `${stage}/${safeSegment(unit.site)}/${safeSegment(unit.submitHost)}/${unit.month}/`;
}

/** Reads a key of `outgoing/`, `spooled/` or `sent/`; undefined if gridmeter did not make it. */
export function parseOutgoingKey(key: string): OutgoingKey | undefined {
  if (key.length > LONGEST_KEY) return undefined;
  const [stage, siteSegment, hostSegment, month, leaf, more] = key.split("/");
  if ((stage !== "outgoing" && stage !== "spooled" && stage !== "sent") || more !== undefined) return undefined;
  if (siteSegment === undefined || hostSegment === undefined || month === undefined || !isMonth(month))
    return undefined;
  const site = readSegment(siteSegment);
  const submitHost = readSegment(hostSegment);
  const [, digits, kindText, hash] = LEAF.exec(leaf ?? "") ?? [];
  const kind = LAYOUTS.find((layout) => layout.kind === kindText)?.kind;
  const generation = Number(digits);
  if (site === undefined || submitHost === undefined || kind === undefined || hash === undefined) return undefined;
  if (generation < 1 || generation > LAST_GENERATION) return undefined;
  return { key, unit: { site, submitHost, month }, generation, kind, hash };
}

/**
 * Why a message must not go under a key, or undefined: it breaks a rule of APEL, or a record of it is of another site, submit
 * host, month or kind than the key says. Such a message would replace another unit's figures. Never throws: what makes our
 * own code throw is no good message either.
 * @param now epoch seconds, for APEL's rules about the future
 */
export function contentFault(
  { unit, kind }: { readonly unit: Unit; readonly kind: string },
  body: string,
  now: number,
): string | undefined {
  try {
    const message = readChecked(body, now);
    if (message.problems.length > 0) return `it breaks APEL's rules: ${problemText(message.problems)}`;
    if (message.kind !== kind) return `its records are of the kind ${message.kind}, not ${kind} as its key says`;
    for (const record of message.records) {
      const { site, submitHost, month } = parsedUnit(record);
      if (site === unit.site && submitHost === unit.submitHost && month === unit.month) continue;
      const [found, said] = [
        [site, submitHost, month],
        [unit.site, unit.submitHost, unit.month],
      ].map((each) => JSON.stringify(each));
      return `the record of line ${record.line} belongs to ${found}, not to ${said} as its key says`;
    }
    return undefined;
  } catch (thrown) {
    return `gridmeter cannot read it (${errorText(thrown)})`;
  }
}

/** A unit's messages that passed `checkGeneration`; gone through again when stored, so that one at a time is in memory. */
export type CheckedGeneration = {
  readonly unit: Unit;
  readonly messages: Iterable<OutgoingMessage>;
  readonly hashes: readonly string[];
};

/**
 * Checks each message of a unit against APEL's rules, before anything is reserved or stored for it.
 * @param now epoch seconds, for APEL's rules about the future
 * @throws GridmeterError `message_invalid`
 */
export function checkGeneration(unit: Unit, messages: Iterable<OutgoingMessage>, now: number): CheckedGeneration {
  const hashes: string[] = [];
  for (const { kind, body } of messages) {
    hashes.push(bodyHash(body));
    const fault = contentFault({ unit, kind }, body, now);
    if (fault === undefined) continue;
    throw new GridmeterError(
      "message_invalid",
      `The ${kind} message for ${unit.site}, ${unit.submitHost}, ${unit.month} cannot be published: ${fault}. ` +
        "Nothing was published for it. Correct the values named here and run again.",
    );
  }
  return { unit, messages, hashes };
}

/**
 * Stores one generation of a unit's messages. The same generation may be put again: an object's key holds its body's hash, so
 * one that is there already is the same object. `generation` is reserved in the unit's state before. Returns the keys.
 * @throws GridmeterError `store_failed`
 */
export async function putGeneration(
  store: ObjectStore,
  generation: number,
  { unit, messages, hashes }: CheckedGeneration,
): Promise<string[]> {
  const keys: string[] = [];
  for (const { kind, body } of messages) {
    const hash = bodyHash(body);
    if (hash !== hashes[keys.length]) throw new TypeError("A message is another one than was checked");
    const key = `${unitPrefix(unit)}${String(generation).padStart(10, "0")}-${kind}-${hash}`;
    if (parseOutgoingKey(key) === undefined) throw new TypeError(`"${key}" is no key for an outgoing message`);
    await store.put(key, body, { absent: true });
    keys.push(key);
  }
  if (keys.length < hashes.length) throw new TypeError("There are fewer messages than were checked");
  return keys;
}

/** A unit's objects by generation, ascending. */
export type OutgoingUnit = {
  readonly unit: Unit;
  readonly generations: readonly { readonly generation: number; readonly keys: readonly OutgoingKey[] }[];
};

/** All that waits in `outgoing/`, by unit and generation; `strange` are keys that gridmeter did not make. */
export async function listOutgoing(
  store: ObjectStore,
): Promise<{ readonly units: readonly OutgoingUnit[]; readonly strange: readonly string[] }> {
  const strange: string[] = [];
  const units = new Map<string, { unit: Unit; byGeneration: Map<number, OutgoingKey[]> }>();
  for (const key of await store.list("outgoing/")) {
    const parsed = parseOutgoingKey(key);
    if (parsed === undefined) {
      strange.push(key);
      continue;
    }
    const prefix = unitPrefix(parsed.unit);
    const held = units.get(prefix) ?? { unit: parsed.unit, byGeneration: new Map<number, OutgoingKey[]>() };
    units.set(prefix, held);
    const keys = held.byGeneration.get(parsed.generation);
    if (keys === undefined) held.byGeneration.set(parsed.generation, [parsed]);
    else keys.push(parsed);
  }
  const grouped = [...units.values()].map(({ unit, byGeneration }) => ({
    unit,
    generations: [...byGeneration].sort(([a], [b]) => a - b).map(([generation, keys]) => ({ generation, keys })),
  }));
  return { units: grouped, strange };
}

/** A unit's outgoing and delivered objects by generation: what was ever written of it, as far as it is kept. */
export async function listGenerations(
  store: ObjectStore,
  unit: Unit,
): Promise<ReadonlyMap<number, readonly OutgoingKey[]>> {
  const generations = new Map<number, OutgoingKey[]>();
  const outgoing = (await store.list(unitPrefix(unit))).flatMap((key) => parseOutgoingKey(key) ?? []);
  for (const parsed of [...outgoing, ...(await listDelivered(store, unit))]) {
    const held = generations.get(parsed.generation);
    if (held === undefined) generations.set(parsed.generation, [parsed]);
    else held.push(parsed);
  }
  return generations;
}

/** Generations of a unit that are kept after they were delivered. */
const KEPT_GENERATIONS = 20;

/** The key of the same object in another stage. */
export function inStage(key: string, stage: Delivered | "refused"): string {
  return `${stage}/${key.slice("outgoing/".length)}`;
}

/** Ends the name of the object beside a sent message that says under which id AMS has it. */
const RECEIPT = ".ams.json";

/**
 * Ends an object's way. Killed in between, it is in both places, and the next round only finishes the move.
 * @param receipt what is kept beside a message that was sent to AMS
 */
export async function moveToDelivered(
  store: ObjectStore,
  key: string,
  body: string,
  stage: Delivered,
  receipt?: object,
): Promise<void> {
  const target = inStage(key, stage);
  if (receipt !== undefined) await store.put(`${target}${RECEIPT}`, `${JSON.stringify(receipt)}\n`);
  await store.put(target, body, { absent: true });
  await store.remove(key);
}

/** A key with the reason's ending may be longer than a store takes (S3: 1024 bytes, of which the bucket's prefix takes some). */
const LONGEST_KEPT_NAME = 512;

/** Puts an object where nothing sends it, with the reason beside it. */
export async function moveToRefused(store: ObjectStore, key: string, body: string, reason: string): Promise<void> {
  const isLong = key.length > LONGEST_KEPT_NAME && parseOutgoingKey(key) === undefined;
  const target = isLong ? `refused/long/${createHash("sha256").update(key).digest("hex")}` : inStage(key, "refused");
  await store.put(`${target}.reason`, `${isLong ? `${key}: ` : ""}${reason}\n`);
  await store.put(target, body, { absent: true });
  await store.remove(key);
}

/** What of a unit was delivered before, either way: who delivers may have changed. */
export async function listDelivered(store: ObjectStore, unit: Unit): Promise<readonly OutgoingKey[]> {
  const stages = ["spooled", "sent"] as const;
  const keys = await Promise.all(stages.map((stage) => store.list(unitPrefix(unit, stage))));
  return keys.flat().flatMap((key) => parseOutgoingKey(key) ?? []);
}

/** Drops all but the newest generations of a unit that were delivered this way. */
export async function pruneDelivered(store: ObjectStore, unit: Unit, stage: Delivered): Promise<void> {
  const delivered = (await store.list(unitPrefix(unit, stage))).flatMap((key) => parseOutgoingKey(key) ?? []);
  const newestFirst = [...new Set(delivered.map(({ generation }) => generation))].sort((a, b) => b - a);
  const kept = new Set(newestFirst.slice(0, KEPT_GENERATIONS));
  for (const { key, generation } of delivered) {
    if (kept.has(generation)) continue;
    if (stage === "sent") await store.remove(`${key}${RECEIPT}`);
    await store.remove(key);
  }
}
