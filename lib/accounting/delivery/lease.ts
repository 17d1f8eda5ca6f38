// Who may deliver a unit's messages from a bucket: one at a time, whether the function, the command line or a spooler on another host.
// A lease runs out by itself, so that one that was killed shuts nobody out for long.
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { z } from "zod";
import { GridmeterError } from "../../shared/errors.ts";
import { parseJson } from "../../shared/text.ts";
import type { Unit } from "../model/tenant.ts";
import { type ObjectStore, safeSegment } from "../store/store.ts";
import { type ProcessIdentity, identity, isKnownGone, ownIdentity } from "./lock.ts";

const lease = z.object({
  v: z.literal(1),
  /** a name of its own for each taking, so that no two leases have one text */
  holder: z.string(),
  /** epoch seconds; 0 once it was given back */
  until: z.number(),
  /** counts the renewals */
  renewed: z.number(),
  /** of a program on a host; a Lambda function, of which many look alike, has none */
  process: identity.exactOptional(),
});
type LeaseText = z.infer<typeof lease>;

/** How long a lease lasts, seconds. The run that holds it makes it young again before each request, so it outlives any of them. */
export const LEASE_SECONDS = 300;
/** A lease is renewed where less of it is left, seconds: more than one request to AMS takes, and its answer. */
const LEAST_LEFT = 150;
/** Another's clock may be wrong by so much, seconds. */
const CLOCKS_APART = 60;

/** What a lease is measured with. Both in seconds. */
export type Clocks = { readonly wall: () => number; readonly steady: () => number };
const CLOCKS: Clocks = { wall: () => Date.now() / 1000, steady: () => performance.now() / 1000 };

export type LeaseOptions = {
  /** this is a program on a host: one that was killed here is known to be gone, and its lease need not run out */
  readonly onHost: boolean;
  readonly clocks?: Clocks;
};

/** A lease that this process holds. */
export type Lease = {
  /** Before anything that others see: sees to it that the lease lasts. @throws GridmeterError `lease_lost`, `store_failed` */
  hold(): Promise<void>;
  /** Gives it back; another may take it at once. */
  release(): Promise<void>;
};

/** The lease, or who has it, as a sentence for people. */
export type Taking = { readonly lease: Lease } | { readonly taken: string };

/**
 * Takes the lease on a unit, by compare-and-set.
 * @throws GridmeterError `store_failed`
 */
export async function takeLease(
  store: ObjectStore,
  unit: Unit,
  { onHost, clocks = CLOCKS }: LeaseOptions,
): Promise<Taking> {
  const key = leaseKey(unit);
  const held = await store.get(key);
  const before = held === undefined ? undefined : read(held.body);
  const left = (before?.until ?? 0) + CLOCKS_APART - clocks.wall();
  const isGone = onHost && before?.process !== undefined && isKnownGone(before.process);
  if (before !== undefined && before.until > 0 && left > 0 && !isGone)
    return { taken: `${before.holder} delivers it, or was ended at it; free in ${Math.ceil(left)} s at the latest` };
  const own = new OwnLease(store, key, clocks, onHost ? ownIdentity() : undefined);
  const condition = held === undefined ? ({ absent: true } as const) : { version: held.version };
  return (await own.write(condition)) ? { lease: own } : { taken: "another gridmeter began to deliver it just now" };
}

function leaseKey({ site, submitHost, month }: Unit): string {
  return `lease/${safeSegment(site)}/${safeSegment(submitHost)}/${month}.json`;
}

/** What nobody could have written counts as no lease. */
function read(body: string): LeaseText | undefined {
  return lease.safeParse(parseJson(body)).data;
}

class OwnLease implements Lease {
  readonly #holder = `${hostname()} (process ${process.pid}, ${randomUUID()})`;
  readonly #store: ObjectStore;
  readonly #key: string;
  readonly #clocks: Clocks;
  readonly #process: ProcessIdentity | undefined;
  #renewed = -1;
  /** on the steady clock; counted from before it was written, so never too late */
  #until = 0;

  constructor(store: ObjectStore, key: string, clocks: Clocks, process: ProcessIdentity | undefined) {
    this.#process = process;
    this.#store = store;
    this.#key = key;
    this.#clocks = clocks;
  }

  async write(condition: { readonly absent: true } | { readonly version: string }): Promise<boolean> {
    const { wall, steady } = this.#clocks;
    const start = steady();
    const stored = await this.#put(wall() + LEASE_SECONDS, condition);
    if (stored) this.#until = start + LEASE_SECONDS;
    return stored;
  }

  async hold(): Promise<void> {
    if (this.#until - this.#clocks.steady() >= LEAST_LEFT) return;
    const version = await this.#ownVersion();
    if (version !== undefined && (await this.write({ version }))) return;
    throw new GridmeterError(
      "lease_lost",
      `The lease ${this.#key} ran out (was this machine suspended?) and another gridmeter has it. What was not delivered yet is still in outgoing/. Nothing is to be done: the other one delivers it, or the next run.`,
    );
  }

  async release(): Promise<void> {
    const version = await this.#ownVersion();
    if (version !== undefined) await this.#put(0, { version });
  }

  async #ownVersion(): Promise<string | undefined> {
    const held = await this.#store.get(this.#key);
    return held !== undefined && read(held.body)?.holder === this.#holder ? held.version : undefined;
  }

  async #put(until: number, condition: { readonly absent: true } | { readonly version: string }): Promise<boolean> {
    const process = this.#process === undefined ? {} : { process: this.#process };
    const text: LeaseText = { v: 1, holder: this.#holder, until, renewed: (this.#renewed += 1), ...process };
    return (await this.#store.put(this.#key, `${JSON.stringify(text)}\n`, condition)) === "stored";
  }
}
