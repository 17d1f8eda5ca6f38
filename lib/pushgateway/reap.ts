import { GridmeterError, errorText } from "../errors.ts";
import { deleteGroup } from "./gateway.ts";
import type { GatewayOptions } from "./exchange.ts";
import { listGroups } from "./groups.ts";
import type { Group } from "./groups.ts";
import type { Grouping } from "./grouping.ts";

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
 * How long a group was not pushed, seconds: by the gateway's clock or by ours, whichever makes it younger. Ours may be hours
 * ahead, and so may be that of a proxy which puts its own time into the gateway's answers; then every living agent would be dead.
 */
export function ageOf({ pushedAt, age = Infinity }: Group, now: number): number {
  return Math.min(age, now - pushedAt);
}

/**
 * Deletes the groups of dead agents, each by its exact grouping key (a DELETE by job alone leaves groups with further
 * labels). A push that the gateway refused is no sign of life: what the group then shows is old all the same.
 * @returns the groups that were deleted (with `dryRun`: that would be)
 * @throws GridmeterError `pushgateway_failed` once all were tried, if one or more could not be deleted
 */
export async function reap(url: string, options: ReapOptions): Promise<readonly Group[]> {
  const { job, requireLabel, olderThanSeconds, now } = options;
  const ofJob = (grouping: Grouping) => grouping["job"] === job && Object.hasOwn(grouping, requireLabel);
  const groups = await listGroups(url, options, ofJob);
  const dead = groups.filter((group) => ageOf(group, now) > olderThanSeconds);
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
