import { exitCode, runAccounting, runErrors } from "../../lib/accounting/run.ts";
import { GridmeterError, errorSummary } from "../../lib/shared/errors.ts";
import { type RunSummary, type TenantMonthSummary, summarise } from "../../lib/accounting/summary.ts";
import type { LoadedSettings } from "../../lib/accounting/settings/load.ts";
import { plainLines } from "../../lib/shared/text.ts";
import { type Finding, checkPrometheus } from "../../lib/accounting/check.ts";
import { MemoryStore } from "../../lib/accounting/store/store.ts";
import { type SendingChecked, checkSending } from "../../lib/accounting/send.ts";
import { loadAms, namesAms } from "../../lib/accounting/settings/ams.ts";
import { checkOutput, clientOf, namespacesOf, openLedger, runPorts } from "../../lib/accounting/ports.ts";
import { boundHeap } from "../bounded-heap.ts";
import { jsonLine } from "../show/json.ts";
import { requestOf, settingsOf } from "./account.ts";
import type { AccountOptions } from "./account.ts";
import { linesOfError, nowInSeconds, say, warn } from "./options.ts";
import { amsRequest } from "./send.ts";

/** `BAD` keeps `gridmeter account` with the same options from exit code 0; `WARN` is worth a look. */
type Judged = Omit<Finding, "ok"> & { readonly verdict: "ok" | "WARN" | "BAD" };
type Checked = { readonly tenant: string; readonly findings: readonly Judged[] };

/**
 * `gridmeter check`: asks what an administrator should know of the monitoring, and counts the months that `account` would publish,
 * without writing anything. Where the settings name AMS, it asks whether messages could be sent, too. Gives the exit code that
 * `account` with the same options and, there, --send would end with.
 */
export async function check(options: AccountOptions): Promise<number> {
  const settings = settingsOf(options);
  const now = nowInSeconds();
  boundHeap();
  const monitoring = await monitoringFindings(settings, now);
  const { summary, error, code: countingCode } = await counted(settings, options, now);
  const tenants = monitoring.map(({ tenant, findings }): Checked => ({
    tenant,
    findings: [...findings, ...(summary === undefined ? [] : monthFindings(summary, tenant)), ...error],
  }));
  const sending = await sendingFindings(options, now);
  const code = countingCode === 0 ? (sending?.error?.exit ?? 0) : countingCode;
  const found = sending?.findings.map((finding) => judgedSending(finding, sending));
  if (options.json === true)
    process.stdout.write(jsonLine({ tenants, ...(found === undefined ? {} : { sending: found }), exitCode: code }));
  else
    process.stdout.write(
      [...tenants, ...(found === undefined ? [] : [{ tenant: "sending to AMS", findings: found }])].map(text).join(""),
    );
  return code;
}

/** What is to be known of sending to AMS, where the settings or --ssm-config name it. */
async function sendingFindings(options: AccountOptions, now: number): Promise<SendingChecked | undefined> {
  const { envFile, ssmConfig } = options;
  const request = amsRequest({ envFile, ssmConfig });
  if (!namesAms(request)) return undefined;
  try {
    return await checkSending(loadAms(request), now);
  } catch (thrown) {
    if (!(thrown instanceof GridmeterError)) throw thrown;
    const answer = `no: ${thrown.code}: ${thrown.message}`;
    return { findings: [{ question: "Are the settings of AMS right?", ok: false, answer }], error: thrown };
  }
}

/** The last finding is the one at which the sending would end, if it would. */
function judgedSending({ ok, ...finding }: Finding, { findings, error }: SendingChecked): Judged {
  if (ok) return { ...finding, verdict: "ok" };
  const isLast = findings.at(-1)?.question === finding.question;
  return { ...finding, verdict: error !== undefined && isLast ? "BAD" : "WARN" };
}

async function monitoringFindings(settings: LoadedSettings, now: number): Promise<readonly Checked[]> {
  const client = clientOf(settings);
  const checked: Checked[] = [];
  for (const { tenant } of settings.tenants) {
    const findings = await checkPrometheus(client(tenant), tenant, now, namespacesOf(settings));
    checked.push({
      tenant: tenant.name,
      findings: findings.map(({ ok, ...finding }) => ({ ...finding, verdict: ok ? "ok" : "WARN" })),
    });
  }
  return checked;
}

type Counted = {
  readonly summary?: RunSummary;
  /** why nothing could be counted at all */
  readonly error: readonly Judged[];
  readonly code: number;
};

/** What `account` would do, with the ledger as it is and nothing written. */
async function counted(settings: LoadedSettings, options: AccountOptions, now: number): Promise<Counted> {
  try {
    checkOutput(settings.output);
    const ledger = await openLedger(settings.ledger, true, process.env, warn);
    const result = await runAccounting(
      settings.tenants.map(({ tenant }) => tenant),
      { ...runPorts(settings, ledger.store), outbox: new MemoryStore() },
      {
        now,
        request: requestOf(settings),
        recount: false,
        force: false,
        allowDecrease: options.allowDecrease === true,
        allowIncomplete: options.allowIncomplete === true,
      },
    );
    return { summary: summarise(result), error: [], code: exitCode(runErrors(result)) };
  } catch (thrown) {
    if (!(thrown instanceof GridmeterError)) throw thrown;
    const { code, message } = errorSummary(thrown);
    say(...linesOfError(thrown));
    const answer = `no: ${code}: ${message}`;
    return { error: [{ question: "Can the months be counted?", verdict: "BAD", answer }], code: thrown.exit };
  }
}

/** What becomes of a month without an error. */
const ANSWERS = {
  published: "yes",
  would_publish: "yes",
  unchanged: "it is published, and nothing has changed",
  empty: "nothing to publish yet",
  refused: "no",
  failed: "no",
} as const satisfies Record<RunSummary["months"][number]["units"][number]["status"], string>;

/** One answer a month, its warnings, and what of its pods is left out. */
function monthFindings({ months }: RunSummary, tenant: string): readonly Judged[] {
  return months.flatMap(({ month, tenants, units }) => {
    const unit = units.find((each) => each.tenants.includes(tenant));
    const own = tenants.find((each) => each.tenant === tenant);
    if (own === undefined) return [];
    const question = `Would ${month} be published?`;
    const figures = `${own.jobs} jobs, ${own.coreHours.toFixed(1)} core hours`;
    const judged: Judged =
      unit?.error == null
        ? { question, verdict: "ok", answer: `${ANSWERS[unit?.status ?? "empty"]}: ${figures}` }
        : { question, verdict: "BAD", answer: `no: ${unit.error.code}: ${unit.error.message}` };
    const warnings = own.warnings.map((answer): Judged => ({
      question: `Is ${month} whole?`,
      verdict: "WARN",
      answer,
    }));
    return [judged, ...warnings, ...withoutRequest(month, own)];
  });
}

function withoutRequest(month: string, { leftOut }: TenantMonthSummary): readonly Judged[] {
  const pods = leftOut.no_cpu_request;
  if (pods === 0) return [];
  return [
    {
      question: `Do all jobs of ${month} have a CPU request?`,
      verdict: "WARN",
      answer: `no: ${pods} pods have none and are left out`,
      remedy:
        "Set DEFAULT_CORES, or let each container request CPU. kube-state-metrics does not report requests of a pod as a whole (spec.resources, Kubernetes 1.34).",
    },
  ];
}

function text({ tenant, findings }: Checked): string {
  const lines = findings.flatMap(({ question, verdict, answer, remedy }) => {
    const advice = remedy === undefined || verdict === "ok" ? [] : [`       ${remedy}`];
    return [`  ${verdict.padEnd(4)} ${question} ${answer}`, ...advice];
  });
  return plainLines([tenant, ...lines]);
}
