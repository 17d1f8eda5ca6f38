import { checkMessage } from "../../lib/accounting/apel/check.ts";
import { apelKey, messageKeys } from "../../lib/accounting/apel/replace-keys.ts";
import { type UnitState, readStates } from "../../lib/accounting/publishing/state.ts";
import { bodyHash, parseOutgoingKey } from "../../lib/accounting/delivery/outgoing.ts";
import type { ObjectStore } from "../../lib/accounting/store/store.ts";

/** What ssmsend got, in order: a file's name in its queue and its text. */
export type Sent = { readonly name: string; readonly body: string };
/** APEL keys that were published with a generation: this one or a later one must be sent in the end. */
export type Written = { readonly keys: readonly string[]; readonly generation: number };

/** What a reader took from ssmsend's queue, in order, and what writers had reported as written. */
export type ReaderLog = {
  readonly sent: readonly Sent[];
  readonly written: readonly Written[];
  /** the generation of a text; several where later ones had the very same text; none if nobody published it */
  readonly generationOf: (body: string) => number | readonly number[];
};

/**
 * What the rules of spooling promise, whatever was killed, repeated or lost, and when; the violations, none if all is
 * well: no torn message and none that nobody published; no older generation of an APEL key after a newer one (a
 * repetition is harmless); and of each key nothing older was sent last than what was reported as written. The one judge of
 * all fault tests.
 */
export function spoolingViolations(log: ReaderLog): string[] {
  const violations: string[] = [];
  // Of generations with one text it cannot be told which one was sent. For the order it is the earliest that fits; it
  // makes good for all of them.
  const newest = new Map<string, number>();
  const last = new Map<string, number>();
  for (const { name, body } of log.sent) {
    const { problems } = checkMessage(body, Infinity);
    if (problems.length > 0) {
      violations.push(`${name} is torn or broken: ${problems[0]!.reason}`);
      continue;
    }
    const generations = [log.generationOf(body)].flat().toSorted((a, b) => a - b);
    const latest = generations.at(-1);
    if (latest === undefined) {
      violations.push(`${name} was never published`);
      continue;
    }
    for (const key of messageKeys(body)) {
      const before = newest.get(key) ?? 0;
      const generation = generations.find((each) => each >= before) ?? latest;
      if (generation < before) violations.push(`${name}: generation ${generation} after ${before} of ${key}`);
      newest.set(key, Math.max(before, generation));
      last.set(key, latest);
    }
  }
  for (const { keys, generation } of log.written) {
    for (const key of keys) {
      const sent = last.get(key);
      if (sent === undefined || sent < generation)
        violations.push(`generation ${generation} of ${key} was written and lost; the last sent is ${sent}`);
    }
  }
  return violations;
}

/**
 * Whether ssmsend's queue holds two generations of an APEL key at once; the violations. A message that ssmsend failed to
 * send, or that somebody locked, is sent after newer ones, so this may be at no instant.
 */
export function queueViolations(bodies: readonly string[], generationOf: (body: string) => number): string[] {
  const held = new Map<string, number>();
  return bodies.flatMap((body) => {
    const generation = generationOf(body);
    return messageKeys(body).flatMap((key) => {
      const other = held.get(key) ?? generation;
      held.set(key, generation);
      return other === generation ? [] : [`generations ${other} and ${generation} of ${key} are in the queue`];
    });
  });
}

/**
 * The log of a store that is quiet: what was written is what its objects and its states say. Whatever a state calls
 * published must have been sent, and so must every whole object, wherever it is by now, refused ones too unless a newer
 * one was sent.
 * @param months whose states are read, yyyy-mm
 */
export async function logOf(
  store: ObjectStore,
  sent: readonly Sent[],
  months: readonly string[] = [],
): Promise<ReaderLog> {
  const generations = new Map<string, number[]>();
  const written: Written[] = [];
  for (const stage of ["outgoing", "spooled", "sent", "refused"]) {
    for (const key of await store.list(`${stage}/`)) {
      const parsed = parseOutgoingKey(key.replace(/^refused\//, "outgoing/"));
      const body = parsed === undefined ? undefined : (await store.get(key))?.body;
      if (parsed === undefined || body === undefined || bodyHash(body) !== parsed.hash) continue;
      const { generation } = parsed;
      generations.set(
        body,
        [...(generations.get(body) ?? []), generation].toSorted((a, b) => a - b),
      );
      written.push({ keys: messageKeys(body), generation });
    }
  }
  for (const month of months) {
    for (const { state } of await readStates(store, month, () => undefined)) written.push(...publishedBy(state));
  }
  return { sent, written, generationOf: (body) => generations.get(body) ?? [] };
}

function publishedBy({ unit, published }: UnitState): readonly Written[] {
  if (published === undefined) return [];
  const { generation, records, sync } = published;
  const [year = 0, month = 0] = unit.month.split("-").map(Number);
  const { site, submitHost } = unit;
  const syncRecord = { kind: "sync", site, submitHost, year, month, numberOfJobs: sync ?? 0 } as const;
  const all = sync === null ? records : [...records, syncRecord];
  return [{ keys: all.map(apelKey), generation }];
}
