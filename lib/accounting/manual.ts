import { apelKey } from "../apel/keys.ts";
import { problemText } from "../apel/problem.ts";
import { GridmeterError } from "../errors.ts";
import { putGeneration } from "../outbox/outgoing.ts";
import { priorRecords } from "./decide.ts";
import type { Damage } from "./ledger.ts";
import { readManualFile } from "./manual-file.ts";
import type { ManualFile, ManualRecord, ManualWarning, RefusedRecord } from "./manual-file.ts";
import { remember, sortOut } from "./manual-memory.ts";
import { byUnit, compose } from "./manual-message.ts";
import { withPins } from "./manual-pins.ts";
import { conflictError, openState } from "./publish.ts";
import type { Stores } from "./publish.ts";
import { writeState } from "./state.ts";
import type { UnitState } from "./state.ts";
import type { Unit } from "./tenant.ts";

/** How often a unit is tried anew because another run changed its state meanwhile. */
export const MANUAL_TRIES = 5;

/** A hand-written file; `name` is only for messages to people. */
export type ManualInput = { readonly name: string; readonly text: string };

export type ManualOptions = {
  /** epoch seconds */
  readonly now: number;
  readonly damaged?: (damage: Damage) => void;
};

/** A record of a file: its first line, where it belongs and its APEL key. */
export type ManualEntry = { readonly line: number; readonly unit: Unit; readonly key: string };

export type ManualFileReport = {
  readonly name: string;
  readonly sent: readonly ManualEntry[];
  /** sent before, from whatever file, and not replaced since; or it stands in this file twice */
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
    const reserved = withPins({ ...state, generation }, typed, file.hash, now);
    if ((await writeState(stores.store, reserved, version)) === "conflict") continue;
    const keys = await putGeneration(stores.outbox, unit, generation, compose(file.header, fresh), now);
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
