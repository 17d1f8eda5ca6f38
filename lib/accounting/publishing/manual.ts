import { isDeepStrictEqual } from "node:util";
import { GridmeterError } from "../../shared/errors.ts";
import { append } from "../../shared/lists.ts";
import { problemText } from "../apel/values.ts";
import type { Damage } from "../store/json.ts";
import type { ObjectStore } from "../store/store.ts";
import type { Unit } from "../model/tenant.ts";
import { unitKey } from "./guards.ts";
import { MAX_BYTES, MAX_RECORDS } from "../apel/check.ts";
import { apelKey } from "../apel/replace-keys.ts";
import { type OutgoingMessage, checkGeneration, putGeneration } from "../delivery/outgoing.ts";
import { priorRecords } from "./decide.ts";
import { type PinnedRecord, liftPins, remember, sortOut, withPins } from "./manual-dedup.ts";
import {
  type ManualFile,
  type ManualRecord,
  type ManualWarning,
  type RefusedRecord,
  readManualFile,
} from "./manual-file.ts";
import { type Stores, conflictError, openState } from "./publish.ts";
import { type UnitState, readState, writeState } from "./state.ts";

/** How often a unit is tried again because another run changed its state meanwhile. */
const MANUAL_TRIES = 5;

/** A hand-written file; `name` is only for messages to people. */
export type ManualInput = { readonly name: string; readonly text: string };

type ManualOptions = {
  /** epoch seconds */
  readonly now: number;
  readonly damaged?: (damage: Damage) => void;
};

/** A record of a file: its first line, where it belongs and its APEL key. */
type ManualEntry = { readonly line: number; readonly unit: Unit; readonly key: string };

export type ManualFileReport = {
  readonly name: string;
  readonly sent: readonly ManualEntry[];
  /** sent before, from whatever file, and not replaced since; or it is in this file twice */
  readonly alreadySent: readonly ManualEntry[];
  /** the first of those that must not go */
  readonly refused: readonly RefusedRecord[];
  /** how many there are beyond those */
  readonly moreRefused: number;
  readonly warnings: readonly ManualWarning[];
  /** the messages that were stored */
  readonly outgoing: readonly { readonly unit: Unit; readonly generation: number; readonly keys: readonly string[] }[];
};

export type ManualReport = { readonly files: readonly ManualFileReport[] };

type SentUnit = Omit<ManualFileReport, "name" | "refused" | "moreRefused">;

const entry = ({ line, unit, key }: ManualRecord): ManualEntry => ({ line, unit, key });
const inOrder = (entries: readonly ManualEntry[]): readonly ManualEntry[] =>
  entries.toSorted((a, b) => a.line - b.line);

/**
 * Puts the good records of hand-written APEL messages into `outgoing/`, each once, and pins the units of monthly and sync
 * records. A bad record is in the report (`refusalError` makes an error of it); the others of its file go. May be killed
 * at any instant and repeated: at worst a record is sent twice, which is harmless (APEL: records replace).
 * @throws GridmeterError `store_failed`; `store_conflict` if another run keeps changing a unit's state
 */
export async function submitManual(
  stores: Stores,
  files: readonly ManualInput[],
  options: ManualOptions,
): Promise<ManualReport> {
  const reports: ManualFileReport[] = [];
  // One after the other: of two files with one APEL key the later one is to stay.
  for (const { name, text } of files) {
    reports.push({ name, ...(await submitFile(stores, readManualFile(text, options.now), options)) });
  }
  return { files: reports };
}

async function submitFile(
  stores: Stores,
  file: ManualFile,
  options: ManualOptions,
): Promise<Omit<ManualFileReport, "name">> {
  const results: SentUnit[] = [];
  for (const { unit, records } of byUnit(file.records)) {
    results.push(await sendUnit(stores, unit, file, records, options));
  }
  return {
    sent: inOrder(results.flatMap(({ sent }) => sent)),
    alreadySent: inOrder([...results.flatMap(({ alreadySent }) => alreadySent), ...file.repeated.map(entry)]),
    refused: file.refused,
    moreRefused: file.moreRefused,
    warnings: [...file.warnings, ...results.flatMap(({ warnings }) => warnings)].sort((a, b) => a.line - b.line),
    outgoing: results.flatMap(({ outgoing }) => outgoing),
  };
}

/** Sends one file's records of one unit: reserve the generation and pin, store the message, remember. */
async function sendUnit(
  stores: Stores,
  unit: Unit,
  file: ManualFile,
  records: readonly ManualRecord[],
  { now, damaged = () => undefined }: ManualOptions,
): Promise<SentUnit> {
  for (let attempt = 0; attempt < MANUAL_TRIES; attempt += 1) {
    const { state, version } = await openState(stores, unit, now, damaged);
    const { fresh, alreadySent } = await sortOut(stores.store, records, state, damaged);
    const known = { alreadySent: alreadySent.map(entry) };
    if (fresh.length === 0) return { ...known, sent: [], warnings: [], outgoing: [] };
    const generation = state.generation + 1;
    const typed = fresh.map(({ record }) => record);
    const checked = checkGeneration(unit, compose(file.header, fresh), now);
    const reserved = withPins({ ...state, generation }, typed, file.hash, now);
    if ((await writeState(stores.store, reserved, version)) === "conflict") continue;
    const keys = await putGeneration(stores.outbox, generation, checked);
    await remember(stores.store, fresh, generation, damaged);
    const warnings = besidePublished(state, fresh);
    return { ...known, sent: fresh.map(entry), warnings, outgoing: [{ unit, generation, keys }] };
  }
  throw conflictError(unit, MANUAL_TRIES);
}

/** APEL: another key is another row, so a correction whose key differs in one field counts on top of what it corrects. */
function besidePublished(state: UnitState, records: readonly ManualRecord[]): readonly ManualWarning[] {
  const published = state.published?.records.filter(({ numberOfJobs }) => numberOfJobs > 0) ?? [];
  if (published.length === 0) return [];
  const prior = new Set(priorRecords(state).map(apelKey));
  return records.flatMap(({ line, key, record }) => {
    const monthly = record.kind === "summary" || record.kind === "normalised";
    if (!monthly || record.numberOfJobs === 0 || prior.has(key)) return [];
    const reason =
      `the record replaces none of the ${published.length} rows published for ${state.unit.month}, so it counts on top of them; ` +
      "if it is to correct one, make all fields of its key equal (VO, InfrastructureType, ServiceLevelType, ServiceLevel, NodeCount, Processors, ...)";
    return [{ line, rule: "replaces-nothing", reason }];
  });
}

/** The error for what was refused, or undefined if nothing was. The good records went nevertheless. */
export function refusalError({ files }: ManualReport): GridmeterError | undefined {
  const refused = files.filter((file) => file.refused.length > 0);
  if (refused.length === 0) return undefined;
  const text = refused.map(
    (file) =>
      `${file.name}: ${problemText(file.refused.flatMap(({ problems }) => problems))}` +
      (file.moreRefused > 0 ? `; and ${file.moreRefused} more records` : ""),
  );
  const sent = files.reduce((sum, file) => sum + file.sent.length, 0);
  return new GridmeterError(
    "message_invalid",
    `${text.join("; ")}. These records were not sent; ${sent} others were. Correct them and run it again: what was sent is not sent twice.`,
  );
}

/** Which pins to lift: those of the records in these files, or all of a unit. */
export type UnpinTarget = { readonly files: readonly ManualInput[] } | { readonly unit: Unit };

/** What was lifted in one unit. `left`: pinned records that still hold up automatic runs. */
type UnpinnedUnit = { readonly unit: Unit; readonly lifted: readonly string[]; readonly left: number };

/** `nothing`: the files of which no record was pinned. */
export type UnpinReport = { readonly units: readonly UnpinnedUnit[]; readonly nothing: readonly string[] };

/**
 * Lifts pins, so that automatic runs publish again. Nothing is sent now: what was pinned is remembered, and the next
 * publication of the unit covers or zeroes it. A record whose pin was lifted may be sent by hand again.
 * @throws GridmeterError `store_failed`; `store_conflict` if another run keeps changing a unit's state
 */
export async function unpin(store: ObjectStore, target: UnpinTarget, options: ManualOptions): Promise<UnpinReport> {
  if ("unit" in target) {
    const unit = await unpinUnit(store, target.unit, () => true, options);
    return { units: unit.lifted.length === 0 ? [] : [unit], nothing: [] };
  }
  const units: UnpinnedUnit[] = [];
  const nothing: string[] = [];
  for (const { name, text } of target.files) {
    const found: UnpinnedUnit[] = [];
    // By its records and not its hash: of a file that was corrected and sent again, all is lifted.
    for (const { unit, records } of byUnit(readManualFile(text, Infinity).records)) {
      const held = new Map(records.map(({ key, record }) => [key, record]));
      const own = (record: PinnedRecord) => isDeepStrictEqual(held.get(apelKey(record)), record);
      found.push(await unpinUnit(store, unit, own, options));
    }
    const lifted = found.filter((unit) => unit.lifted.length > 0);
    append(units, lifted);
    if (lifted.length === 0) nothing.push(name);
  }
  return { units, nothing };
}

async function unpinUnit(
  store: ObjectStore,
  unit: Unit,
  lift: (record: PinnedRecord) => boolean,
  { damaged = () => undefined }: ManualOptions,
): Promise<UnpinnedUnit> {
  for (let attempt = 0; attempt < MANUAL_TRIES; attempt += 1) {
    const held = await readState(store, unit, damaged);
    if (held?.state === undefined) return { unit, lifted: [], left: 0 };
    const { state, lifted } = liftPins(held.state, lift);
    const left = state.pins.reduce((sum, pin) => sum + pin.records.length + (pin.sync === null ? 0 : 1), 0);
    if (lifted.length === 0) return { unit, lifted: [], left };
    if ((await writeState(store, state, held.version)) === "stored") return { unit, lifted: lifted.map(apelKey), left };
  }
  throw conflictError(unit, MANUAL_TRIES);
}

/** Records by the unit to which they belong, in their order. */
function byUnit(
  records: readonly ManualRecord[],
): readonly { readonly unit: Unit; readonly records: readonly ManualRecord[] }[] {
  const units = new Map<string, { unit: Unit; records: ManualRecord[] }>();
  for (const record of records) {
    const held = units.get(unitKey(record.unit));
    if (held === undefined) units.set(unitKey(record.unit), { unit: record.unit, records: [record] });
    else held.records.push(record);
  }
  return [...units.values()];
}

/** The records' messages, in the file's order, each at most 500 records and 500 kB (APEL). Records of one file are of one kind. */
function compose(header: string, records: readonly ManualRecord[]): readonly OutgoingMessage[] {
  const messages: { kind: string; body: string; count: number }[] = [];
  for (const { record, text } of records) {
    const open = messages.at(-1);
    if (open === undefined || open.count === MAX_RECORDS || open.body.length + text.length > MAX_BYTES) {
      messages.push({ kind: record.kind, body: `${header}\n${text}`, count: 1 });
    } else {
      open.body += text;
      open.count += 1;
    }
  }
  return messages.map(({ kind, body }) => ({ kind, body }));
}
