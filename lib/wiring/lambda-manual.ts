import type { S3EventRecord } from "aws-lambda";
import { submitManual } from "../accounting/manual.ts";
import type { ManualFileReport } from "../accounting/manual.ts";
import { GridmeterError } from "../errors.ts";
import { LARGEST_FILE, moveFile, readFile } from "./lambda-manual-files.ts";
import { logger, warnDamaged } from "./lambda-log.ts";
import { needed, neededStore } from "./lambda-parts.ts";
import type { Parts } from "./lambda-parts.ts";
import { ringFor } from "./lambda-ring.ts";

/** What became of a file. `gone`: it was dealt with before (S3 may tell of a file twice). */
export type ManualOutcome = {
  readonly key: string;
  readonly outcome: "accepted" | "refused" | "gone" | "ignored";
  readonly sent?: number;
  readonly sentBefore?: number;
  readonly refused?: number;
};

const INCOMING = "manual/incoming/";

/**
 * `manual`: sends the good records of a hand-written file, each once, and moves the file to `manual/accepted/`, or if
 * anything in it was refused to `manual/refused/` with the reasons beside it. It may be ended at any instant and repeated.
 * @param now epoch seconds
 * @throws GridmeterError `store_failed`, `store_conflict`, `queue_failed`, `config_invalid`
 */
export async function manualFile(record: S3EventRecord, now: number, parts: Parts): Promise<ManualOutcome> {
  const { bucket, object } = record.s3;
  // S3 writes keys into its events as a form would.
  const key = decodeURIComponent(object.key.replaceAll("+", " "));
  const store = neededStore(parts);
  const incoming = store.fullKey(INCOMING);
  const name = key.startsWith(incoming) ? key.slice(incoming.length) : "";
  if (bucket.name !== needed(parts.env, "GRIDMETER_BUCKET") || name === "" || name.endsWith("/")) {
    logger.warn(
      `s3://${bucket.name}/${key} is no file under s3://${store.place.bucket}/${incoming}; it is left alone.`,
    );
    return { key, outcome: "ignored" };
  }
  const file = await readFile(parts, store.place.bucket, key);
  if (file === undefined) return { key, outcome: "gone" };
  const target = (outcome: "accepted" | "refused"): string => store.fullKey(`manual/${outcome}/${name}`);
  if (file.text === undefined) {
    const reason = `The file is larger than ${LARGEST_FILE} bytes. Nothing of it was sent. Split it at a record's end.\n`;
    await moveFile(parts, store.place.bucket, file, target("refused"), reason);
    return { key, outcome: "refused" };
  }
  const [report] = (
    await submitManual({ store, outbox: store }, [{ name, text: file.text }], { now, damaged: warnDamaged })
  ).files;
  if (report === undefined) throw new TypeError("a file was submitted and there is no report");
  for (const { line, reason } of report.warnings) logger.warn(`${name}:${line}: ${reason}`);
  // Before the file is moved: once it is gone, nobody would come back to ring.
  await ringFor(unitsOf(report), store, parts);
  const outcome = report.refused.length === 0 ? "accepted" : "refused";
  await moveFile(
    parts,
    store.place.bucket,
    file,
    target(outcome),
    outcome === "accepted" ? undefined : reasons(report),
  );
  return {
    key,
    outcome,
    sent: report.sent.length,
    sentBefore: report.alreadySent.length,
    refused: report.refused.length,
  };
}

function unitsOf({ sent, alreadySent }: ManualFileReport) {
  const units = [...sent, ...alreadySent].map(({ unit }) => unit);
  return [...new Map(units.map((unit) => [JSON.stringify([unit.site, unit.submitHost, unit.month]), unit])).values()];
}

/** What stands beside a refused file. */
function reasons({ sent, alreadySent, refused }: ManualFileReport): string {
  const others = sent.length + alreadySent.length;
  const lines = refused.flatMap(({ problems }) =>
    problems.map(({ line, rule, reason }) => `line ${line}: ${reason} (${rule})`),
  );
  return [
    `${refused.length} records were refused and not sent; ${others} others were sent. Correct the file and put it under`,
    "manual/incoming/ again: what was sent is not sent twice.",
    "",
    ...lines,
    "",
  ].join("\n");
}

/** Deals with all files of an event; if one fails, the others go on. @throws the first failure */
export async function manualFiles(records: readonly S3EventRecord[], now: number, parts: Parts) {
  const files: ManualOutcome[] = [];
  const failures: unknown[] = [];
  for (const record of records) {
    try {
      const outcome = await manualFile(record, now, parts);
      logger.info(`${outcome.key}: ${outcome.outcome}`, { ...outcome });
      files.push(outcome);
    } catch (error) {
      logger.error(`${record.s3.object.key} failed`, {
        code: error instanceof GridmeterError ? error.code : "unexpected",
      });
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
  return { files };
}
