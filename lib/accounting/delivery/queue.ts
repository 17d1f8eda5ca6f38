/** A file in the queue is read up to this size, bytes; a larger one is none of APEL's (ours are below half a megabyte). */
export const LARGEST_QUEUED = 16 * 1024 * 1024;

/** A message that ssmsend would see, by the name under which the queue knows it. */
export type QueuedMessage = {
  readonly name: string;
  /** when it was put there, epoch seconds */
  readonly since: number;
  /** what its place in the order goes by; of two messages with the same one it is not known which ssmsend would take first */
  readonly order: string;
  /** its text; undefined if it was sent meanwhile, or is no file and was set aside */
  readonly read: () => Promise<string | undefined>;
};

/** `busy`: ssmsend holds `name`, one of the older messages; nothing was removed or added. */
export type ReplaceResult =
  | { readonly status: "added"; readonly names: readonly string[] }
  | { readonly status: "busy"; readonly name: string };

/** What is to become of a message that was taken: it was sent, it stays, or it is of no use, and why. */
export type Dealt = "remove" | "keep" | { readonly setAside: string };

/** `busy`: ssmsend holds it. `gone`: it was sent or replaced meanwhile. `aside`: the path of one that was set aside. */
export type TakeResult = "removed" | "kept" | "busy" | "gone" | { readonly aside: string };

/** A queue while no other gridmeter changes it. ssmsend may read and remove at any time. */
export interface OpenQueue {
  /** The messages in the order in which ssmsend takes them, locked ones too. A month of single jobs may be among them. */
  list(): Promise<readonly QueuedMessage[]>;
  /**
   * Takes the older messages out and then adds the new ones, in this order. At no instant, and after no kill, can
   * ssmsend meet an older message after a new one. Older messages that are gone meanwhile were sent. Killed in between,
   * the older may be gone and the new ones not yet there: the caller adds them in its next round.
   * @throws GridmeterError `store_failed`, `store_no_hard_links`
   */
  replace(older: readonly string[], bodies: readonly string[]): Promise<ReplaceResult>;
  /**
   * Takes a message as ssmsend does: locked where the kind of queue has locks, so that of both one has it. What `deal` throws leaves
   * the message in the queue. A message that is set aside lies in a folder at which ssmsend does not look, with the reason beside it.
   * @throws GridmeterError `store_failed`; what `deal` throws
   */
  take(name: string, deal: (text: string) => Promise<Dealt>): Promise<TakeResult>;
}

/** ssmsend's queue on this host. Every implementation passes the same contract test. */
export interface MessageQueue {
  /** For messages to people: what kind of queue, and where. */
  readonly place: string;
  /**
   * Runs `work` while no other gridmeter is at the queue; else two of them could add their generations in the wrong
   * order. Waits for the other one some seconds; "taken" if that was not enough (`work` did not run then).
   * @throws GridmeterError `store_failed`, `store_no_hard_links`, `queue_owner`
   */
  exclusively<T>(work: (queue: OpenQueue) => Promise<T>): Promise<T | "taken">;
}

/** python-dirq's granularity: a new directory at most once a minute. */
const GRANULARITY = 60;

const DIRECTORY = /^[0-9a-f]{8}$/;
const ELEMENT = /^[0-9a-f]{14}$/;

export function isDirqDirectory(name: string): boolean {
  return DIRECTORY.test(name);
}

export function isDirqElement(name: string): boolean {
  return ELEMENT.test(name);
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, "0");
}

/** When a message was put into a dirq, epoch seconds: an element's name begins with it. */
export function timeOfDirqElement(name: string): number {
  return Number.parseInt(name.slice(0, 8), 16);
}

let last = 0;

/**
 * A new element's name, as python-dirq makes it: `<8 hex: seconds><5 hex: microseconds><1 hex: random>`, in the
 * directory of its minute. Names of one process ascend even if the clock does not.
 */
export function newDirqName(): { readonly directory: string; readonly file: string } {
  last = Math.max(Date.now() * 1000, last + 1);
  const seconds = Math.floor(last / 1_000_000);
  const random = Math.floor(Math.random() * 16);
  return {
    directory: hex(seconds - (seconds % GRANULARITY), 8),
    file: hex(seconds, 8) + hex(last % 1_000_000, 5) + hex(random, 1),
  };
}
