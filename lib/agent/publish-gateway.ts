import { errorText, GridmeterError } from "../errors.ts";
import { append } from "../lists.ts";
import { keepConnections } from "../pushgateway/connections.ts";
import type { Connections } from "../pushgateway/connections.ts";
import type { GatewayOptions } from "../pushgateway/exchange.ts";
import { PushgatewayError } from "../pushgateway/failure.ts";
import { deleteGroup, push } from "../pushgateway/gateway.ts";
import { listGroups } from "../pushgateway/groups.ts";
import type { Grouping } from "../pushgateway/grouping.ts";
import type { PushResult } from "./meta-catalogue.ts";
import type { Clock } from "./schedule-clock.ts";

export type Target = {
  readonly url: string;
  readonly job: string;
  readonly instance: string;
  /** gives the Authorization header for each exchange anew */
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
    const timer = new AbortController();
    const late = this.#clock.sleep(deadline, timer.signal).then((): undefined => {
      if (timer.signal.aborted) return;
      throw new GridmeterError(
        "pushgateway_failed",
        `The secret for the Pushgateway could not be read within ${deadline} s. Nothing was pushed. See to the file system it is on.`,
      );
    });
    try {
      return await Promise.race([authorization(), late]);
    } finally {
      timer.abort();
    }
  }
}
