import { createHash } from "node:crypto";
import { submitManual } from "../accounting/manual.ts";
import type { ManualFileReport } from "../accounting/manual.ts";
import { LARGEST_FILE } from "../accounting/manual-file.ts";
import { GridmeterError } from "../errors.ts";
import { toldFiles, toldKey } from "./lambda-manual-event.ts";
import type { ToldFile } from "./lambda-manual-event.ts";
import { REASON, moveFile, readFile } from "./lambda-manual-files.ts";
import { logger, warnDamaged } from "./lambda-log.ts";
import { needed, neededStore } from "./lambda-parts.ts";
import type { Parts } from "./lambda-parts.ts";
import { ringFor } from "./lambda-ring.ts";

/**
 * What became of a file. `gone`: it was dealt with before (S3 may tell of a file twice). `ignored`: it is none of ours, or its
 * key in the event is no key; trying again would not help.
 */
export type ManualOutcome = {
  readonly key: string;
  readonly outcome: "accepted" | "refused" | "gone" | "ignored";
  readonly sent?: number;
  readonly sentBefore?: number;
  readonly refused?: number;
};

const INCOMING = "manual/incoming/";
/** S3 takes no longer keys, bytes. */
const LONGEST_KEY = 1024;

/**
 * `manual`: sends the good records of a hand-written file, each once, and moves the file to `manual/accepted/`, or if
 * anything in it was refused to `manual/refused/` with the reasons beside it. It may be ended at any instant and repeated.
 * @param now epoch seconds
 * @throws GridmeterError `store_failed`, `store_conflict`, `queue_failed`, `config_invalid`
 */
export async function manualFile(told: ToldFile, now: number, parts: Parts): Promise<ManualOutcome> {
  const key = toldKey(told);
  if (key === undefined) {
    const text =
      "is not written as S3 writes keys (percent-encoded UTF-8), so no file can be told by it. Nothing was sent; put the file under manual/incoming/ once more.";
    logger.error(`The key ${JSON.stringify(told.key)} ${text}`);
    return { key: told.key, outcome: "ignored" };
  }
  const store = neededStore(parts);
  const incoming = store.fullKey(INCOMING);
  const name = key.startsWith(incoming) ? key.slice(incoming.length) : "";
  if (told.bucket !== needed(parts.env, "GRIDMETER_BUCKET") || name === "" || name.endsWith("/")) {
    logger.warn(
      `s3://${told.bucket}/${key} is no file under s3://${store.place.bucket}/${incoming}; it is left alone.`,
    );
    return { key, outcome: "ignored" };
  }
  const file = await readFile(parts, store.place.bucket, key);
  if (file === undefined) return { key, outcome: "gone" };
  const target = (outcome: "accepted" | "refused"): string =>
    store.fullKey(`manual/${outcome}/${keptName(name, incoming)}`);
  const { content } = file;
  if ("tooLarge" in content) {
    const reason = `The file has ${content.tooLarge} bytes or more, more than ${LARGEST_FILE}. Nothing of it was sent. Split it at a record's end.`;
    logger.error(`${name}: ${reason}`);
    await moveFile(parts, store.place.bucket, file, target("refused"), `${reason}\n`);
    return { key, outcome: "refused" };
  }
  const [report] = (
    await submitManual({ store, outbox: store }, [{ name, text: content.text }], { now, damaged: warnDamaged })
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
    refused: report.refused.length + report.moreRefused,
  };
}

/** The name under which a file is kept: its own, unless a reason beside it would have too long a key. */
function keptName(name: string, incoming: string): string {
  if (Buffer.byteLength(incoming + name + REASON) <= LONGEST_KEY) return name;
  const kept = createHash("sha256").update(name).digest("hex");
  logger.warn(`${incoming}${name} has too long a name for the reason beside it; it is kept as ${kept}.`);
  return kept;
}

function unitsOf({ sent, alreadySent }: ManualFileReport) {
  const units = [...sent, ...alreadySent].map(({ unit }) => unit);
  return [...new Map(units.map((unit) => [JSON.stringify([unit.site, unit.submitHost, unit.month]), unit])).values()];
}

/** What stands beside a refused file. */
function reasons({ sent, alreadySent, refused, moreRefused }: ManualFileReport): string {
  const others = sent.length + alreadySent.length;
  const lines = refused.flatMap(({ problems }) =>
    problems.map(({ line, rule, reason }) => `line ${line}: ${reason} (${rule})`),
  );
  return [
    `${refused.length + moreRefused} records were refused and not sent; ${others} others were sent. Correct the file and put it under`,
    "manual/incoming/ again: what was sent is not sent twice.",
    "",
    ...lines,
    ...(moreRefused > 0 ? [`and ${moreRefused} more records`] : []),
    "",
  ].join("\n");
}

/**
 * Deals with all files of an event; if one fails, the others go on.
 * @throws the first failure; GridmeterError `config_invalid` if the event is none of S3
 */
export async function manualFiles(event: unknown, now: number, parts: Parts) {
  const files: ManualOutcome[] = [];
  const failures: unknown[] = [];
  for (const told of toldFiles(event)) {
    try {
      const outcome = await manualFile(told, now, parts);
      logger.info(`${outcome.key}: ${outcome.outcome}`, { ...outcome });
      files.push(outcome);
    } catch (error) {
      logger.error(`${told.key} failed`, { code: error instanceof GridmeterError ? error.code : "unexpected" });
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
  return { files };
}
