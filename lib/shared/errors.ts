import { plainText } from "./text.ts";

/**
 * Every error a user can meet, by its stable code. `docs/errors.md` is generated from this table.
 * `exit` is the command line's exit code: 2 usage or configuration, 3 refused, 4 Prometheus or store failed.
 * `retryable` says whether the same call may succeed later without anybody changing anything.
 */
export const ERRORS = {
  config_invalid: {
    exit: 2,
    retryable: false,
    meaning: "A setting is missing or malformed; all such settings are listed at once.",
  },
  usage: { exit: 2, retryable: false, meaning: "The command line's arguments are off." },
  period_invalid: {
    exit: 2,
    retryable: false,
    meaning: "The period ends before it starts, lies in the future, or has a time without a zone.",
  },
  namespace_unknown: {
    exit: 2,
    retryable: false,
    meaning: "Prometheus knows no such namespace in the period asked for.",
  },
  labels_exported: {
    exit: 2,
    retryable: false,
    meaning: "The pods' labels have a prefix other than exported_ that PROMETHEUS_LABEL_PREFIX does not name.",
  },
  vo_label_missing: {
    exit: 2,
    retryable: false,
    meaning: "The pod label that should split the namespace into VOs never appears in the data.",
  },
  tenants_overlap: {
    exit: 2,
    retryable: false,
    meaning: "Two tenants select the same pods, whose jobs would count twice.",
  },
  phase_missing: {
    exit: 3,
    retryable: false,
    meaning: "Pods ended on days on which kube_pod_status_phase has no series of finished pods.",
  },
  metric_missing: {
    exit: 3,
    retryable: false,
    meaning: "A metric of kube-state-metrics that every job needs has no series on days on which pods finished.",
  },
  answers_disagree: {
    exit: 4,
    retryable: true,
    meaning: "Prometheus gives some facts of pods and not others: replicas with different data behind one address.",
  },
  all_left_out: {
    exit: 3,
    retryable: false,
    meaning: "Pods succeeded in the month, but every finished pod was left out.",
  },
  monitoring_not_seen: {
    exit: 3,
    retryable: false,
    meaning: "kube-state-metrics was not seen for a whole day or more of the month.",
  },
  decrease_refused: {
    exit: 3,
    retryable: false,
    meaning: "The month's figures are lower than what was published before.",
  },
  pinned_refused: { exit: 3, retryable: false, meaning: "Hand-written records pin APEL keys of this month." },
  format_refused: {
    exit: 3,
    retryable: false,
    meaning: "The month was published as individual records and cannot change its format.",
  },
  cpu_data_refused: {
    exit: 3,
    retryable: false,
    meaning: "Too many of the month's core-seconds have no measured CPU use.",
  },
  ledger_incomplete: {
    exit: 3,
    retryable: false,
    meaning: "Another tenant of the same site and submit host has days that are not in the ledger.",
  },
  moved_tenant_refused: {
    exit: 3,
    retryable: false,
    meaning: "A tenant's jobs are still published under another site or submit host.",
  },
  prometheus_unreachable: { exit: 4, retryable: true, meaning: "No answer from Prometheus." },
  prometheus_auth: {
    exit: 4,
    retryable: false,
    meaning: "Prometheus or a proxy before it answered 401, 407, or 403 to POST and GET.",
  },
  prometheus_bad_query: {
    exit: 4,
    retryable: false,
    meaning: "Prometheus did not take the query: it answered 400, or the query is longer than it takes.",
  },
  prometheus_too_large: {
    exit: 4,
    retryable: true,
    meaning: "Prometheus refused the query as too large or too slow, even in the smallest pieces.",
  },
  prometheus_unavailable: {
    exit: 4,
    retryable: true,
    meaning: "Prometheus answered 429 or a 5xx status, time after time.",
  },
  prometheus_bad_answer: {
    exit: 4,
    retryable: true,
    meaning: "The answer is not what Prometheus sends: not JSON, cut short, or of another shape.",
  },
  prometheus_incomplete: { exit: 4, retryable: true, meaning: "The answer came with warnings and may be incomplete." },
  sample_invalid: {
    exit: 4,
    retryable: false,
    meaning: "A value is NaN or infinite where a time or a number of cores belongs.",
  },
  message_invalid: { exit: 2, retryable: false, meaning: "A message breaks a rule of APEL and was not stored." },
  store_failed: { exit: 4, retryable: true, meaning: "The directory or object store could not be read or written." },
  object_too_large: {
    exit: 4,
    retryable: false,
    meaning: "An object or file is larger than gridmeter ever writes there, and was not read.",
  },
  store_no_hard_links: {
    exit: 4,
    retryable: false,
    meaning: "The file system has no hard links, which the queue needs.",
  },
  queue_owner: {
    exit: 2,
    retryable: false,
    meaning: "The queue belongs to another user, who could not lock or remove what gridmeter writes there.",
  },
  store_conflict: { exit: 4, retryable: true, meaning: "Another run changed the same state again and again." },
  queue_failed: { exit: 4, retryable: true, meaning: "The SQS queue could not be read or written." },
  run_too_long: {
    exit: 4,
    retryable: false,
    meaning: "A month was not counted within the most invocations of the function that one run may take.",
  },
  queue_busy: {
    exit: 4,
    retryable: true,
    meaning: "An older message of the same month is locked by the reader and nothing remembers the new one.",
  },
  certificate_invalid: {
    exit: 2,
    retryable: false,
    meaning:
      "The host certificate or its key cannot be used: not a pair, expired, encrypted, or of a kind APEL does not know.",
  },
  message_too_large: {
    exit: 2,
    retryable: false,
    meaning: "A signed message is larger than APEL's messaging service takes.",
  },
  ams_auth: {
    exit: 4,
    retryable: false,
    meaning: "APEL's messaging service (AMS) did not take the certificate or the token.",
  },
  ams_refused: {
    exit: 4,
    retryable: false,
    meaning: "AMS refused the request for good: no such topic, say.",
  },
  ams_tls: {
    exit: 4,
    retryable: false,
    meaning: "There is no TLS connection to AMS: an unknown authority, another host's certificate, or plain HTTP.",
  },
  ams_unreachable: { exit: 4, retryable: true, meaning: "No answer from AMS." },
  ams_unavailable: { exit: 4, retryable: true, meaning: "AMS answered 408, 429 or a 5xx status, time after time." },
  ams_bad_answer: {
    exit: 4,
    retryable: false,
    meaning: "What answers at AMS_HOST is not AMS: a web page, a redirect, or JSON of another shape.",
  },
  delivery_elsewhere: {
    exit: 2,
    retryable: false,
    meaning: "The bucket says that its messages go another way: to AMS, or to the spooler.",
  },
  lease_lost: {
    exit: 4,
    retryable: true,
    meaning: "A sender took longer than its lease on a unit, and another one has the unit by now.",
  },
  pushgateway_failed: {
    exit: 4,
    retryable: true,
    meaning: "The Pushgateway could not be reached, or did not take what was sent.",
  },
  probe_failed: {
    exit: 4,
    retryable: true,
    meaning: "A probe's command could not be run, did not end in time, failed, or printed something else.",
  },
} as const satisfies Record<string, { exit: 2 | 3 | 4; retryable: boolean; meaning: string }>;

export type ErrorCode = keyof typeof ERRORS;

/** `lines`: what follows the message in lines of its own. */
type GridmeterErrorOptions = ErrorOptions & { readonly lines?: readonly string[] };

/**
 * An error with a stable code. `message` quotes the bad value, says what was done and what to do. It quotes servers, files and
 * settings, so it is made plain here, once for all that show it: a line break in it is one of `lines`, and no other.
 */
export class GridmeterError extends Error {
  readonly code: ErrorCode;
  readonly exit: 2 | 3 | 4;
  readonly retryable: boolean;

  constructor(code: ErrorCode, message: string, { lines = [], ...options }: GridmeterErrorOptions = {}) {
    super([message, ...lines].map((line) => plainText(line)).join("\n"), options);
    this.name = "GridmeterError";
    this.code = code;
    this.exit = ERRORS[code].exit;
    this.retryable = ERRORS[code].retryable;
  }
}

/** The text of anything that was thrown. */
export function errorText(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

export type ErrorSummary = { readonly code: string; readonly message: string; readonly retryable: boolean };

/** An error as plain data; anything that is not ours has the code `unexpected`. */
export function errorSummary(error: unknown): ErrorSummary {
  if (error instanceof GridmeterError) return { code: error.code, message: error.message, retryable: error.retryable };
  return { code: "unexpected", message: errorText(error), retryable: false };
}
