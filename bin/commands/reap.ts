import { AGENT_JOB, gatewayWarning, loadAgentConfig } from "../../lib/agent/config.ts";
import { duration } from "../../lib/shared/config-values.ts";
import { GridmeterError } from "../../lib/shared/errors.ts";
import { reap as reapGroups } from "../../lib/shared/pushgateway-groups.ts";
import { gatewayOptions } from "../../lib/agent/gateway-secrets.ts";
import { groupsTable } from "../show/agent-groups.ts";
import { jsonLine } from "../show/json.ts";
import { nowInSeconds, say } from "./options.ts";

export type ReapOptions = {
  readonly config?: string | undefined;
  readonly pushgateway?: string | undefined;
  readonly job?: string | undefined;
  readonly olderThan: string;
  readonly dryRun?: boolean | undefined;
  readonly json?: boolean | undefined;
};

/**
 * `gridmeter reap`: deletes the groups of dead agents from a Pushgateway, those of the agents' job that carry the label `probe`
 * and were not pushed for a while, each by its exact key. Exit code 4 if the gateway fails.
 */
export async function reap(options: ReapOptions): Promise<number> {
  const { dryRun = false } = options;
  const config = loadAgentConfig(process.env, options);
  const gateway = config.pushgateway;
  if (gateway === undefined) {
    throw usage("There is no Pushgateway to ask. Give --pushgateway URL, PUSHGATEWAY_URL or --config FILE.");
  }
  const warning = gatewayWarning(gateway);
  if (warning !== undefined) say(`warning: ${warning}`);
  const job = options.job ?? config.job;
  if (job.trim() === "") throw usage(`--job "" is empty. Give the agents' job, which is ${AGENT_JOB} by default.`);
  const now = nowInSeconds();
  const groups = await reapGroups(gateway.url, {
    ...(await gatewayOptions(gateway)),
    job,
    requireLabel: "probe",
    olderThanSeconds: olderThan(options.olderThan),
    now,
    dryRun,
  });
  if (options.json === true) {
    process.stdout.write(jsonLine({ [dryRun ? "wouldDelete" : "deleted"]: groups, job, dryRun, exitCode: 0 }));
    return 0;
  }
  if (groups.length > 0) process.stdout.write(`${groupsTable(groups, now)}\n`);
  const count = `${groups.length} ${groups.length === 1 ? "group" : "groups"} of job ${JSON.stringify(job)}`;
  say(
    `${count} not pushed for ${options.olderThan} ${dryRun ? "would be deleted" : groups.length === 1 ? "was deleted" : "were deleted"}`,
  );
  return 0;
}

function olderThan(text: string): number {
  // Less, and the group of a living agent that is a little late would go.
  const parsed = duration(1, 365 * 86_400)(text.trim());
  if (parsed.ok) return parsed.value;
  throw usage(`--older-than ${JSON.stringify(text)} ${parsed.problem}.`);
}

function usage(text: string): GridmeterError {
  return new GridmeterError("usage", `${text} No group was deleted.`);
}
