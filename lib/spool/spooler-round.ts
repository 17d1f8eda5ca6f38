import type { Unit } from "../accounting/tenant.ts";
import { GridmeterError, errorText } from "../errors.ts";
import type { MessageQueue } from "../outbox/message-queue.ts";
import { listOutgoing, unitPrefix } from "../outbox/outgoing.ts";
import type { BellQueue, TakenMessage } from "../outbox/sqs-bell.ts";
import type { S3Store } from "../store/s3-store.ts";
import { deliverAll } from "./deliver.ts";
import type { DeliveryReport, DeliveryStatus } from "./report.ts";
import { judge, setAside } from "./spooler-judge.ts";
import { logDelivery } from "./spooler-log.ts";
import type { SpoolLog } from "./spooler-log.ts";

export type SpoolPorts = {
  readonly store: S3Store;
  readonly queue: MessageQueue;
  /** without it, only sweeps find what is outgoing */
  readonly bell?: BellQueue;
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
   * @throws GridmeterError `store_failed` if `outgoing/` cannot be listed
   */
  async sweep(stop: AbortSignal): Promise<void> {
    const { units, strange } = await listOutgoing(this.#ports.store);
    for (const { unit } of units) {
      if (stop.aborted) return;
      await this.#deliver(unit);
    }
    // Keys that gridmeter did not make belong to no unit; only a delivery of all looks at them.
    if (strange.length > 0 && !stop.aborted) await this.#deliver(undefined);
  }

  /**
   * Deals with messages taken from the queue: delivers the units they tell of and removes them; one whose object must wait
   * comes again in a minute, one that is of no use is set aside. True if any of them could be dealt with.
   */
  async take(messages: readonly TakenMessage[], bell: BellQueue): Promise<boolean> {
    const judged = messages.map((message) => ({ message, verdict: judge(message, this.#ports.store) }));
    const units = new Map(
      judged.flatMap(({ verdict }) => (verdict.kind === "rung" ? [[unitPrefix(verdict.unit), verdict.unit]] : [])),
    );
    const outcomes = new Map<string, ReadonlyMap<string, DeliveryStatus> | undefined>();
    for (const [prefix, unit] of units) outcomes.set(prefix, statuses(await this.#deliver(unit)));
    let any = false;
    for (const { message, verdict } of judged) {
      const dealtWith = await this.#tried({ message: message.id }, async () => {
        if (verdict.kind === "poisoned") {
          await this.#refuse(message, verdict.reason);
          await bell.remove(message);
          return true;
        }
        const outcome = outcomes.get(unitPrefix(verdict.unit));
        // An object that is not outgoing any more was dealt with before.
        if (outcome !== undefined && outcome.get(verdict.key) !== "waiting") await bell.remove(message);
        else await bell.postpone(message, POSTPONED);
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
    const reports = await this.#tried({ ...unit }, () => deliverAll(store, queue, options));
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

function statuses(reports: readonly DeliveryReport[] | undefined): ReadonlyMap<string, DeliveryStatus> | undefined {
  return reports && new Map(reports.flatMap(({ messages }) => messages.map(({ key, status }) => [key, status])));
}

function refusal(what: string, reason: string): GridmeterError {
  return new GridmeterError("message_invalid", `${what} was set aside under refused/ and is not sent: ${reason}.`);
}
