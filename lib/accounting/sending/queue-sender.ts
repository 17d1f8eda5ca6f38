import { GridmeterError } from "../../shared/errors.ts";
import { bodyHash } from "../delivery/outgoing.ts";
import type { Dealt, MessageQueue, TakeResult } from "../delivery/queue.ts";
import { isDirqDirectory, isDirqElement } from "../delivery/queue.ts";
import { type MessageReport, type SendReport, type Sender, examine, refusal } from "./sender.ts";

type QueueSendOptions = {
  /** is given how many of how many messages were dealt with */
  readonly progress?: (done: number, total: number) => void;
};

/** A message as it was when the queue was gone through. */
type Listed = {
  readonly name: string;
  readonly order: string;
  readonly hash: string;
  readonly keys: readonly string[];
};

const TAKEN = "another gridmeter is at the queue; the next run sends it";

/**
 * Sends what is in ssmsend's queue, in its order, and removes what was sent. Another gridmeter gets its turn after each message, and
 * ssmsend may be at the same queue: each message is locked as ssmsend locks it. A message that has to wait holds up the later ones of
 * its APEL keys, so that no older figures come after newer ones. Killed in between, a message is sent once more, which is harmless
 * (APEL: records replace).
 * @throws GridmeterError `store_failed`, `queue_owner` ...
 */
export async function sendQueue(
  queue: MessageQueue,
  sender: Sender,
  options: QueueSendOptions = {},
): Promise<SendReport> {
  const round = new QueueRound(queue, sender, options);
  // What is put there meanwhile is sent too.
  while (await round.pass());
  return { messages: [...round.reports.values()], errors: round.errors };
}

class QueueRound {
  readonly reports = new Map<string, MessageReport>();
  readonly errors: unknown[] = [];
  readonly #queue: MessageQueue;
  readonly #sender: Sender;
  readonly #options: QueueSendOptions;
  /** by APEL's key, the message that is to go first */
  readonly #heldUp = new Map<string, string>();
  #ended = false;

  constructor(queue: MessageQueue, sender: Sender, options: QueueSendOptions) {
    this.#queue = queue;
    this.#sender = sender;
    this.#options = options;
  }

  /** Goes through the queue once; true if there was anything new. */
  async pass(): Promise<boolean> {
    const listed = await this.#list();
    if (listed.length === 0) return false;
    const total = this.reports.size + listed.length;
    const unclear = withoutOrder(listed);
    for (const message of listed) {
      const other = unclear.get(message.name);
      await this.#deal(message, other);
      this.#options.progress?.(this.reports.size, total);
    }
    return !this.#ended;
  }

  /** What was not dealt with before; of each only its keys are kept. */
  async #list(): Promise<readonly Listed[]> {
    const listed = await this.#queue.exclusively(async (open) => {
      const found: Listed[] = [];
      for (const { name, order, read } of await open.list()) {
        if (this.reports.has(name)) continue;
        const text = await read();
        if (text === undefined) continue;
        found.push({ name, order, hash: bodyHash(text), keys: examine(text, this.#sender.now()).keys });
      }
      return found;
    });
    if (listed !== "taken") return listed;
    this.#ended = true;
    this.reports.set(this.#queue.place, { message: this.#queue.place, status: "waiting", reason: TAKEN });
    return [];
  }

  async #deal(message: Listed, twin: string | undefined): Promise<void> {
    const { name, keys } = message;
    const first = keys.map((key) => this.#heldUp.get(key)).find((held) => held !== undefined);
    if (twin !== undefined) {
      const reason = `${twin} holds other figures of the same APEL keys and is as old, so which of them is newer cannot be known. Remove the one that is wrong`;
      this.errors.push(
        new GridmeterError("message_invalid", `${name} was not sent and is left where it is: ${reason}.`),
      );
      return this.#wait(message, reason);
    }
    if (this.#ended) return this.#wait(message, "the sending ended before it");
    if (first !== undefined) return this.#wait(message, `${first} is to go first, and it waits`);
    let report: MessageReport | undefined;
    let result: TakeResult | "taken";
    try {
      result = await this.#queue.exclusively((open) =>
        open.take(name, async (text) =>
          dealtOf((report = await this.#sender.send(name, idOf(name, text), text)), this.#sender.dryRun),
        ),
      );
    } catch (thrown) {
      this.#ended = true;
      this.errors.push(thrown);
      return this.#wait(message, "AMS or the queue failed at it");
    }
    if (result === "taken") return this.#wait(message, TAKEN);
    if (result === "busy")
      return this.#wait(
        message,
        "ssmsend holds it; if it failed and left the lock, its next run drops it after 10 minutes",
      );
    // It was sent, or replaced by a newer one, meanwhile.
    if (result === "gone" || report === undefined) return;
    this.#note(
      typeof result === "object" ? { ...report, reason: `${report.reason ?? ""}. It is in ${result.aside}` } : report,
    );
  }

  #note(report: MessageReport): void {
    this.reports.set(report.message, report);
    if (report.status === "refused") this.errors.push(refusal(report));
  }

  #wait({ name, keys }: Listed, reason: string): void {
    for (const key of keys) if (!this.#heldUp.has(key)) this.#heldUp.set(key, name);
    this.reports.set(name, { message: name, status: "waiting", reason });
  }
}

function dealtOf({ status, reason = "" }: MessageReport, dryRun: boolean): Dealt {
  if (dryRun) return "keep";
  if (status === "refused") return { setAside: reason };
  return status === "sent" ? "remove" : "keep";
}

/** A dirq's own name is of the form that the receiver's log knows; else it is made from the text. */
export function idOf(name: string, text: string): string {
  const [directory = "", file = ""] = name.split("/");
  if (isDirqDirectory(directory) && isDirqElement(file)) return name;
  const hash = bodyHash(text);
  return `${hash.slice(0, 8)}/${hash.slice(8, 22)}`;
}

/** Messages of one key with different texts and the same age, by name, each with one that contradicts it. */
function withoutOrder(listed: readonly Listed[]): ReadonlyMap<string, string> {
  const last = new Map<string, Listed>();
  const unclear = new Map<string, string>();
  for (const message of listed) {
    for (const key of message.keys) {
      const other = last.get(key);
      last.set(key, message);
      if (other === undefined || other.order !== message.order || other.hash === message.hash) continue;
      unclear.set(message.name, other.name).set(other.name, message.name);
    }
  }
  return unclear;
}
