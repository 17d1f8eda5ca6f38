import { z } from "zod";
import type { Request } from "../accounting/periods.ts";
import { addMonths, endOfMonth, monthOf, startOf } from "../accounting/time.ts";
import { runFlags } from "../accounting/work-item.ts";
import type { RunFlags } from "../accounting/work-item.ts";
import { parsedBy } from "../config/parsed.ts";
import { parseInstant } from "../config/period.ts";
import { GridmeterError } from "../errors.ts";
import { shapeText } from "../shape-text.ts";

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
export type PlanRequest = {
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
