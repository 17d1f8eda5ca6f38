import type { Readable } from "node:stream";
import { z } from "zod";
import { GridmeterError } from "../../shared/errors.ts";
import type { Row } from "../model/monitoring.ts";
import type { Selection } from "../model/tenant.ts";
import { type Spelling, labelValue } from "./labels.ts";
import { parseJson } from "./errors.ts";
import { type InstantFact, VALUE, voLabel } from "./queries.ts";

/** One series of an instant query; the value may be NaN or infinite, which the caller judges. */
export type Sample = { readonly labels: Readonly<Record<string, string>>; readonly value: number };

/** One series of a range query: pairs of epoch seconds and value. */
export type Series = {
  readonly labels: Readonly<Record<string, string>>;
  readonly values: readonly (readonly [time: number, value: number])[];
};

/** JSON has no NaN, so a value is a text. */
type PointAsSent = readonly [time: number, value: string];

const SPECIAL: ReadonlyMap<string, number> = new Map([
  ["NaN", Number.NaN],
  ["+Inf", Number.POSITIVE_INFINITY],
  ["Inf", Number.POSITIVE_INFINITY],
  ["-Inf", Number.NEGATIVE_INFINITY],
]);
/** Characters of a value that is none and is quoted all the same. */
const LONGEST_VALUE = 100;
/** Characters of the server's warnings that are quoted. */
const LONGEST_WARNING = 2_000;
const NO_POINT = "a row has no value of a time and a text";
const NO_METRIC = "a row has no metric of texts";
const NUMBER = /^[+-]?[\d.]+(?:[eE][+-]?\d+)?$/;

const envelope = {
  status: z.literal("success"),
  warnings: z.array(z.string()).nullish(),
  /** VictoriaMetrics says so here instead of in a warning. */
  isPartial: z.boolean().optional(),
};
const answerOf = (resultType: "vector" | "matrix") =>
  z.object({ ...envelope, data: z.object({ resultType: z.literal(resultType), result: z.array(z.unknown()) }) });
const vector = answerOf("vector");
const matrix = answerOf("matrix");
const build = z.object({ status: z.literal("success"), data: z.object({ version: z.string() }) });

/** The rows of an instant query's answer, unread. Throws `prometheus_bad_answer` or `prometheus_incomplete`. */
function readVector(body: unknown, source: string): readonly unknown[] {
  const answer = read(vector, body, source);
  refusePartial(answer, source);
  return answer.data.result;
}

/**
 * One row of an instant query's answer. By hand, since there may be a million: a schema takes ten times as long.
 * Throws `prometheus_bad_answer`.
 */
function readSample(row: unknown, source: string): Sample {
  if (!isObject(row) || !isLabels(row["metric"])) throw otherShape(source, NO_METRIC);
  if (!isPoint(row["value"])) throw otherShape(source, NO_POINT);
  return { labels: row["metric"], value: readValue(row["value"], source) };
}

/** The series of a range query's answer. Throws `prometheus_bad_answer` or `prometheus_incomplete`. */
export function readMatrix(body: unknown, source: string): readonly Series[] {
  const answer = read(matrix, body, source);
  refusePartial(answer, source);
  return answer.data.result.map((row) => readSeries(row, source));
}

/** By hand as well: a month has nine thousand points, and all else waits for them. */
function readSeries(row: unknown, source: string): Series {
  if (!isObject(row) || !isLabels(row["metric"])) throw otherShape(source, NO_METRIC);
  if (!Array.isArray(row["values"]) || !row["values"].every(isPoint)) throw otherShape(source, NO_POINT);
  return { labels: row["metric"], values: row["values"].map((point) => [point[0], readValue(point, source)]) };
}

function readValue([, text]: PointAsSent, source: string): number {
  const value = numberOf(text);
  if (value !== undefined) return value;
  // Not cut, but left out: what was cut cannot be searched for a secret that the server repeats.
  const quoted = text.length > LONGEST_VALUE ? `a text of ${text.length} characters` : `"${text}"`;
  throw otherShape(source, `${quoted} is not a sample value`);
}

/** The server's version, or undefined if the answer is not Prometheus' build information. */
export function readVersion(body: unknown): string | undefined {
  const answer = build.safeParse(body);
  return answer.success ? answer.data.data.version : undefined;
}

/** A sample value as Prometheus writes it, or undefined for any other text. */
export function numberOf(text: string): number | undefined {
  if (!NUMBER.test(text)) return SPECIAL.get(text);
  const number = Number(text);
  return Number.isNaN(number) ? undefined : number;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isLabels(value: unknown): value is Record<string, string> {
  if (!isObject(value)) return false;
  for (const name in value) if (typeof value[name] !== "string") return false;
  return true;
}

function isPoint(value: unknown): value is PointAsSent {
  return Array.isArray(value) && value.length === 2 && typeof value[0] === "number" && typeof value[1] === "string";
}

function read<T extends z.ZodType>(schema: T, body: unknown, source: string): z.infer<T> {
  const answer = schema.safeParse(body);
  if (answer.success) return answer.data;
  const issue = answer.error.issues[0];
  throw otherShape(source, issue === undefined ? "" : `${issue.path.join(".")}: ${issue.message}`);
}

function otherShape(source: string, what: string): GridmeterError {
  const where = what === "" ? "" : ` (${what})`;
  return new GridmeterError(
    "prometheus_bad_answer",
    `${source} answered 200 with JSON of another shape than Prometheus sends${where}. Nothing was published. ` +
      "Set PROMETHEUS_SERVER to the base address of a Prometheus HTTP API.",
  );
}

function refusePartial(
  answer: { readonly warnings?: readonly string[] | null | undefined; readonly isPartial?: boolean | undefined },
  source: string,
): void {
  const warnings = answer.warnings ?? [];
  if (warnings.length === 0 && answer.isPartial !== true) return;
  const text = warnings.length === 0 ? "isPartial: true" : warnings.join("; ").slice(0, LONGEST_WARNING);
  throw new GridmeterError(
    "prometheus_incomplete",
    `${source} answered with a warning, so the answer may be incomplete: "${text}". ` +
      "Nothing was published. See that all its stores are up, then run again.",
  );
}

/** Characters gathered before the rows among them are parsed: large enough for JSON.parse, small enough for memory. */
const BATCH = 1 << 18;
/** Inside a JSON text a quote is escaped, so neither of these can stand in a label's value. */
const RESULT = `"result":[`;
const ROW = `,{"metric":`;
/**
 * Longest answers that are taken, in characters: of those read as a whole, and of those whose rows are handed over as they
 * arrive, where each pod costs memory all the same. Two million pods have 200 million characters.
 */
const LONGEST = { whole: 1 << 25, rows: 1 << 28 };

/** A body that is no whole JSON; `start` is its beginning. */
export class NotJson extends Error {
  readonly start: string;

  constructor(start: string) {
    super("the JSON stops in the middle");
    this.start = start;
  }
}

/** A whole body as JSON. Throws `NotJson`, `prometheus_too_large`, and whatever the stream fails with. */
export async function readJson(body: Readable, source: string): Promise<unknown> {
  let text = "";
  for await (const piece of texts(body)) {
    text += piece;
    refuseLonger(text.length, LONGEST.whole, source);
  }
  const json = parseJson(text);
  if (json === undefined) throw new NotJson(text.slice(0, BATCH));
  return json;
}

/**
 * Hands over the rows of an instant query's answer while it arrives, so that memory does not depend on its size. What was
 * handed over holds only once this returns, for the end of the body may say that it is no good.
 *
 * The rows are cut out of the array in batches and parsed by themselves; what is left of the body is parsed as a whole, so
 * a body is taken if and only if it is JSON of the right shape from end to end. One that is not written as compactly as
 * Prometheus does is read as a whole, and so is one that was compressed: what it says is known to be what was sent only
 * once its checksum, which is at the end, was seen (`checked`).
 * Throws `NotJson`, whatever the stream fails with, `prometheus_bad_answer`, `prometheus_incomplete` and, for a longer
 * answer than can be held, `prometheus_too_large`.
 */
export async function streamVector(
  body: Readable,
  source: string,
  handler: RowHandler,
  checked = false,
): Promise<void> {
  let head: string | undefined;
  let held = "";
  let length = 0;
  let cuttable = !checked;
  for await (const piece of texts(body)) {
    held += piece;
    length += piece.length;
    refuseLonger(length, LONGEST.rows, source);
    refuseLonger(held.length, LONGEST.whole, source);
    if (held.length < BATCH || !cuttable) continue;
    if (head === undefined) {
      const start = held.indexOf(RESULT);
      cuttable = start >= 0;
      if (!cuttable) continue;
      head = held.slice(0, start + RESULT.length);
      held = held.slice(head.length);
    }
    const last = held.lastIndexOf(ROW);
    cuttable = last > 0;
    if (!cuttable) continue;
    if (!handler.text(held.slice(0, last))) throw new NotJson((head + held).slice(0, BATCH));
    held = held.slice(last + 1);
  }
  const rest = (head ?? "") + held;
  const json = parseJson(rest);
  if (json === undefined) throw new NotJson(rest.slice(0, BATCH));
  handler.parsed(readVector(json, source));
}

/** A body's text as it arrives. Bytes that are no UTF-8 are an error: replaced, they would make one uid of two. */
async function* texts(body: Readable): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  for await (const chunk of body) if (chunk instanceof Uint8Array) yield decoder.decode(chunk, { stream: true });
  yield decoder.decode();
}

function refuseLonger(length: number, longest: number, source: string): void {
  if (length <= longest) return;
  throw new GridmeterError(
    "prometheus_too_large",
    `${source} sent an answer of more than ${longest / 2 ** 20} MiB, which was not read to its end. Nothing was published. ` +
      "See whether a proxy in between alters the answers.",
  );
}

/** Takes the rows of an instant query's answer as they arrive. Both throw `prometheus_bad_answer`. */
export type RowHandler = {
  /** Rows as they are written, a comma between two. False if that is no JSON; some of them may be taken then. */
  readonly text: (rows: string) => boolean;
  readonly parsed: (rows: readonly unknown[]) => void;
};

/** Takes rows of any labels. */
export function sampleHandler(source: string, add: (sample: Sample) => void): RowHandler {
  const parsed = (rows: readonly unknown[]): void => {
    for (const row of rows) add(readSample(row, source));
  };
  return {
    parsed,
    text: (rows) => {
      const json = parseJson(`[${rows}]`);
      if (!Array.isArray(json)) return false;
      parsed(json);
      return true;
    },
  };
}

/**
 * Takes rows that have one label: its text ("" where a row has it not) and the value. As long as rows are written as
 * Prometheus writes them they are read without an object for each, which takes half the time and leaves no garbage; from the
 * first that is not (a text with an escape, say), the others that came with it are read as any other JSON.
 * @param label a Prometheus label name
 */
export function labelHandler(source: string, label: string, add: (text: string, value: number) => void): RowHandler {
  const asJson = sampleHandler(source, ({ labels, value }) => add(labels[label] ?? "", value));
  const row = new RegExp(
    String.raw`\{"metric":\{"${label}":"([ !#-[\]-~]*)"\},"value":\[(?:0|[1-9]\d*)(?:\.\d+)?,"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)"\]\}(?:,(?=\{)|$)`,
    "y",
  );
  return {
    parsed: asJson.parsed,
    text: (rows) => {
      let taken = 0;
      row.lastIndex = 0;
      for (let found = row.exec(rows); found !== null; found = row.exec(rows)) {
        taken = row.lastIndex;
        add(found[1] ?? "", Number(found[2]));
      }
      return taken === rows.length || asJson.text(rows.slice(taken));
    },
  };
}

/** No path of Linux is longer. A longer id is not looked at. */
const LONGEST_ID = 4096;
/** A uid, or the 32 digits of a static pod. systemd's cgroup driver writes the dashes as underscores. */
const POD_UID = /pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?![0-9a-z])/iy;

/**
 * The pod's uid in a cAdvisor id, or undefined where there is none (a node's own slices). Kubelets and runtimes write it in
 * many paths, and in all of them it follows the word `pod`:
 * cgroupfs `/kubepods/burstable/pod<uid>/<container>`; systemd `...-pod<uid>.slice/cri-containerd-<container>.scope`; a
 * runtime without the systemd driver under a kubelet with it `...-pod<uid>.slice:cri-containerd:<container>`.
 */
export function uidOfId(id: string): string | undefined {
  if (id.length > LONGEST_ID) return undefined;
  // From the end: a kubelet inside a pod of another kubelet has both in its path, and the last is the pod's own.
  for (let at = id.lastIndexOf("pod"); at >= 0; at = at === 0 ? -1 : id.lastIndexOf("pod", at - 1)) {
    if (at > 0 && /[0-9a-z]/i.test(id.charAt(at - 1))) continue;
    POD_UID.lastIndex = at;
    const uid = POD_UID.exec(id)?.[1];
    if (uid !== undefined) return uid.replaceAll("_", "-");
  }
  return undefined;
}

/** How rows are read: of answers that have one label, from its text; of others, from the sample. */
export type RowReader =
  | { readonly label: string; readonly ofText: (text: string, value: number) => Row | undefined }
  | { readonly label?: never; readonly ofSample: (sample: Sample) => Row | undefined };

/**
 * How the answer of `factQuery(fact)` is read as rows; undefined for what belongs to no pod.
 * The functions throw `prometheus_bad_answer` for a pod without a uid.
 */
export function rowReader(fact: InstantFact, selection: Selection, spelling: Spelling): RowReader {
  const uidOf = (labels: Sample["labels"]): string => checkedUid(labelValue(labels, "uid", spelling), selection);
  switch (fact) {
    case "cpu":
      return {
        label: "id",
        ofText: (part, value) => ({ uid: uidOfId(part) ?? "", value, part }),
      };
    case "memoryUsed":
      return {
        ofSample: ({ labels, value }) => {
          const uid = uidOfId(labels["id"] ?? "");
          // A restarted container has several ids: its maximum counts once, and the reader adds the containers up.
          return uid === undefined ? undefined : { uid, value, part: labelValue(labels, "container", spelling) };
        },
      };
    case "vo":
      return { ofSample: ({ labels }) => ({ uid: uidOf(labels), value: 1, text: labels[voLabel(selection)] ?? "" }) };
    case "voAt":
      return {
        ofSample: ({ labels, value }) => ({
          uid: uidOf(labels),
          value: 1,
          text: labels[voLabel(selection)] ?? "",
          at: value,
        }),
      };
    case "name":
      return {
        ofSample: ({ labels, value }) => ({ uid: uidOf(labels), value, text: labelValue(labels, "pod", spelling) }),
      };
    case "cores":
    case "unscheduledCores":
    case "memoryRequest":
    case "unscheduledMemoryRequest":
      return {
        ofSample: ({ labels }) => ({
          uid: uidOf(labels),
          value: numberOf(labels[VALUE] ?? "") ?? Number.NaN,
          part: labelValue(labels, "container", spelling),
        }),
      };
    case "end":
    case "start":
    case "succeeded":
    case "failed":
    case "runningUntil":
      return spelling.prefix === ""
        ? { label: "uid", ofText: (uid, value) => ({ uid: checkedUid(uid, selection), value }) }
        : { ofSample: ({ labels, value }) => ({ uid: uidOf(labels), value }) };
    default:
      return fact satisfies never;
  }
}

/** Throws `prometheus_bad_answer` for an empty uid. */
export function checkedUid(uid: string, { namespace }: Selection): string {
  if (uid !== "") return uid;
  throw new GridmeterError(
    "prometheus_bad_answer",
    `Pods in namespace "${namespace}" have no uid label, so their jobs cannot be distinguished. ` +
      "Nothing was published. Use kube-state-metrics 2 or later and do not drop its uid label.",
  );
}
