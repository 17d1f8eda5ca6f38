import { setTimeout as sleep } from "node:timers/promises";
import { GridmeterError, errorText } from "../../shared/errors.ts";
import type { Unit } from "../model/tenant.ts";
import type { S3Store } from "../store/s3.ts";
import { checkDelivery } from "./ams-or-spool.ts";
import { deliverAll } from "./deliver.ts";
import { type Lease, takeLease } from "./lease.ts";
import { type DeliveryReport, listWaiting, waiting } from "./order.ts";
import { type NotificationQueue, LONGEST_POLL, type TakenMessage, parseNotification } from "./notifications.ts";
import { type DeliveryStatus, bodyHash, listOutgoing, parseOutgoingKey, unitPrefix } from "./outgoing.ts";
import type { MessageQueue } from "./queue.ts";

/** Seconds to wait after a fault; doubled each time up to the most. */
type Polling = { readonly first: number; readonly most: number };
const POLLING: Polling = { first: 1, most: 60 };

type SpoolOptions = {
  /** seconds between two sweeps of `outgoing/` */
  readonly sweepInterval: number;
  /** what is in hand is finished, then the spooler ends */
  readonly stop: AbortSignal;
  readonly polling?: Polling;
};

/**
 * Spools until it is told to stop: takes what the queue announces, and sweeps at the start and at every interval for what it
 * did not announce. No fault of S3, SQS or the directory ends it: it is logged and tried again after a growing wait.
 * @throws GridmeterError `delivery_elsewhere` once the bucket says that its messages are sent to AMS
 */
export async function spoolForever(ports: SpoolPorts, options: SpoolOptions): Promise<void> {
  const { sweepInterval, stop, polling = POLLING } = options;
  let wait = polling.first;
  let nextSweep = 0;
  const round = new SpoolRound(ports);
  while (!stop.aborted) {
    // They are logged; only a single pass needs them afterwards.
    round.errors.length = 0;
    try {
      if (performance.now() >= nextSweep) {
        await round.sweep(stop);
        nextSweep = performance.now() + sweepInterval * 1000;
      }
      const quiet = await listen(round, ports, (nextSweep - performance.now()) / 1000, stop);
      if (quiet) {
        wait = polling.first;
        continue;
      }
    } catch (thrown) {
      round.note({}, thrown);
      if (isElsewhere(thrown)) throw thrown;
    }
    // Random, so that several spoolers do not knock together at a service that comes back.
    await pause(wait * (0.5 + Math.random() / 2), stop);
    wait = Math.min(polling.most, wait * 2);
  }
}

/** One turn at the queue, at most until the next sweep. False if not one of the messages it got could be dealt with. */
async function listen(
  round: SpoolRound,
  { notifications }: SpoolPorts,
  seconds: number,
  stop: AbortSignal,
): Promise<boolean> {
  if (stop.aborted) return true;
  if (notifications === undefined) {
    await pause(Math.max(0, seconds), stop);
    return true;
  }
  const messages = await notifications.receive(Math.min(LONGEST_POLL, seconds), stop);
  return messages.length === 0 || round.take(messages, notifications);
}

/**
 * One sweep, then the queue until it is empty.
 * @returns all faults, and what was set aside, as errors; none if all went well. What waits comes with the next pass.
 */
export async function spoolOnce(ports: SpoolPorts, stop: AbortSignal): Promise<readonly unknown[]> {
  const round = new SpoolRound(ports);
  try {
    await round.sweep(stop);
    if (ports.notifications !== undefined) await drain(round, ports.notifications, stop);
  } catch (thrown) {
    round.note({}, thrown);
  }
  return round.errors;
}

function isElsewhere(thrown: unknown): boolean {
  return thrown instanceof GridmeterError && thrown.code === "delivery_elsewhere";
}

async function drain(round: SpoolRound, notifications: NotificationQueue, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    const messages = await notifications.receive(1, stop);
    if (messages.length === 0 || !(await round.take(messages, notifications))) return;
  }
}

async function pause(seconds: number, stop: AbortSignal): Promise<void> {
  // Rejects when it is stopped, which ends the wait just as well.
  await sleep(seconds * 1000, undefined, { signal: stop }).catch(() => undefined);
}

export type SpoolPorts = {
  readonly store: S3Store;
  readonly queue: MessageQueue;
  /** without it, only sweeps find what is outgoing */
  readonly notifications?: NotificationQueue;
  readonly log: SpoolLog;
  /** epoch seconds */
  readonly now: () => number;
};

/** A message that must wait comes again after so many seconds. */
const POSTPONED = 60;

/** The steps of a spooler: a sweep of all that is outgoing, and a batch of queue messages. Each may be killed and repeated. */
export class SpoolRound {
  /** faults met and objects or messages set aside, for the exit code of a single pass */
  readonly errors: unknown[] = [];
  readonly #ports: SpoolPorts;
  readonly #warned = new Set<string>();

  constructor(ports: SpoolPorts) {
    this.#ports = ports;
  }

  /**
   * Delivers whatever is in `outgoing/`, unit by unit: one that fails is logged and holds up no other. Told to stop, it
   * finishes the unit in hand.
   * @throws GridmeterError `store_failed` if `outgoing/` cannot be listed; `delivery_elsewhere`
   */
  async sweep(stop: AbortSignal): Promise<void> {
    await checkDelivery(this.#ports.store, "spool");
    const { units, strange } = await listOutgoing(this.#ports.store);
    for (const { unit } of units) {
      if (stop.aborted) return;
      await this.#deliver(unit);
    }
    // Keys that gridmeter did not make belong to no unit; only a delivery of all looks at them.
    if (strange.length > 0 && !stop.aborted) await this.#deliver(undefined);
  }

  /**
   * Deals with messages taken from the queue: delivers the units they announce and removes them; one whose object must wait
   * comes again in a minute, one that is of no use is set aside. True if any of them could be dealt with.
   * @throws GridmeterError `delivery_elsewhere`; the messages then come again, for whom they are
   */
  async take(messages: readonly TakenMessage[], notifications: NotificationQueue): Promise<boolean> {
    const judged = messages.map((message) => ({ message, verdict: judge(message, this.#ports.store) }));
    const units = new Map(
      judged.flatMap(({ verdict }) => (verdict.kind === "announced" ? [[unitPrefix(verdict.unit), verdict.unit]] : [])),
    );
    const outcomes = new Map<string, ReadonlyMap<string, DeliveryStatus> | undefined>();
    for (const [prefix, unit] of units) outcomes.set(prefix, statuses(await this.#deliver(unit)));
    let any = false;
    for (const { message, verdict } of judged) {
      const dealtWith = await this.#tried({ message: message.id }, async () => {
        if (verdict.kind === "poisoned") {
          await this.#refuse(message, verdict.reason);
          await notifications.remove(message);
          return true;
        }
        const outcome = outcomes.get(unitPrefix(verdict.unit));
        // An object that is not outgoing any more was dealt with before.
        if (outcome !== undefined && outcome.get(verdict.key) !== "waiting") await notifications.remove(message);
        else await notifications.postpone(message, POSTPONED);
        return outcome !== undefined;
      });
      any ||= dealtWith === true;
    }
    return any;
  }

  /** Notes and logs a fault. */
  note(fields: object, thrown: unknown): void {
    this.errors.push(thrown);
    const code = thrown instanceof GridmeterError ? thrown.code : "unexpected";
    this.#ports.log.error({ ...fields, code }, errorText(thrown));
  }

  async #deliver(unit: Unit | undefined): Promise<readonly DeliveryReport[] | undefined> {
    const { store, queue, log, now } = this.#ports;
    const options = {
      now: now(),
      warn: (text: string) => this.#warnOnce(text),
      ...(unit === undefined ? {} : { units: [unit] }),
    };
    const work =
      unit === undefined
        ? () => deliverAll(store, queue, options)
        : () => underLease(this.#ports, unit, (leased) => deliverAll(store, leased, options));
    const reports = await this.#tried({ ...unit }, work);
    for (const report of reports ?? []) {
      logDelivery(log, report);
      for (const { key, status, reason = "" } of report.messages) {
        if (status === "refused") this.errors.push(refusal(key, reason));
      }
    }
    return reports;
  }

  async #refuse({ id, text }: TakenMessage, reason: string): Promise<void> {
    const key = await setAside(text, reason, this.#ports.store);
    this.errors.push(refusal(`the queue message ${id}`, reason));
    this.#ports.log.error(
      { message: id, setAside: this.#ports.store.fullKey(key), reason },
      "a queue message was set aside",
    );
  }

  async #tried<T>(fields: object, work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (thrown) {
      if (isElsewhere(thrown)) throw thrown;
      this.note(fields, thrown);
      return undefined;
    }
  }

  #warnOnce(text: string): void {
    if (this.#warned.has(text)) return;
    this.#warned.add(text);
    this.#ports.log.warn({}, text);
  }
}

/** Delivers a unit while nobody else delivers it from this bucket; what has to wait for another comes with the next round. */
async function underLease(
  { store, queue }: SpoolPorts,
  unit: Unit,
  work: (queue: MessageQueue) => Promise<DeliveryReport[]>,
): Promise<readonly DeliveryReport[]> {
  const taking = await takeLease(store, unit, { onHost: true });
  if ("taken" in taking) {
    const { units } = await listWaiting(store, [unit]);
    return units.map((each) => waiting(each, taking.taken));
  }
  const { lease } = taking;
  try {
    // It may have changed since the sweep began.
    await checkDelivery(store, "spool");
    return await work(leasedQueue(queue, lease));
  } finally {
    await lease.release();
  }
}

/** The queue, of which nothing is changed but while the lease lasts. */
function leasedQueue(queue: MessageQueue, lease: Lease): MessageQueue {
  return {
    place: queue.place,
    exclusively: (work) =>
      queue.exclusively((open) =>
        work({
          list: () => open.list(),
          take: (name, deal) => open.take(name, deal),
          replace: async (older, bodies) => {
            await lease.hold();
            return open.replace(older, bodies);
          },
        }),
      ),
  };
}

function statuses(reports: readonly DeliveryReport[] | undefined): ReadonlyMap<string, DeliveryStatus> | undefined {
  return reports && new Map(reports.flatMap(({ messages }) => messages.map(({ key, status }) => [key, status])));
}

function refusal(what: string, reason: string): GridmeterError {
  return new GridmeterError("message_invalid", `${what} was set aside under refused/ and is not sent: ${reason}.`);
}

/** What a queue message is: the notification of an object of ours (`key` in the store), or of no use. */
type Verdict =
  | { readonly kind: "announced"; readonly key: string; readonly unit: Unit }
  | { readonly kind: "poisoned"; readonly reason: string };

const poisoned = (reason: string): Verdict => ({ kind: "poisoned", reason });

/**
 * Judges a queue message by itself. That the object's body has the hash is checked with the object, on its way into the
 * queue: a message whose hash fits the key promises the same as the key does.
 */
export function judge({ text }: TakenMessage, store: Pick<S3Store, "place" | "ownKey">): Verdict {
  const parsed = parseNotification(text);
  if (!parsed.ok) return poisoned(parsed.problem);
  const { bucket, key: fullKey, sha256, site, submitHost, month, generation } = parsed.notification;
  const { place } = store;
  if (bucket !== place.bucket) return poisoned(`its bucket is ${JSON.stringify(bucket)}, not ${place.bucket}`);
  const key = store.ownKey(fullKey);
  const named = key === undefined ? undefined : parseOutgoingKey(key);
  if (key?.startsWith("outgoing/") !== true || named === undefined)
    return poisoned(
      `its key ${JSON.stringify(fullKey)} is none of an outgoing message in s3://${place.bucket}/${place.prefix}`,
    );
  const { unit } = named;
  const same =
    unit.site === site && unit.submitHost === submitHost && unit.month === month && named.generation === generation;
  if (!same) return poisoned(`its site, submit host, month or generation is not that of its key ${fullKey}`);
  if (!sha256.startsWith(named.hash)) return poisoned(`its sha256 ${sha256} does not fit its key ${fullKey}`);
  return { kind: "announced", key, unit };
}

/** Puts a queue message where it can be looked at, with the reason beside it; the same message twice is one object. Gives its key. */
export async function setAside(text: string, reason: string, store: S3Store): Promise<string> {
  const key = `refused/queue/${bodyHash(text)}`;
  await store.put(`${key}.reason`, `${reason}\n`);
  await store.put(key, text, { absent: true });
  return key;
}

/** Where the spooler logs what it does; pino's loggers are such. */
type SpoolLog = Readonly<Record<"info" | "warn" | "error", (fields: object, text: string) => void>>;

/** Logs what became of each message: refused ones as errors, waiting ones as warnings. */
function logDelivery(log: SpoolLog, { unit, messages }: DeliveryReport): void {
  for (const { key, status, reason } of messages) {
    const level = status === "refused" ? "error" : status === "waiting" ? "warn" : "info";
    log[level]({ ...unit, key, status, ...(reason === undefined ? {} : { reason }) }, status);
  }
}
