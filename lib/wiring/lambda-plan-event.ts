import { z } from "zod";
import type { Request } from "../accounting/periods.ts";
import { runFlags } from "../accounting/work-item.ts";
import type { RunFlags } from "../accounting/work-item.ts";
import { parsedBy } from "../config/parsed.ts";
import { parseInstant } from "../config/period.ts";
import { GridmeterError } from "../errors.ts";

const name = z.string().min(1);
const common = {
  ...runFlags,
  tenant: z.union([name, z.array(name).min(1)]).exactOptional(),
  tenants: z.array(name).min(1).exactOptional(),
  dryRun: z.boolean().exactOptional(),
};
const planEvent = z.discriminatedUnion("mode", [
  z.strictObject({ mode: z.literal("auto"), ...common }),
  z.strictObject({ mode: z.literal("gap"), start: parsedBy(parseInstant), end: parsedBy(parseInstant), ...common }),
]);

/** What `plan` is asked for. */
export type PlanRequest = {
  readonly request: Request;
  /** only units of these tenants */
  readonly tenants?: readonly string[];
  readonly flags: RunFlags;
  readonly dryRun: boolean;
};

const SHAPE =
  'Give {"mode":"auto"} or {"mode":"gap","start":"2026-01-01T00:00:00Z","end":"2026-02-01T00:00:00Z"}, and beside it if wanted ' +
  '"tenant", "recount", "force", "allowDecrease", "allowIncomplete" and "dryRun".';

/**
 * Reads the event of `plan`: from the schedule, or given by hand.
 * @throws GridmeterError `period_invalid` if only its times are off, else `config_invalid`
 */
export function parsePlanEvent(event: unknown): PlanRequest {
  const parsed = planEvent.safeParse(event);
  if (!parsed.success) {
    const { issues } = parsed.error;
    const period = issues.every(({ path }) => path[0] === "start" || path[0] === "end");
    throw new GridmeterError(
      period ? "period_invalid" : "config_invalid",
      `The event of plan ${JSON.stringify(event)?.slice(0, 300)} is wrong: ${z.prettifyError(parsed.error).replaceAll(/\s+/g, " ")}. ` +
        `Nothing was put on the queue. ${SHAPE}`,
    );
  }
  const { tenant, tenants, dryRun = false, mode, ...rest } = parsed.data;
  const named = [...(typeof tenant === "string" ? [tenant] : (tenant ?? [])), ...(tenants ?? [])];
  const { recount, force, allowDecrease, allowIncomplete } = rest;
  return {
    request: mode === "gap" && "start" in rest ? { mode, start: rest.start, end: rest.end } : { mode: "auto" },
    ...(named.length === 0 ? {} : { tenants: named }),
    // Only what is asked for stands in the work items.
    flags: {
      ...(recount === true ? { recount } : {}),
      ...(force === true ? { force } : {}),
      ...(allowDecrease === true ? { allowDecrease } : {}),
      ...(allowIncomplete === true ? { allowIncomplete } : {}),
    },
    dryRun,
  };
}
