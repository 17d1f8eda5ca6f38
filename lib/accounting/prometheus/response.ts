import { z } from "zod";
import { GridmeterError } from "../../shared/errors.ts";

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

/** The samples of an instant query's answer. Throws `prometheus_bad_answer` or `prometheus_incomplete`. */
export function readVector(body: unknown, source: string): readonly Sample[] {
  const answer = read(vector, body, source);
  refusePartial(answer, source);
  return answer.data.result.map((row) => readSample(row, source));
}

/**
 * One row of an instant query's answer, checked by hand, since there may be a million: a schema takes ten times as long.
 * Throws `prometheus_bad_answer`.
 */
export function readSample(row: unknown, source: string): Sample {
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

/** One series, checked by hand as well: a month of it has nine thousand points. */
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
