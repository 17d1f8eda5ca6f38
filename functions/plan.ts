import type { SQSClient } from "@aws-sdk/client-sqs";
import type { Context } from "aws-lambda";
import { z } from "zod";
import { sendAll, sqsError, unitGroup } from "../lib/accounting/delivery/notifications.ts";
import type { Tenant, Unit } from "../lib/accounting/model/tenant.ts";
import { MemoryStore, type ObjectStore, ReadOnlyStore } from "../lib/accounting/store/store.ts";
import { addMonths, endOfMonth, monthOf, startOf } from "../lib/accounting/model/time.ts";
import { type Request, periods } from "../lib/accounting/model/periods.ts";
import { preview } from "../lib/accounting/plan.ts";
import { chosenTenants, runPorts } from "../lib/accounting/ports.ts";
import { runAccounting } from "../lib/accounting/run.ts";
import { refuseOverlap } from "../lib/accounting/counting/tenant-overlap.ts";
import { parseInstant } from "../lib/accounting/settings/formats.ts";
import type { LoadedSettings } from "../lib/accounting/settings/load.ts";
import { summarise } from "../lib/accounting/summary.ts";
import { parsedBy } from "../lib/shared/config-values.ts";
import { GridmeterError } from "../lib/shared/errors.ts";
import { shapeText } from "../lib/shared/text.ts";
import {
  type Parts,
  invocation,
  lambdaParts,
  logger,
  needed,
  stopBefore,
  storeOf,
  warnDamaged,
} from "./common/runtime.ts";
import { lambdaSettings, withQueryLimit } from "./common/settings.ts";
import { type RunFlags, type WorkItem, runFlags } from "./common/work-item.ts";

const parts = lambdaParts(process.env);

/**
 * Puts one work item per (site, submit host, month) on the work queue; with `dryRun` shows what would be published instead.
 * Started daily by EventBridge Scheduler with {"mode":"auto"}, or by hand, e.g. with events/gap.json.
 */
export const handler = async (event: unknown, context: Context) => {
  const now = Math.floor(Date.now() / 1000);
  const remaining = (): number => context.getRemainingTimeInMillis();
  return invocation(context, async () => {
    const result = await plan(event, { id: context.awsRequestId, now, remaining }, parts);
    logger.info("planned", { result });
    return result;
  });
};

/** What an invocation is. `id` is the same when Lambda tries again. */
type Invocation = {
  readonly id: string;
  /** epoch seconds */
  readonly now: number;
  /** milliseconds that are left */
  readonly remaining: () => number;
};

/**
 * `plan`: one work item per publishing unit onto the work queue, or with `dryRun` what would come of them.
 * @throws GridmeterError `config_invalid`, `period_invalid`, `usage` (unknown tenant), `tenants_overlap`, `prometheus_*`: nothing was sent; `queue_failed`:
 * some may have been sent, and sending them again is harmless
 */
export async function plan(event: unknown, { id, now, remaining }: Invocation, parts: Parts) {
  const asked = parsePlanEvent(event, now);
  const time = stopBefore(remaining);
  const settings = withQueryLimit(await lambdaSettings(parts), time.querySeconds);
  const all = settings.tenants.map(({ tenant }) => tenant);
  const named = asked.tenants === undefined ? undefined : chosenTenants(settings, asked.tenants);
  const own = all.filter(({ name }) => named?.includes(name) !== false);
  const units = unitsOf(own, asked.request, now);
  if (asked.dryRun) {
    // A unit is published whole, so all its tenants are counted.
    const chosen = all.filter((one) =>
      own.some(({ site, submitHost }) => one.site === site && one.submitHost === submitHost),
    );
    return dryRun(asked, settings, chosen, storeOf(parts) ?? new MemoryStore(), { now, stop: time.stop });
  }
  // A work item is one unit's, so that only here all tenants are seen together.
  await refuseOverlap(all, runPorts(settings, storeOf(parts) ?? new MemoryStore()).monitoring, asked.request, now);
  const items = units.map((unit): WorkItem => ({ v: 1, ...unit, mode: asked.request.mode, ...asked.flags }));
  await sendItems(parts.sqs, needed(parts.env, "WORK_QUEUE_URL"), items, id);
  return { mode: asked.request.mode, now, sent: items };
}

async function sendItems(sqs: SQSClient, QueueUrl: string, items: readonly WorkItem[], id: string): Promise<void> {
  const messages = items.map((item, index) => ({
    MessageBody: JSON.stringify(item),
    MessageGroupId: unitGroup(item),
    // Lambda's own second try sends nothing twice; a person who asks again within minutes gets a run.
    MessageDeduplicationId: `${id}-${index}`,
  }));
  try {
    await sendAll(sqs, QueueUrl, messages);
  } catch (thrown) {
    const left = `Some of ${items.length} work items may have been sent; sending all again is harmless.`;
    throw sqsError(thrown, "put work on", "sqs:SendMessage", QueueUrl, left);
  }
}

const name = z.string().min(1);
const common = {
  ...runFlags,
  tenant: z.union([name, z.array(name).min(1)]).exactOptional(),
  tenants: z.array(name).min(1).exactOptional(),
  dryRun: z.boolean().exactOptional(),
};
const auto = z.strictObject({ mode: z.literal("auto"), ...common });
const times = { start: parsedBy(parseInstant), end: parsedBy(parseInstant) };
const byTimes = z.discriminatedUnion("mode", [auto, z.strictObject({ mode: z.literal("gap"), ...times, ...common })]);
/** A month that is named by its distance from now, so that an event in a file or a schedule stays right. */
const relativeMonth = z.enum(["previous-month", "current-month"]);
const byPeriod = z.discriminatedUnion("mode", [
  auto,
  z.strictObject({ mode: z.literal("gap"), period: relativeMonth, ...common }),
]);
const hasPeriod = z.looseObject({ period: z.string() });

/** What `plan` is asked for. */
type PlanRequest = {
  readonly request: Request;
  /** only units of these tenants */
  readonly tenants?: readonly string[];
  readonly flags: RunFlags;
  readonly dryRun: boolean;
};

const SHAPE =
  'Give {"mode":"auto"} or {"mode":"gap","start":"2026-01-01T00:00:00Z","end":"2026-02-01T00:00:00Z"} or ' +
  '{"mode":"gap","period":"previous-month"} (or "current-month"), and beside it if wanted ' +
  '"tenant", "recount", "force", "allowDecrease", "allowIncomplete" and "dryRun".';

/**
 * Reads the event of `plan`: from the schedule, or given by hand.
 * @param now epoch seconds
 * @throws GridmeterError `period_invalid` if only its period is wrong, else `config_invalid`
 */
export function parsePlanEvent(event: unknown, now: number): PlanRequest {
  const parsed = (hasPeriod.safeParse(event).success ? byPeriod : byTimes).safeParse(event);
  if (!parsed.success) {
    const { issues } = parsed.error;
    const period = issues.every(({ path: [first] }) => first === "start" || first === "end" || first === "period");
    throw new GridmeterError(
      period ? "period_invalid" : "config_invalid",
      `The event of plan ${JSON.stringify(event)?.slice(0, 300)} is wrong: ${shapeText(parsed.error)}. ` +
        `Nothing was put on the queue. ${SHAPE}`,
    );
  }
  const { tenant, tenants, dryRun = false, mode: _, ...rest } = parsed.data;
  const named = [...(typeof tenant === "string" ? [tenant] : (tenant ?? [])), ...(tenants ?? [])];
  const { recount, force, allowDecrease, allowIncomplete } = rest;
  return {
    request: requestOf(rest, now),
    ...(named.length === 0 ? {} : { tenants: named }),
    // A work item holds only what is asked for.
    flags: {
      ...(recount === true ? { recount } : {}),
      ...(force === true ? { force } : {}),
      ...(allowDecrease === true ? { allowDecrease } : {}),
      ...(allowIncomplete === true ? { allowIncomplete } : {}),
    },
    dryRun,
  };
}

type Asked = { start: number; end: number } | { period: z.infer<typeof relativeMonth> } | object;

function requestOf(asked: Asked, now: number): Request {
  if ("start" in asked) return { mode: "gap", start: asked.start, end: asked.end };
  if (!("period" in asked)) return { mode: "auto" };
  const month = asked.period === "current-month" ? monthOf(now) : addMonths(monthOf(now), -1);
  return { mode: "gap", start: startOf(month), end: endOfMonth(month) };
}

/** Lambda answers with 6 MB at most; what is over this is left out, and said so. */
const LARGEST = 5_000_000;

/**
 * What the run would ask for, decide and publish, with nothing written anywhere.
 * @param chosen the tenants that are counted
 * @throws GridmeterError `period_invalid`, `store_failed`
 */
async function dryRun(
  { request, flags }: PlanRequest,
  settings: LoadedSettings,
  chosen: readonly Tenant[],
  below: ObjectStore,
  { now, stop }: { readonly now: number; readonly stop: () => boolean },
) {
  const store = new ReadOnlyStore(below);
  const recount = flags.recount === true;
  const planned = await preview(chosen, store, { now, request, recount, damaged: warnDamaged });
  const result = await runAccounting(
    settings.tenants.map(({ tenant }) => tenant),
    runPorts(settings, store),
    {
      now,
      request,
      only: chosen.map(({ name }) => name),
      recount,
      force: flags.force === true,
      allowDecrease: flags.allowDecrease === true,
      allowIncomplete: flags.allowIncomplete === true,
      stop,
    },
  );
  const summary = summarise(result, true);
  const messages = summary.months.flatMap(({ units: outcomes }) =>
    outcomes.map(({ messages: texts, ...rest }) => ({ ...rest, ...(texts && { messages: [...texts] }) })),
  );
  const tooLarge = JSON.stringify(messages).length > LARGEST;
  return {
    dryRun: true,
    now,
    plan: planText(planned),
    /** out of time: nothing can be said of what would be published; ask for one tenant or month */
    interrupted: result.interrupted,
    counted: summary.months
      .flatMap(({ tenants }) => tenants)
      .filter(({ tenant }) => chosen.some((one) => one.name === tenant)),
    messages: tooLarge ? messages.map(({ messages: _texts, ...rest }) => rest) : messages,
    ...(tooLarge
      ? { warning: "The messages are too large for one answer and were left out; ask for one tenant or month." }
      : {}),
  };
}

/** What would be asked for and decided, by tenant and unit. */
function planText({ months, units }: Awaited<ReturnType<typeof preview>>) {
  return {
    months: months.map(({ tenant, plan, pieces }) => ({
      tenant: tenant.name,
      month: plan.period.month,
      settled: plan.days.filter((day) => plan.known.has(day)).length,
      recount: plan.recount,
      wouldAsk: pieces.map((days) => `${days[0]} to ${days.at(-1)}`),
    })),
    units: units.map(({ unit, tenants, state }) => ({
      ...unit,
      tenants,
      generation: state?.generation ?? 0,
      pins: state?.pins.length ?? 0,
    })),
  };
}

/** The units that the tenants publish in the months of a request, each once, months ascending. @throws period_invalid */
export function unitsOf(tenants: readonly Tenant[], request: Request, now: number): readonly Unit[] {
  const units = periods(request, now).flatMap(({ month }) =>
    tenants.map(({ site, submitHost }): [string, Unit] => [
      JSON.stringify([site, submitHost, month]),
      { site, submitHost, month },
    ]),
  );
  return [...new Map(units).values()];
}
