import { z } from "zod";
import { shapeText } from "../shape-text.ts";
import { isOpen } from "./decide.ts";
import { periods } from "./periods.ts";
import type { Request } from "./periods.ts";
import type { Tenant, Unit } from "./tenant.ts";
import { endOfMonth, startOf } from "./time.ts";

/** What a person may ask of a run beyond the plain one; each as the option of `gridmeter account` of that name. */
export const runFlags = {
  recount: z.boolean().exactOptional(),
  force: z.boolean().exactOptional(),
  allowDecrease: z.boolean().exactOptional(),
  allowIncomplete: z.boolean().exactOptional(),
};

const workItem = z.strictObject({
  v: z.literal(1),
  site: z.string().min(1),
  submitHost: z.string().min(1),
  month: z.string().regex(/^\d{4}-(0[1-9]|1[0-2])$/),
  mode: z.enum(["auto", "gap"]),
  ...runFlags,
  /** set from the second invocation on: its name and its `now` (epoch seconds) make it the same run as before */
  run: z.strictObject({ id: z.string().min(1), now: z.int().positive() }).exactOptional(),
});

/** One publishing unit to be counted and published: a message of the work queue. */
export type WorkItem = z.infer<typeof workItem>;
export type RunFlags = Pick<WorkItem, keyof typeof runFlags>;

/** Reads a message of the work queue. */
export function parseWorkItem(
  text: string,
): { readonly ok: true; readonly item: WorkItem } | { readonly ok: false; readonly problem: string } {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return { ok: false, problem: "it is not JSON" };
  }
  const parsed = workItem.safeParse(json);
  if (parsed.success) return { ok: true, item: parsed.data };
  return { ok: false, problem: `it is no work item: ${shapeText(parsed.error)}` };
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

/** What the run of a work item covers; undefined if auto mode does not cover its month at `now`. */
export function requestOf({ mode, month }: WorkItem, now: number): Request | undefined {
  if (mode === "gap") return { mode, start: startOf(month), end: endOfMonth(month) };
  return isOpen(month, now) ? { mode, month } : undefined;
}
