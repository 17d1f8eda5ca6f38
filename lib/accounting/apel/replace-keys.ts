import { GridmeterError } from "../../shared/errors.ts";
import { parseMessage } from "./parse.ts";
import { type ApelRecord, type ParsedRecord, toFields } from "./record.ts";
import { type RecordKind } from "./fields.ts";
import { type Layout, layoutFor } from "./fields.ts";
import { decimal, decimalText, digits, problemText, storedEntry } from "./values.ts";
import { isNull } from "../model/tenant.ts";

type Values = (name: string) => string | undefined;

/**
 * The columns of each table's REPLACE key. Site, submit host and month come first, so that sorted keys group by unit;
 * the order means nothing to APEL.
 */
const COLUMNS = {
  summary: [
    "Site",
    "SubmitHost",
    "Year",
    "Month",
    "VO",
    "GlobalUserName",
    "VOGroup",
    "VORole",
    "InfrastructureType",
    "ServiceLevelType",
    "ServiceLevel",
    "NodeCount",
    "Processors",
  ],
  normalised: [
    "Site",
    "SubmitHost",
    "Year",
    "Month",
    "VO",
    "GlobalUserName",
    "VOGroup",
    "VORole",
    "Infrastructure",
    "ServiceLevelType",
    "NodeCount",
    "Processors",
  ],
  individual: ["Site", "EndTime", "LocalJobId"],
  sync: ["Site", "SubmitHost", "Year", "Month"],
} satisfies Record<RecordKind, readonly string[]>;

/** v0.4 carries type and value of the service level in one dict, or in those of the normalised durations. */
function fromDict(values: Values, layout: Layout, column: string): string | undefined {
  const dict = values(layout.kind === "normalised" ? "NormalisedWallDuration" : "ServiceLevel");
  const entry = dict === undefined ? undefined : storedEntry(dict);
  return column === "ServiceLevelType" ? entry?.type : (entry?.value ?? dict);
}

/** A value as the server's columns compare it. */
function comparable(column: string, value: string | undefined): string | number | null {
  if (value === undefined || isNull(value)) return null;
  switch (column) {
    case "ServiceLevelType":
      return value.toLowerCase();
    case "ServiceLevel": {
      const number = decimal(value);
      return number === undefined ? value : decimalText(number);
    }
    case "Year":
    case "Month":
    case "EndTime":
    case "NodeCount":
    case "Processors": {
      const number = digits(value);
      return number === undefined ? value : number.toString();
    }
    default:
      return value;
  }
}

function keyOf(values: Values, layout: Layout): string {
  const dictColumns = layout.version === "0.4" ? ["ServiceLevelType", "ServiceLevel"] : [];
  const key = COLUMNS[layout.kind].map((column) => {
    const value = dictColumns.includes(column) ? fromDict(values, layout, column) : values(column);
    return comparable(column, value);
  });
  return `${layout.kind}:${JSON.stringify(key)}`;
}

/**
 * The key under which APEL stores a record; a later record with the same key REPLACES it. Summaries v0.2 and v0.4 share
 * a table. Absent GlobalUserName, VOGroup and VORole are null; the service level's type is compared without case, its
 * value as a number of 3 decimals.
 */
export function apelKey(record: ApelRecord): string {
  const layout = layoutFor(record.kind, "summary-0.2");
  const fields = toFields(record, layout);
  return keyOf((name) => fields.get(name), layout);
}

/** The key of a record as it is in a message; it need not be valid (KAPEL writes service levels with many decimals). */
export function parsedKey(record: ParsedRecord): string {
  return keyOf((name) => record.fields.get(name)?.value, record.layout);
}

/**
 * All keys of a message, in its order. Values are not judged.
 * @throws GridmeterError `message_invalid` if the text has no known header or no record: its keys are then unknown, not none
 */
export function messageKeys(text: string): string[] {
  return legible(text).map(parsedKey);
}

/**
 * The keys of a message whose records replace earlier figures: all, or none of single jobs, each of which is reported
 * once. Throws as `messageKeys`.
 */
export function replacingKeys(text: string): string[] {
  return legible(text)
    .filter(({ layout }) => layout.kind !== "individual")
    .map(parsedKey);
}

/** The broker takes no longer message, so a longer one is none that APEL will ever hold. */
const LONGEST_SENT = 1_000_000;

function legible(text: string): readonly ParsedRecord[] {
  if (text.length > LONGEST_SENT) {
    throw new GridmeterError(
      "message_invalid",
      `an APEL message has ${text.length} characters and cannot be sent, it was left as it is: the broker takes ${LONGEST_SENT} bytes`,
    );
  }
  const { records, problems } = parseMessage(text);
  if (records.length > 0) return records;
  throw new GridmeterError(
    "message_invalid",
    `the keys of an APEL message cannot be known, it was left as it is: ${problemText(problems)}`,
  );
}
