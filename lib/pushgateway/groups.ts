import { z } from "zod";
import { hiderOf, secretsOfAddress, secretsOfHeader } from "../secrets.ts";
import { nameOf } from "./address.ts";
import { exchange } from "./exchange.ts";
import type { GatewayOptions } from "./exchange.ts";
import { PushgatewayError } from "./failure.ts";
import { GroupScanner, NoList } from "./group-scanner.ts";
import type { GroupMembers } from "./group-scanner.ts";
import { groupPath } from "./grouping.ts";
import type { Grouping } from "./grouping.ts";

/**
 * A group of the gateway. `pushedAt`: last push that the gateway took, epoch seconds; 0 if it never took one. `age`: seconds since
 * then by the clock of the gateway (or of what stands before it); absent if the answer did not say what time it was.
 */
export type Group = { readonly grouping: Grouping; readonly pushedAt: number; readonly age?: number };

const PATH = "/api/v1/metrics";
/** Characters of an answer that is no list that are quoted. */
const QUOTED = 100;
/** Characters of it that are looked at for secrets, which are hidden before it is cut. */
const LOOKED_AT = 10_000;
const LOST = "Its groups were not read, and none was deleted";
/** A gateway needs seconds to write a list of hundreds of megabytes, before it sends the first byte of it. */
const LIST = { method: "GET", path: PATH, usualDeadlineMs: 300_000, lost: LOST } as const;

const labelSet = z.record(z.string(), z.string());
const pushTime = z.object({
  metrics: z.tuple([z.object({ value: z.string().regex(/^\d/).pipe(z.coerce.number()), labels: labelSet.optional() })]),
});

/**
 * The groups of a gateway that are wanted, sorted. The gateway lists all metrics of all groups: that list is read as a stream,
 * and only wanted groups are kept.
 *
 * A group that has a metric called `labels` hides its key behind it; its time has it too, unless there is no `instance`,
 * which the gateway adds to all metrics. Such a group is left out.
 * @throws GridmeterError `pushgateway_failed`, also when the list was not there from end to end
 */
export async function listGroups(
  url: string,
  options: GatewayOptions = {},
  wanted: (grouping: Grouping) => boolean = () => true,
): Promise<readonly Group[]> {
  const groups: Group[] = [];
  const scanner = new GroupScanner((members) => {
    const group = readGroup(members);
    if (group !== undefined && wanted(group.grouping)) groups.push(group);
  });
  let start = "";
  let date: string | undefined;
  try {
    ({ date } = await exchange(url, LIST, options, (chunk) => {
      if (start.length < LOOKED_AT) start += chunk.toString("utf8", 0, LOOKED_AT);
      scanner.write(chunk);
    }));
    scanner.end();
  } catch (thrown) {
    if (!(thrown instanceof NoList)) throw thrown;
    const hide = hiderOf([...secretsOfHeader(options.authHeader), ...secretsOfAddress(new URL(url))]);
    throw new PushgatewayError(
      "failed",
      200,
      `${nameOf(new URL(url))}${PATH} did not answer with a list of groups: ${thrown.message}: ` +
        `${JSON.stringify(hide(start).slice(0, QUOTED))}. ${LOST}. Check PUSHGATEWAY_URL, and what stands in between.`,
    );
  }
  // The gateway lists them in no order.
  const now = Date.parse(date ?? "") / 1000;
  return groups
    .map((group) => ({ ...group, ...(Number.isNaN(now) ? {} : { age: now - group.pushedAt }) }))
    .toSorted((a, b) => (groupPath(a.grouping) < groupPath(b.grouping) ? -1 : 1));
}

/** Undefined for a group whose key cannot be told. @throws NoList if it is none */
function readGroup(members: GroupMembers): Group | undefined {
  const time = pushTime.safeParse(jsonOf(members.push_time_seconds));
  if (!time.success) throw new NoList("a group has no push_time_seconds");
  const [{ value: pushedAt, labels }] = time.data.metrics;
  const grouping = labelSet.safeParse(jsonOf(members.labels));
  if (grouping.success) {
    // What was cut out of the list in between would give a group another one's time.
    if (labels !== undefined && !agree(grouping.data, labels)) {
      throw new NoList("a group's labels and the labels of its push_time_seconds differ");
    }
    return { grouping: grouping.data, pushedAt };
  }
  if (labels === undefined) throw new NoList("a group has no labels");
  return (labels["instance"] ?? "") === "" ? undefined : { grouping: labels, pushedAt };
}

/** The gateway gives each metric the labels of its group, and an empty `instance` where there is none. */
function agree(grouping: Grouping, labels: Grouping): boolean {
  const names = new Set([...Object.keys(grouping), ...Object.keys(labels)]);
  return [...names].every((name) => (grouping[name] ?? "") === (labels[name] ?? ""));
}

function jsonOf(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}
