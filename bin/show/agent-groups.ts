import Table from "cli-table3";
import { ageOf } from "../../lib/pushgateway/reap.ts";
import type { Group } from "../../lib/pushgateway/groups.ts";

/** Groups of a Pushgateway as a table. @param now epoch seconds */
export function groupsTable(groups: readonly Group[], now: number): string {
  const table = new Table({
    head: ["job", "instance", "probe", "last push (UTC)", "ago"],
    style: { head: [], border: [] },
  });
  for (const group of groups) {
    const { grouping, pushedAt } = group;
    const { job = "", instance = "", probe = "", ...others } = grouping;
    const more = Object.entries(others).map(([name, value]) => `\n${name}=${value}`);
    const when = pushedAt === 0 ? "never" : new Date(pushedAt * 1000).toISOString().slice(0, 19).replace("T", " ");
    table.push([job, instance, probe + more.join(""), when, pushedAt === 0 ? "-" : ago(ageOf(group, now))]);
  }
  return table.toString();
}

function ago(seconds: number): string {
  const whole = Math.round(seconds);
  return whole < 120 ? `${whole} s` : whole < 7200 ? `${Math.round(whole / 60)} min` : `${Math.round(whole / 3600)} h`;
}
