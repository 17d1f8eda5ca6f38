import { plainText } from "./text.ts";

/**
 * Every error a user can meet, by its stable code. `docs/errors.md` is generated from this table.
 * `exit` is the command line's exit code: 2 usage or configuration, 3 refused, 4 Prometheus or store failed.
 * `retryable` says whether the same call may succeed later without anybody changing anything; `remedy` what to do.
 */
export const ERRORS = {
  config_invalid: {
    exit: 2,
    retryable: false,
    meaning: "A setting is missing or malformed; all such settings are listed at once.",
    remedy:
      "Correct each setting that the message lists, with its name and value as it was read. docs/configuration.md has them all.",
  },
  usage: {
    exit: 2,
    retryable: false,
    meaning: "The command line's arguments are off.",
    remedy: "See `gridmeter COMMAND --help`, which has examples.",
  },
  period_invalid: {
    exit: 2,
    retryable: false,
    meaning: "The period ends before it starts, lies in the future, or has a time without a zone.",
    remedy: "Give `--start` before `--end`, both in ISO 8601 with a zone, and no month that has not begun.",
  },
  namespace_unknown: {
    exit: 2,
    retryable: false,
    meaning: "Prometheus knows no such namespace in the period asked for.",
    remedy:
      "Compare NAMESPACE and PROMETHEUS_LABELS with what Prometheus has; the message names namespaces that are like it.",
  },
  labels_exported: {
    exit: 2,
    retryable: false,
    meaning: "The pods' labels have a prefix other than exported_ that PROMETHEUS_LABEL_PREFIX does not name.",
    remedy:
      "Set PROMETHEUS_LABEL_PREFIX to the prefix that the message names, or scrape kube-state-metrics with honor_labels.",
  },
  vo_label_missing: {
    exit: 2,
    retryable: false,
    meaning: "The pod label that should split the namespace into VOs never appears in the data.",
    remedy: "Let kube-state-metrics show the label (`--metric-labels-allowlist`), or correct VO_LABEL, or take it out.",
  },
  tenants_overlap: {
    exit: 2,
    retryable: false,
    meaning: "Two tenants select the same pods, whose jobs would count twice.",
    remedy:
      "Give the tenants other namespaces, or PROMETHEUS_LABELS that exclude each other. The message names a pod that both select.",
  },
  phase_missing: {
    exit: 3,
    retryable: false,
    meaning: "Pods ended on days on which kube_pod_status_phase has no series of finished pods.",
    remedy: "Let Prometheus keep `kube_pod_status_phase`. `--allow-incomplete` publishes without those days.",
  },
  metric_missing: {
    exit: 3,
    retryable: false,
    meaning: "A metric of kube-state-metrics that every job needs has no series on days on which pods finished.",
    remedy:
      "Let Prometheus keep the metric that the message names; it also says who is known to drop it. `--allow-incomplete` publishes without those days.",
  },
  answers_disagree: {
    exit: 4,
    retryable: true,
    meaning: "Prometheus gives some facts of pods and not others: replicas with different data behind one address.",
    remedy: "Ask one replica, or one address that merges the replicas (a querier), and run again.",
  },
  all_left_out: {
    exit: 3,
    retryable: false,
    meaning: "Pods succeeded in the month, but every finished pod was left out.",
    remedy:
      "The message names the reason. Without CPU requests, set DEFAULT_CORES. `--allow-incomplete` publishes the month as it is.",
  },
  monitoring_not_seen: {
    exit: 3,
    retryable: false,
    meaning: "kube-state-metrics was not seen for a whole day or more of the month.",
    remedy:
      "Mend the scraping of kube-state-metrics. Days that are lost are published without their jobs with `--allow-incomplete`; for a cluster that is younger, set ACCOUNTING_SINCE.",
  },
  decrease_refused: {
    exit: 3,
    retryable: false,
    meaning: "The month's figures are lower than what was published before.",
    remedy: "Find out why the figures went down. If the lower ones are right, run once with `--allow-decrease`.",
  },
  pinned_refused: {
    exit: 3,
    retryable: false,
    meaning: "Hand-written records pin APEL keys of this month.",
    remedy: "Lift the pins with `gridmeter manual --unpin`, or publish over them with `--force`.",
  },
  format_refused: {
    exit: 3,
    retryable: false,
    meaning: "The month was published as individual records and cannot change its format.",
    remedy: 'Keep the format of that month, or follow "From summaries to single jobs, and back" in docs/correct.md.',
  },
  cpu_data_refused: {
    exit: 3,
    retryable: false,
    meaning: "Too many of the month's core-seconds have no measured CPU use.",
    remedy: "The message says what cAdvisor lacks and how to mend it. Or set ACCOUNTING_MODEL=core-seconds.",
  },
  ledger_incomplete: {
    exit: 3,
    retryable: false,
    meaning: "Another tenant of the same site and submit host has days that are not in the ledger.",
    remedy: "Run without `--tenant`, so that the other tenants are counted too.",
  },
  moved_tenant_refused: {
    exit: 3,
    retryable: false,
    meaning: "A tenant's jobs are still published under another site or submit host.",
    remedy: "Run for all tenants that have to do with both units, so that the old one is zeroed in the same run.",
  },
  prometheus_unreachable: {
    exit: 4,
    retryable: true,
    meaning: "No answer from Prometheus.",
    remedy: "See that the address is right and can be reached from here: proxy, firewall, certificate. Then run again.",
  },
  prometheus_auth: {
    exit: 4,
    retryable: false,
    meaning: "Prometheus or a proxy before it answered 401, 407, or 403 to POST and GET.",
    remedy: "Correct the credentials, or let the user read. For a function, store the new header in its parameter.",
  },
  prometheus_bad_query: {
    exit: 4,
    retryable: false,
    meaning: "Prometheus did not take the query: it answered 400, or the query is longer than it takes.",
    remedy: "Run `gridmeter plan`, which prints the queries, and try one by hand. Report it if the query is not valid.",
  },
  prometheus_too_large: {
    exit: 4,
    retryable: true,
    meaning: "Prometheus refused the query as too large or too slow, even in the smallest pieces.",
    remedy: "Raise the limits of Prometheus (`--query.max-samples`, `--query.timeout`), or QUERY_TIMEOUT here.",
  },
  prometheus_unavailable: {
    exit: 4,
    retryable: true,
    meaning: "Prometheus answered 429 or a 5xx status, time after time.",
    remedy: "Run again when Prometheus or the proxy before it is well. If it is overloaded, lower QUERY_CONCURRENCY.",
  },
  prometheus_bad_answer: {
    exit: 4,
    retryable: true,
    meaning: "The answer is not what Prometheus sends: not JSON, cut short, or of another shape.",
    remedy:
      "See what PROMETHEUS_SERVER names: a login page and a proxy in between are the usual causes. Then run again.",
  },
  prometheus_incomplete: {
    exit: 4,
    retryable: true,
    meaning: "The answer came with warnings and may be incomplete.",
    remedy: "See to the warning, mostly a store behind Thanos or Mimir that did not answer, and run again.",
  },
  sample_invalid: {
    exit: 4,
    retryable: false,
    meaning: "A value is NaN or infinite where a time or a number of cores belongs.",
    remedy: "Find the exporter that writes the value: the message has the series.",
  },
  message_invalid: {
    exit: 2,
    retryable: false,
    meaning: "A message breaks a rule of APEL and was not stored.",
    remedy: "Correct what the message lists, line by line. Of a message that gridmeter made, report it.",
  },
  store_failed: {
    exit: 4,
    retryable: true,
    meaning: "The directory or object store could not be read or written.",
    remedy: "See to the cause that the message names (rights, space, network), and run again.",
  },
  object_too_large: {
    exit: 4,
    retryable: false,
    meaning: "An object or file is larger than gridmeter ever writes there, and was not read.",
    remedy: "See who put the object there, and move it away.",
  },
  store_no_hard_links: {
    exit: 4,
    retryable: false,
    meaning: "The file system has no hard links, which the queue needs.",
    remedy: "Put the queue on a local file system such as ext4 or XFS.",
  },
  queue_owner: {
    exit: 2,
    retryable: false,
    meaning: "The queue belongs to another user, who could not lock or remove what gridmeter writes there.",
    remedy: "Run gridmeter as the user who owns the queue, which is the one that runs ssmsend.",
  },
  store_conflict: {
    exit: 4,
    retryable: true,
    meaning: "Another run changed the same state again and again.",
    remedy: "See that no two runs go on at once, and run again.",
  },
  queue_failed: {
    exit: 4,
    retryable: true,
    meaning: "The SQS queue could not be read or written.",
    remedy: "See that the URL is right and the rights of the queue allow it, and run again.",
  },
  run_too_long: {
    exit: 4,
    retryable: false,
    meaning: "A month was not counted within the most invocations of the function that one run may take.",
    remedy:
      "See why Prometheus answers so slowly, or give the function more time. What was counted is in the ledger: the next run goes on from there.",
  },
  queue_busy: {
    exit: 4,
    retryable: true,
    meaning: "An older message of the same month is locked by the reader and nothing remembers the new one.",
    remedy: "Run again when ssmsend is done, or keep a ledger, which remembers the message.",
  },
  certificate_invalid: {
    exit: 2,
    retryable: false,
    meaning:
      "The host certificate or its key cannot be used: not a pair, expired, encrypted, or of a kind APEL does not know.",
    remedy:
      "Name the host certificate and its own key, both PEM and not encrypted (AMS_CERTIFICATE, AMS_KEY), or renew the certificate.",
  },
  message_too_large: {
    exit: 2,
    retryable: false,
    meaning: "A signed message is larger than APEL's messaging service takes.",
    remedy: "See who wrote the message: gridmeter's have at most 500 kB. It was set aside, and the rest went on.",
  },
  ams_auth: {
    exit: 4,
    retryable: false,
    meaning: "APEL's messaging service (AMS) did not take the certificate or the token.",
    remedy: "See that GOCDB holds the name of the host certificate, which gridmeter check shows, or renew the token.",
  },
  ams_refused: {
    exit: 4,
    retryable: false,
    meaning: "AMS refused the request for good: no such topic, say.",
    remedy: "Compare AMS_HOST, AMS_PROJECT and AMS_TOPIC with what APEL told you.",
  },
  ams_tls: {
    exit: 4,
    retryable: false,
    meaning: "There is no TLS connection to AMS: an unknown authority, another host's certificate, or plain HTTP.",
    remedy:
      "Name the authorities of the service in AMS_CA_FILE, and see that AMS_HOST, AMS_PORT and AMS_AUTHN_PORT are its own.",
  },
  ams_unreachable: {
    exit: 4,
    retryable: true,
    meaning: "No answer from AMS.",
    remedy:
      "See that this machine may connect to AMS_HOST, ports 443 and 8443, and run again: what was not sent waits.",
  },
  ams_unavailable: {
    exit: 4,
    retryable: true,
    meaning: "AMS answered 408, 429 or a 5xx status, time after time.",
    remedy: "Run again later: what was not sent waits.",
  },
  ams_bad_answer: {
    exit: 4,
    retryable: false,
    meaning: "What answers at AMS_HOST is not AMS: a web page, a redirect, or JSON of another shape.",
    remedy: "Correct AMS_HOST and the ports, or see what answers in its place, such as a proxy.",
  },
  delivery_elsewhere: {
    exit: 2,
    retryable: false,
    meaning: "The bucket says that its messages go another way: to AMS, or to the spooler.",
    remedy:
      "Send from where the bucket says, or take it over with gridmeter send --take-over after the other way has ended.",
  },
  lease_lost: {
    exit: 4,
    retryable: true,
    meaning: "A sender took longer than its lease on a unit, and another one has the unit by now.",
    remedy: "Run again. See why the sender was so slow, or whether the machine was suspended.",
  },
  pushgateway_failed: {
    exit: 4,
    retryable: true,
    meaning: "The Pushgateway could not be reached, or did not take what was sent.",
    remedy: "See that the Pushgateway is reachable and takes pushes: its answer is in the message.",
  },
  probe_failed: {
    exit: 4,
    retryable: true,
    meaning: "A probe's command could not be run, did not end in time, failed, or printed something else.",
    remedy: "Run the command of the message by hand. docs/agent.md says what each probe needs.",
  },
} as const satisfies Record<string, { exit: 2 | 3 | 4; retryable: boolean; meaning: string; remedy: string }>;

export type ErrorCode = keyof typeof ERRORS;

declare const __GRIDMETER_HOMEPAGE__: string | undefined;

/** Where the documents are: in the repository, or, where package.json has a `homepage`, below that. */
export const DOCUMENTS = typeof __GRIDMETER_HOMEPAGE__ === "undefined" ? "docs/" : __GRIDMETER_HOMEPAGE__;

/** The address of what the documents say about an error; of what is none of ours, of how to report it. */
export function pageOfError(error: unknown): string {
  return error instanceof GridmeterError ? `${DOCUMENTS}errors.md#${error.code}` : `${DOCUMENTS}errors.md#unexpected`;
}

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
