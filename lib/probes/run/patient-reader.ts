import { setTimeout as sleep } from "node:timers/promises";

/**
 * Reads files that the kernel makes up. It may hold up whoever reads them, and a read that hangs takes one of Node's few threads
 * for files: it is not awaited for long, and no other is begun before it is over.
 */
export class PatientReader {
  #atWork = false;

  /** What `work` gives, or undefined if it has not done so after these seconds, or an earlier one is still at work. */
  async read<T>(work: () => Promise<T>, seconds: number): Promise<T | undefined> {
    if (this.#atWork) return undefined;
    this.#atWork = true;
    const done = work().finally(() => (this.#atWork = false));
    const timer = new AbortController();
    const late = sleep(seconds * 1000, undefined, { signal: timer.signal }).catch(() => undefined);
    try {
      return await Promise.race([done, late]);
    } finally {
      timer.abort();
    }
  }
}
