import { z } from "zod";
import { GridmeterError, errorText } from "../errors.ts";
import { PushgatewayError, ask, deleteGroup } from "./gateway.ts";
import type { GatewayOptions } from "./gateway.ts";
import { groupPath } from "./grouping.ts";
import type { Grouping } from "./grouping.ts";

/** A group of the gateway. `pushedAt`: last push that the gateway took, epoch seconds; 0 if it never took one. */
export type Group = { readonly grouping: Grouping; readonly pushedAt: number };

const answer = z.object({
  data: z.array(
    z.object({
      labels: z.record(z.string(), z.string()),
      push_time_seconds: z.object({ metrics: z.array(z.object({ value: z.coerce.number() })) }),
    }),
  ),
});

/** All groups of a gateway, sorted. @throws GridmeterError `pushgateway_failed` */
export async function listGroups(url: string, options: GatewayOptions = {}): Promise<readonly Group[]> {
  const parsed = answer.safeParse(await ask(url, "/api/v1/metrics", options));
  if (!parsed.success) {
    throw new PushgatewayError(
      "failed",
      200,
      `The Pushgateway's list of groups has another shape: ${z.prettifyError(parsed.error).slice(0, 300)}. No group was deleted. Check PUSHGATEWAY_URL.`,
    );
  }
  const groups = parsed.data.data.map(({ labels, push_time_seconds: pushed }) => ({
    grouping: labels,
    pushedAt: pushed.metrics[0]?.value ?? 0,
  }));
  // The gateway lists them in no order.
  return groups.toSorted((a, b) => (groupPath(a.grouping) < groupPath(b.grouping) ? -1 : 1));
}

export type ReapOptions = GatewayOptions & {
  /** only groups of exactly this job ... */
  readonly job: string;
  /** ... that carry this label, whatever its value ... */
  readonly requireLabel: string;
  /** ... and were not pushed for longer than this */
  readonly olderThanSeconds: number;
  /** epoch seconds */
  readonly now: number;
  /** only say what would be deleted */
  readonly dryRun?: boolean;
};

/**
 * Deletes the groups of dead agents, each by its exact grouping key (a DELETE by job alone leaves groups with further
 * labels). A push that the gateway refused is no sign of life: what the group then shows is old all the same.
 * @returns the groups that were deleted (with `dryRun`: that would be)
 * @throws GridmeterError `pushgateway_failed` once all were tried, if one or more could not be deleted
 */
export async function reap(url: string, options: ReapOptions): Promise<readonly Group[]> {
  const { job, requireLabel, olderThanSeconds, now } = options;
  const dead = (await listGroups(url, options)).filter(
    ({ grouping, pushedAt }) =>
      grouping["job"] === job && Object.hasOwn(grouping, requireLabel) && now - pushedAt > olderThanSeconds,
  );
  if (options.dryRun === true) return dead;
  const failures: unknown[] = [];
  for (const { grouping } of dead) await deleteGroup(url, grouping, options).catch((error) => failures.push(error));
  if (failures.length === 0) return dead;
  throw new GridmeterError(
    "pushgateway_failed",
    `${failures.length} of ${dead.length} groups of dead agents could not be deleted: ${errorText(failures[0])}`,
    { cause: failures[0] },
  );
}
