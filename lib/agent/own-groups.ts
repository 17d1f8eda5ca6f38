// What the agent does on its gateway: to push, to delete and to list its own groups. Rules: each exchange ends by its deadline, also
// where the file of a secret hangs; what an earlier agent left is removed at the start, and all own groups at the end; a group whose
// data are refused does not keep older data.
import pLimit from "p-limit";
import { GridmeterError, errorText } from "../shared/errors.ts";
import { append } from "../shared/lists.ts";
import { listGroups } from "../shared/pushgateway-groups.ts";
import {
  type Connections,
  type GatewayOptions,
  type Grouping,
  PushgatewayError,
  deleteGroup,
  keepConnections,
  push,
} from "../shared/pushgateway.ts";
import type { PushAccount, PushResult } from "./metrics/self.ts";
import type { GroupNow } from "./metrics/store.ts";
import { within } from "../shared/time-limit.ts";
import type { Clock } from "./schedule.ts";

export type Target = {
  readonly url: string;
  readonly job: string;
  readonly instance: string;
  /** gives the Authorization header for each exchange again */
  readonly authorization?: () => Promise<string | undefined>;
  /** PEM file of a further authority to trust, read once */
  readonly caFile?: string;
  /** seconds for one exchange in all; default 10 */
  readonly deadline?: number;
};

/** What an exchange came to. `ofGroup`: the gateway works, it is this group's content that it does not take. */
export type Outcome = {
  readonly result: PushResult;
  readonly seconds: number;
  readonly ofGroup: boolean;
  readonly status?: number;
  /** for people; empty if it went well */
  readonly message: string;
};

const DEADLINE = 10;
/** Statuses that speak of what was sent: malformed or clashing (400), too large (413). */
const OF_CONTENT: readonly number[] = [400, 413];

/** The agent's groups on one Pushgateway. No exchange takes longer than the deadline, and none rejects. */
export class OwnGroups {
  readonly #target: Target;
  readonly #clock: Clock;
  readonly #connections: Connections;
  #abort = new AbortController();

  /** @throws GridmeterError config_invalid if the authority's file cannot be read */
  constructor(target: Target, clock: Clock) {
    this.#target = target;
    this.#clock = clock;
    this.#connections = keepConnections(target.caFile);
  }

  /** Replaces the whole group. */
  put(probe: string, text: string): Promise<Outcome> {
    return this.#exchange((options) => push(this.#target.url, this.#grouping(probe), text, options), this.#deadline);
  }

  /** Deletes the group; well if there is none. */
  remove(probe: string, deadline = this.#deadline): Promise<Outcome> {
    return this.#exchange((options) => deleteGroup(this.#target.url, this.#grouping(probe), options), deadline);
  }

  /**
   * The probes of this job and instance that have a group, also those that are configured no more. A group with any further
   * label, or without `probe`, is somebody else's.
   */
  async found(): Promise<{ readonly outcome: Outcome; readonly probes: readonly string[] }> {
    const probes: string[] = [];
    const outcome = await this.#exchange(async (options) => {
      const isOwn = (grouping: Grouping) => this.#ownProbe(grouping).length > 0;
      const groups = await listGroups(this.#target.url, options, isOwn);
      append(
        probes,
        groups.flatMap(({ grouping }) => this.#ownProbe(grouping)),
      );
    }, this.#deadline);
    return { outcome, probes };
  }

  /** Gives up all that is on its way. */
  abort(): void {
    this.#abort.abort();
    this.#abort = new AbortController();
  }

  close(): void {
    this.#connections.close();
  }

  get #deadline(): number {
    return this.#target.deadline ?? DEADLINE;
  }

  #grouping(probe: string): Grouping {
    const { job, instance } = this.#target;
    return { job, instance, probe };
  }

  #ownProbe(grouping: Grouping): readonly string[] {
    const { job, instance, probe, ...others } = grouping;
    const own = job === this.#target.job && instance === this.#target.instance && Object.keys(others).length === 0;
    return own && probe !== undefined ? [probe] : [];
  }

  async #exchange(work: (options: GatewayOptions) => Promise<void>, deadline: number): Promise<Outcome> {
    const started = this.#clock.now();
    const took = () => this.#clock.now() - started;
    const { signal } = this.#abort;
    try {
      const authHeader = await this.#authorization(deadline);
      await work({
        deadlineMs: Math.max(1, Math.round((deadline - took()) * 1000)),
        connections: this.#connections,
        signal,
        ...(authHeader === undefined ? {} : { authHeader }),
      });
      return { result: "ok", seconds: took(), ofGroup: false, message: "" };
    } catch (thrown) {
      const message = errorText(thrown);
      if (!(thrown instanceof PushgatewayError)) return { result: "failed", seconds: took(), ofGroup: false, message };
      const { failure: result, status } = thrown;
      const ofGroup = status !== undefined && OF_CONTENT.includes(status);
      return { result, seconds: took(), ofGroup, message, ...(status === undefined ? {} : { status }) };
    }
  }

  /** The file of a secret may lie on a file system that hangs. */
  async #authorization(deadline: number): Promise<string | undefined> {
    const { authorization } = this.#target;
    if (authorization === undefined) return undefined;
    const read = await within(
      deadline,
      authorization().then((header) => ({ header })),
      "late" as const,
      { sleep: (seconds, signal) => this.#clock.sleep(seconds, signal) },
    );
    if (read !== "late") return read.header;
    throw new GridmeterError(
      "pushgateway_failed",
      `The secret for the Pushgateway could not be read within ${deadline} s. Nothing was pushed. See to the file system it is on.`,
    );
  }
}

/** What became of a group. `off`: it was refused, and the gateway holds no data of it any more. */
export type Placed = { readonly outcome: Outcome; readonly off: boolean };

type PlaceOptions = {
  readonly groups: Pick<OwnGroups, "put" | "remove">;
  readonly read: (group: string) => GroupNow;
  readonly account: PushAccount;
  /** epoch seconds */
  readonly wallClock: () => number;
};

/**
 * Pushes a group as it is now; without `whole` only the account of its probe. A gateway that refuses a group's new data keeps the
 * old ones, which would be stale: so the group is replaced by the account alone, or removed if that is refused as well.
 * Never rejects.
 */
export async function place(group: string, whole: boolean, options: PlaceOptions): Promise<Placed> {
  const now = read(group, options);
  if ("result" in now) return { outcome: now, off: false };
  const put = async (text: string): Promise<Outcome> => {
    const outcome = await options.groups.put(group, text);
    options.account.ended(outcome.result, outcome.seconds, options.wallClock());
    return outcome;
  };
  const outcome = await put(whole ? now.text : now.account);
  if (!outcome.ofGroup) return { outcome, off: false };
  if (whole && now.text !== now.account) {
    const without = await put(now.account);
    if (without.result === "ok") return { outcome, off: true };
    if (!without.ofGroup) return { outcome: without, off: false };
  }
  const removal = await options.groups.remove(group);
  return removal.result === "ok" ? { outcome, off: true } : { outcome: { ...removal, ofGroup: false }, off: false };
}

function read(group: string, { read: readNow }: PlaceOptions): GroupNow | Outcome {
  try {
    return readNow(group);
  } catch (thrown) {
    const message = `The group could not be put together: ${errorText(thrown)}. This is a fault of the agent.`;
    return { result: "failed", seconds: 0, ofGroup: false, message };
  }
}

/** `refusal`: what the gateway said if this agent could not list or may not delete groups. */
type Cleared = { readonly removed: readonly string[]; readonly refusal?: string };

/** An answer that is no list, or none in time: the gateway may take pushes all the same. */
const mayWork = ({ result, status }: Outcome): boolean => result !== "failed" || status !== undefined;

/**
 * Removes what an earlier agent of this job and instance left on the gateway, groups of probes that are configured no more
 * included. Where groups cannot be listed, those that can be named are removed; pushes replace them anyway. So it is for those who
 * may push but not list, and, when it was `tried` before, with a gateway that holds too much to list it in time or in memory, or
 * behind something that answers in its place: an agent must not stay silent for that.
 * Gives the outcome of what failed, if that may pass: then it is to be done again. Never rejects.
 */
export async function clearOld(
  groups: Pick<OwnGroups, "found" | "remove">,
  named: readonly string[],
  tried: boolean,
): Promise<Cleared | Outcome> {
  const { outcome, probes } = await groups.found();
  const listed = outcome.result === "ok";
  if (!listed && outcome.result !== "refused" && !(tried && mayWork(outcome))) return outcome;
  const removed: string[] = [];
  let refused = listed ? undefined : outcome;
  for (const probe of listed ? probes : named) {
    const removal = await groups.remove(probe);
    if (removal.result === "ok") removed.push(probe);
    else if (removal.result === "refused") refused ??= removal;
    else return removal;
  }
  return { removed, ...(refused === undefined ? {} : { refusal: refused.message }) };
}

const AT_ONCE = 4;
const TRIES = 2;
/** With less time left, seconds, nothing is tried any more. */
const LEAST = 0.05;

/** Removes groups until `ends` (of the clock) at the latest. Gives those that may be left, and why. Never rejects. */
export async function removeUntil(
  ends: number,
  probes: readonly string[],
  groups: Pick<OwnGroups, "remove">,
  clock: Clock,
): Promise<ReadonlyMap<string, string>> {
  const left = new Map(probes.map((probe) => [probe, "there was no time left"]));
  const limit = pLimit(AT_ONCE);
  const remove = async (probe: string): Promise<void> => {
    const rest = ends - clock.now();
    if (rest < LEAST) return;
    const { result, message }: Outcome = await groups.remove(probe, rest);
    if (result === "ok") left.delete(probe);
    else left.set(probe, message);
  };
  // A kept connection may be closed by the other side just when it is used: that costs the first try only.
  for (let tries = 0; tries < TRIES && left.size > 0; tries++) {
    await Promise.all([...left.keys()].map((probe) => limit(remove, probe)));
  }
  return left;
}
