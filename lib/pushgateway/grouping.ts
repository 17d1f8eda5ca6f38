import { GridmeterError } from "../errors.ts";

/** Labels of a Pushgateway group, exactly as the gateway holds them: `job` and any further ones. */
export type Grouping = Readonly<Record<string, string>>;

const LABEL = /^[a-zA-Z_][a-zA-Z0-9_]*$/;
/** What stands in a path as it is. `.` and `..` would be taken for directories on the way. */
const PLAIN = /^(?!\.{1,2}$)[A-Za-z0-9._-]+$/;

/**
 * The path of a group: `/metrics/job/<job>/<label>/<value>...`, labels sorted. Values that a path cannot hold (slashes,
 * nothing at all, anything but plain ASCII) are written in base64 as the gateway defines it (`/label@base64/<value>`).
 * @throws GridmeterError `pushgateway_failed` if there is no job, or a name is no label name
 */
export function groupPath(grouping: Grouping): string {
  const { job = "", ...others } = grouping;
  const wrong = Object.keys(others).find((name) => !LABEL.test(name) || name.startsWith("__"));
  if (job === "" || wrong !== undefined) {
    const what = job === "" ? "there is no job" : `${JSON.stringify(wrong)} is no label name`;
    throw new GridmeterError(
      "pushgateway_failed",
      `The Pushgateway has no group ${JSON.stringify(grouping)}: ${what}. Nothing was sent.`,
    );
  }
  const sorted = Object.entries(others).sort(([a], [b]) => (a < b ? -1 : 1));
  return `/metrics${[["job", job] as const, ...sorted].map(([name, value]) => segment(name, value)).join("")}`;
}

function segment(name: string, value: string): string {
  if (PLAIN.test(value)) return `/${name}/${value}`;
  // A lone `=` is padding alone, which decodes to nothing: two slashes in a row would be merged.
  return `/${name}@base64/${Buffer.from(value, "utf8").toString("base64url") || "="}`;
}
