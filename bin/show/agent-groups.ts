import { type Group, ageOf } from "../../lib/shared/pushgateway-groups.ts";
import { textTable } from "./table.ts";

/** Groups of a Pushgateway as a table. @param now epoch seconds */
export function groupsTable(groups: readonly Group[], now: number): string {
  const rows = groups.map((group) => {
    const { grouping, pushedAt } = group;
    const { job = "", instance = "", probe = "", ...others } = grouping;
    const more = Object.entries(others).map(([name, value]) => `${name}=${value}`);
    const when = pushedAt === 0 ? "never" : new Date(pushedAt * 1000).toISOString().slice(0, 19).replace("T", " ");
    return [job, instance, [probe, ...more], when, pushedAt === 0 ? "-" : ago(ageOf(group, now))];
  });
  return textTable(["job", "instance", "probe", "last push (UTC)", "ago"], rows);
}

function ago(seconds: number): string {
  const whole = Math.round(seconds);
  return whole < 120 ? `${whole} s` : whole < 7200 ? `${Math.round(whole / 60)} min` : `${Math.round(whole / 3600)} h`;
}
