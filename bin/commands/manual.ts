import { unitName } from "../../lib/accounting/model/tenant.ts";
import { exitCode } from "../../lib/accounting/run.ts";
import {
  type ManualInput,
  type ManualReport,
  type UnpinReport,
  type UnpinTarget,
  refusalError,
  submitManual,
  unpin,
} from "../../lib/accounting/publishing/manual.ts";
import type { Damage } from "../../lib/accounting/store/json.ts";
import { problemText } from "../../lib/accounting/apel/values.ts";
import { GridmeterError, errorSummary, errorText } from "../../lib/shared/errors.ts";
import { LARGEST_FILE } from "../../lib/accounting/publishing/manual-file.ts";
import { isMonth } from "../../lib/accounting/model/time.ts";
import { type LoadedStores, loadStores } from "../../lib/accounting/settings/load.ts";
import { readTextFile } from "../../lib/shared/fs.ts";
import { openLedger, openOutbox } from "../../lib/accounting/ports.ts";
import { jsonLine } from "../show/json.ts";
import { linesOfError, nowInSeconds, say, warn } from "./options.ts";
import { outboxStore, sendOn } from "./deliver.ts";

export type ManualOptions = {
  readonly envFile?: string | undefined;
  readonly output?: string | undefined;
  readonly queue?: string | undefined;
  readonly ledger?: string | undefined;
  readonly unpin?: boolean | undefined;
  readonly site?: string | undefined;
  readonly submitHost?: string | undefined;
  readonly month?: string | undefined;
  readonly json?: boolean | undefined;
};

const usage = (text: string): GridmeterError =>
  new GridmeterError("usage", `${text} Nothing was sent and no pin was lifted.`);

function inputs(files: readonly string[]): readonly ManualInput[] {
  return files.map((name) => {
    try {
      return { name, text: readTextFile(name, LARGEST_FILE) };
    } catch (error) {
      throw usage(`The file ${JSON.stringify(name)} cannot be read (${errorText(error)}).`);
    }
  });
}

const damaged = ({ key, setAside, what }: Damage): void =>
  say(`${key} was damaged (${what}); it is set aside as ${setAside} and made again.`);

/** What options, environment and env file name. There is no default, or a run from elsewhere would send where nobody looks. */
function placesOf({ envFile, output, ledger }: ManualOptions): LoadedStores {
  const places = loadStores({ env: process.env, envFile, overrides: { output, ledger } });
  for (const warning of places.warnings) say(warning);
  return places;
}

function needed(what: "ledger" | "queue", place: string | undefined): string {
  if (place !== undefined) return place;
  throw usage(
    `The ${what} is not named. Name the ledger with --ledger or LEDGER_PATH and, unless you lift pins, the queue with ` +
      "--output or OUTPUT_PATH, the same as for gridmeter account; the env file of -e may hold both.",
  );
}

/** `gridmeter manual`: sends hand-written records, or lifts their pins. Gives the exit code: 2 if a record was refused. */
export async function manual(files: readonly string[], options: ManualOptions): Promise<number> {
  const places = placesOf(options);
  const ledger = await openLedger(needed("ledger", places.ledger), false, process.env, warn);
  const { store } = ledger;
  if (!ledger.remembers)
    throw usage("Pins and what was sent are kept in the ledger, so --ledger none cannot be used here.");
  if (options.unpin === true)
    return lift(await unpin(store, target(files, options), { now: nowInSeconds(), damaged }), options.json === true);
  if (options.site !== undefined || options.submitHost !== undefined || options.month !== undefined)
    throw usage("--site, --submit-host and --month go with --unpin.");
  if (files.length === 0) throw usage("Name at least one file.");
  const outbox = await openOutbox(needed("queue", places.output), options.queue, false, process.env, warn);
  const now = nowInSeconds();
  const stores = { store, outbox: outboxStore(outbox, ledger) };
  const report = await submitManual(stores, inputs(files), { now, damaged });
  tellManual(report);
  const keys = report.files.flatMap((file) => file.outgoing.flatMap((one) => one.keys));
  const { delivery, faults } = await sendOn(outbox, ledger, keys, now);
  const refusal = refusalError(report);
  const failures = [...(refusal === undefined ? [] : [refusal]), ...faults];
  for (const failure of failures) say(...linesOfError(failure));
  const code = exitCode(failures);
  if (options.json === true) {
    const [error = null] = failures.map(errorSummary);
    process.stdout.write(jsonLine({ ...report, queue: outbox.place, delivery, error, exitCode: code }));
  }
  return code;
}

function tellManual({ files }: ManualReport): void {
  for (const { name, sent, alreadySent, refused, moreRefused, warnings } of files) {
    const all = refused.length + moreRefused;
    say(`${name}: ${sent.length} records sent, ${alreadySent.length} sent before, ${all} refused`);
    for (const { line, reason } of warnings) say(`warning: ${name}:${line}: ${reason}`);
    for (const { problems } of refused) say(`refused: ${name}: ${problemText(problems)}`);
    if (moreRefused > 0) say(`refused: ${name}: and ${moreRefused} more records`);
  }
}

function target(files: readonly string[], { site, submitHost, month }: ManualOptions): UnpinTarget {
  if (files.length > 0) {
    if (site !== undefined || submitHost !== undefined || month !== undefined)
      throw usage("Give --unpin either files or a unit, not both.");
    return { files: inputs(files) };
  }
  if (site === undefined || submitHost === undefined || month === undefined)
    throw usage("--unpin needs files, or --site, --submit-host and --month.");
  if (!isMonth(month)) throw usage(`--month ${JSON.stringify(month)} is no month such as 2026-10.`);
  return { unit: { site, submitHost, month } };
}

function lift(report: UnpinReport, json: boolean): number {
  for (const { unit, lifted, left } of report.units) {
    say(`${unitName(unit)}: ${lifted.length} records are no longer pinned, ${left} still are`);
  }
  for (const name of report.nothing) say(`${name}: none of its records was pinned`);
  if (report.units.length === 0 && report.nothing.length === 0) say("nothing was pinned");
  if (json) process.stdout.write(jsonLine(report));
  return 0;
}
