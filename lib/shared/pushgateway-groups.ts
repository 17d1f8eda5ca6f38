import type { Readable } from "node:stream";
import { z } from "zod";
import { GridmeterError, errorText } from "./errors.ts";
import {
  type GatewayOptions,
  type Grouping,
  PushgatewayError,
  deleteGroup,
  exchange,
  groupPath,
} from "./pushgateway.ts";
import { hiderOfRequest } from "./proxy.ts";
import { nameOf } from "./server-url.ts";
import { parseJson } from "./text.ts";

/**
 * A group of the gateway. `pushedAt`: last push that the gateway took, epoch seconds; 0 if it never took one. `age`: seconds since
 * then by the clock of the gateway (or of what is before it); absent if the answer did not say what time it was.
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

/**
 * The groups of a gateway that are wanted, sorted. The gateway lists all metrics of all groups: that list is read as a stream,
 * and only wanted groups are kept.
 *
 * A group that has a metric called `labels` hides its key behind it; its time has it too, unless there is no `instance`,
 * which the gateway adds to all metrics. Such a group is left out.
 * @throws GridmeterError `pushgateway_failed`, also when the list did not arrive from end to end
 */
export async function listGroups(
  url: string,
  options: GatewayOptions = {},
  wanted: (grouping: Grouping) => boolean = () => true,
): Promise<readonly Group[]> {
  const groups: Group[] = [];
  let start = "";
  const readList = async (body: Readable, date: string | undefined): Promise<number> => {
    const list = new GroupList((group) => {
      if (wanted(group.grouping)) groups.push(group);
    });
    for await (const chunk of body.setEncoding("utf8")) {
      const text = String(chunk);
      if (start.length < LOOKED_AT) start += text.slice(0, LOOKED_AT);
      list.write(text);
    }
    list.end();
    return Date.parse(date ?? "") / 1000;
  };
  const now = await exchange(url, LIST, options, readList).catch((thrown: unknown) => {
    throw thrown instanceof NoList ? noList(url, options, thrown, start) : thrown;
  });
  // The gateway lists them in no order.
  return groups
    .map((group) => ({ ...group, ...(Number.isNaN(now) ? {} : { age: now - group.pushedAt }) }))
    .toSorted((a, b) => (groupPath(a.grouping) < groupPath(b.grouping) ? -1 : 1));
}

function noList(url: string, { authHeader }: GatewayOptions, { message }: NoList, start: string): PushgatewayError {
  const gateway = new URL(url);
  const hide = hiderOfRequest(gateway, authHeader);
  return new PushgatewayError(
    "failed",
    200,
    `${nameOf(gateway)}${PATH} did not answer with a list of groups: ${message}: ` +
      `${JSON.stringify(hide(start).slice(0, QUOTED))}. ${LOST}. Check PUSHGATEWAY_URL, and what is in between.`,
  );
}

/** A text that is no list of groups, or not all of one. */
export class NoList extends Error {}

const CUT_OFF = "it stops in the middle";
const NO_JSON = "it is no JSON";
const OTHER_SHAPE = "it has another shape";
/** How deep a group is in the list: `{"data":[{`. */
const DEPTH_OF_GROUPS = 2;
/** Most characters of one group, which is parsed as a whole: 1,000 containers of one probe have 3 million. */
const LONGEST_GROUP = 2 ** 24;
/** Most characters of all that is not in a group: a list of a million groups has 3 million. */
const LONGEST_REST = 2 ** 24;

/**
 * Cuts the groups out of a Pushgateway's list, `{"status":"success","data":[{...},{...}]}`, while it arrives. Each is parsed by
 * itself, and so is the rest, in which `{}` is left of each group. So the agent and `reap` read a list of hundreds of megabytes in
 * the memory that its largest group takes. A library for streams of JSON (@streamparser/json 0.0.26) reads 2.7 MB a second under the
 * agent's V8 flags, and this 9.7 MB: a list of more than 27 MB would not be read within the agent's 10 s. What was handed over holds only once `end` has returned, since only the end shows
 * whether the list was cut off.
 */
export class GroupList {
  readonly #add: (group: Group) => void;
  #group = "";
  #rest = "";
  #depth = 0;
  #inString = false;
  #escaped = false;

  constructor(add: (group: Group) => void) {
    this.#add = add;
  }

  /** @throws NoList if it can be no list any more */
  write(text: string): void {
    /** where in the text begins what was not kept yet */
    let from = 0;
    for (let at = 0; at < text.length; at += 1) {
      const character = text[at];
      if (this.#inString) this.#readInString(character);
      else if (character === '"') this.#inString = true;
      else if (character === "{" || character === "[") {
        if (this.#depth === DEPTH_OF_GROUPS) {
          this.#rest += `${text.slice(from, at)}{}`;
          from = at;
        }
        this.#depth += 1;
      } else if (character === "}" || character === "]") {
        this.#depth -= 1;
        if (this.#depth !== DEPTH_OF_GROUPS) continue;
        const group = readGroup(this.#group + text.slice(from, at + 1));
        if (group !== undefined) this.#add(group);
        this.#group = "";
        from = at + 1;
      }
    }
    if (this.#depth > DEPTH_OF_GROUPS) this.#group += text.slice(from);
    else this.#rest += text.slice(from);
    if (this.#group.length > LONGEST_GROUP) throw new NoList(`a group is longer than ${LONGEST_GROUP} characters`);
    if (this.#rest.length > LONGEST_REST) throw new NoList(OTHER_SHAPE);
  }

  /** @throws NoList unless the list arrived from end to end */
  end(): void {
    if (this.#depth > 0 || this.#inString) throw new NoList(CUT_OFF);
    if (!listWithoutGroups.safeParse(readJson(this.#rest)).success) throw new NoList(OTHER_SHAPE);
  }

  #readInString(character: string | undefined): void {
    if (this.#escaped) this.#escaped = false;
    else if (character === "\\") this.#escaped = true;
    else if (character === '"') this.#inString = false;
  }
}

const listWithoutGroups = z.object({ status: z.literal("success"), data: z.array(z.strictObject({})) });
const labelSet = z.record(z.string(), z.string());
const pushTime = z.object({
  metrics: z.tuple([z.object({ value: z.string().regex(/^\d/).pipe(z.coerce.number()), labels: labelSet.optional() })]),
});
const groupOfList = z.object({ labels: z.unknown(), push_time_seconds: z.unknown() });

/** Undefined for a group whose key cannot be known. @throws NoList if it is none */
function readGroup(text: string): Group | undefined {
  const group = groupOfList.safeParse(readJson(text));
  if (!group.success) throw new NoList(OTHER_SHAPE);
  const time = pushTime.safeParse(group.data.push_time_seconds);
  if (!time.success) throw new NoList("a group has no push_time_seconds");
  const [{ value: pushedAt, labels }] = time.data.metrics;
  const grouping = labelSet.safeParse(group.data.labels);
  if (grouping.success) {
    // Where a piece of the list is missing, a group would have another one's time.
    if (labels !== undefined && !agree(grouping.data, labels)) {
      throw new NoList("a group's labels and the labels of its push_time_seconds differ");
    }
    return { grouping: grouping.data, pushedAt };
  }
  if (labels === undefined) throw new NoList("a group has no labels");
  return (labels["instance"] ?? "") === "" ? undefined : { grouping: labels, pushedAt };
}

function readJson(text: string): unknown {
  const json = parseJson(text);
  if (json === undefined) throw new NoList(NO_JSON);
  return json;
}

/** The gateway gives each metric the labels of its group, and an empty `instance` where there is none. */
function agree(grouping: Grouping, labels: Grouping): boolean {
  const names = new Set([...Object.keys(grouping), ...Object.keys(labels)]);
  return [...names].every((name) => (grouping[name] ?? "") === (labels[name] ?? ""));
}

type ReapOptions = GatewayOptions & {
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
