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
import { nameOf } from "./server-url.ts";
import { hiderOf, secretsOfAddress, secretsOfHeader } from "./text.ts";

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
        `${JSON.stringify(hide(start).slice(0, QUOTED))}. ${LOST}. Check PUSHGATEWAY_URL, and what is in between.`,
    );
  }
  // The gateway lists them in no order.
  const now = Date.parse(date ?? "") / 1000;
  return groups
    .map((group) => ({ ...group, ...(Number.isNaN(now) ? {} : { age: now - group.pushedAt }) }))
    .toSorted((a, b) => (groupPath(a.grouping) < groupPath(b.grouping) ? -1 : 1));
}

/** Undefined for a group whose key cannot be known. @throws NoList if it is none */
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

/** What of a group is kept: the JSON of these members, as it came. */
type GroupMembers = { readonly labels?: string; readonly push_time_seconds?: string };

/** A text that is no list of groups, or not all of one. */
export class NoList extends Error {}

const [QUOTE, COMMA, COLON, BACKSLASH] = [0x22, 0x2c, 0x3a, 0x5c];
const [OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET] = [0x7b, 0x7d, 0x5b, 0x5d];
/** Blanks of JSON: space, tab, line feed, carriage return. */
const BLANKS: readonly number[] = [0x20, 0x09, 0x0a, 0x0d];
/** How deep members of the list itself, its groups, and members of a group are: `{"data":[{"labels":`. */
const [OF_LIST, OF_DATA, OF_GROUP] = [1, 2, 3];
const DEEPEST = 64;
const LONGEST_NAME = "push_time_seconds".length;
/** What is longer is no grouping key and no time: a gateway may hold metrics of these names too. Bytes. */
const LONGEST_VALUE = 64 * 1024;
const OTHER_SHAPE = "it has another shape";

/**
 * Finds the groups in a Pushgateway's list, `{"status":"success","data":[{"labels":{...},"push_time_seconds":{...},...},...]}`,
 * while it arrives. Everything else in it, which is all metrics of all groups, is read past: nothing of it is kept, so that memory
 * does not depend on the size of the list. What was handed over holds only once `end` has returned, since a list that was cut off
 * is known by its end alone.
 */
export class GroupScanner {
  readonly #add: (group: GroupMembers) => void;
  /** the brackets that are open, by what closes them */
  readonly #closers: number[] = [];
  #inString = false;
  #escaped = false;
  /** the next string is a name */
  #nameNext = false;
  /** what is being taken down, and what of it earlier chunks had */
  #taking: "name" | "value" | undefined;
  #taken = Buffer.alloc(0);
  #name = "";
  #members: { labels?: string; push_time_seconds?: string } = {};
  #status = "";
  #data: "not yet" | "inside" | "seen" = "not yet";
  #done = false;

  constructor(add: (group: GroupMembers) => void) {
    this.#add = add;
  }

  /** @throws NoList if it cannot be a list any more */
  write(chunk: Uint8Array): void {
    /** where in this chunk begins what is taken down */
    let from = 0;
    for (let at = 0; at < chunk.length; at += 1) {
      if (this.#inString) {
        at = this.#endOfString(chunk, at);
        if (!this.#inString && this.#taking === "name") this.#name = this.#takeDown(chunk, from, at, LONGEST_NAME);
        continue;
      }
      const byte = chunk[at] ?? 0;
      const depth = this.#closers.length;
      if (byte === QUOTE) {
        this.#inString = true;
        if (this.#nameNext && depth <= OF_GROUP) {
          this.#taking = "name";
          from = at + 1;
        }
      } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
        this.#open(depth, byte);
        continue;
      } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
        if (this.#taking === "value" && depth <= OF_GROUP) this.#endOfValue(depth, chunk, from, at);
        this.#close(depth, byte);
        continue;
      } else if (byte === COMMA && depth > 0 && depth <= OF_GROUP) {
        if (this.#taking === "value") this.#endOfValue(depth, chunk, from, at);
        this.#nameNext = this.#closers.at(-1) === CLOSE_BRACE;
        continue;
      } else if (byte === COLON && (depth === OF_LIST || depth === OF_GROUP)) {
        this.#nameNext = false;
        if (!this.#isWanted(depth)) continue;
        this.#taking = "value";
        from = at + 1;
      }
      // Outside the list there is nothing, and groups are all that its data have.
      if ((depth === 0 || (depth === OF_DATA && this.#data === "inside")) && !BLANKS.includes(byte)) {
        throw new NoList(depth === 0 ? "it is no JSON" : OTHER_SHAPE);
      }
    }
    if (this.#taking !== undefined) this.#keep(chunk.subarray(from));
  }

  /** @throws NoList unless the list was there from end to end */
  end(): void {
    if (!this.#done) throw new NoList("it stops in the middle");
    if (this.#data !== "seen" || this.#status !== '"success"') throw new NoList(OTHER_SHAPE);
  }

  /** The place of the quote that ends this string, or the end of the chunk. */
  #endOfString(chunk: Uint8Array, start: number): number {
    let escaped = this.#escaped;
    let at = start;
    for (; at < chunk.length; at += 1) {
      const byte = chunk[at];
      if (escaped) escaped = false;
      else if (byte === BACKSLASH) escaped = true;
      else if (byte === QUOTE) {
        this.#inString = false;
        break;
      }
    }
    this.#escaped = escaped;
    return at;
  }

  #isWanted(depth: number): boolean {
    if (depth === OF_LIST) return this.#name === "status";
    const isKey = this.#name === "labels" || this.#name === "push_time_seconds";
    return depth === OF_GROUP && this.#data === "inside" && isKey;
  }

  #open(depth: number, byte: number): void {
    if (this.#done || depth >= DEEPEST || (depth === 0 && byte !== OPEN_BRACE)) throw new NoList(OTHER_SHAPE);
    if (depth === OF_LIST && this.#name === "data") {
      if (byte !== OPEN_BRACKET || this.#data !== "not yet") throw new NoList(OTHER_SHAPE);
      this.#data = "inside";
    } else if (depth === OF_DATA && this.#data === "inside") {
      if (byte !== OPEN_BRACE) throw new NoList(OTHER_SHAPE);
      this.#members = {};
    }
    this.#closers.push(byte === OPEN_BRACE ? CLOSE_BRACE : CLOSE_BRACKET);
    this.#nameNext = byte === OPEN_BRACE;
  }

  #close(depth: number, byte: number): void {
    if (this.#closers.pop() !== byte) throw new NoList("it is no JSON");
    if (depth === OF_LIST) this.#done = true;
    else if (depth === OF_DATA && this.#data === "inside") this.#data = "seen";
    else if (depth === OF_GROUP && this.#data === "inside") this.#add(this.#members);
    this.#nameNext = false;
  }

  #endOfValue(depth: number, chunk: Uint8Array, from: number, to: number): void {
    const value = this.#takeDown(chunk, from, to, LONGEST_VALUE).trim();
    if (depth === OF_LIST) this.#status = value;
    else if (this.#name === "labels" || this.#name === "push_time_seconds") this.#members[this.#name] = value;
  }

  /** Keeps what goes on in the next chunk: a copy, since the chunk's own memory is used again. */
  #keep(part: Uint8Array): void {
    if (this.#taken.length <= LONGEST_VALUE) this.#taken = Buffer.concat([this.#taken, part]);
  }

  /** Ends taking down. What is longer than `longest` bytes comes out empty. */
  #takeDown(chunk: Uint8Array, from: number, to: number, longest: number): string {
    this.#taking = undefined;
    const before = this.#taken;
    if (before.length > 0) this.#taken = Buffer.alloc(0);
    if (before.length + to - from > longest) return "";
    return Buffer.concat([before, chunk.subarray(from, to)]).toString("utf8");
  }
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
