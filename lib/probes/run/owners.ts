import { setTimeout as sleep } from "node:timers/promises";
import { readCgroups, type CgroupOwner } from "../cgroup.ts";

/** Seconds for reading control groups: they are in memory. */
const PATIENCE = 1;

/**
 * Reads where processes run. The kernel may hold up whoever reads /proc, and a read that hangs takes one of Node's few threads
 * for files: it is not awaited for long, and no other is begun before it is over.
 */
export class OwnerReader {
  readonly #proc: string;
  #atWork = false;

  /** @param proc where the host's /proc is */
  constructor(proc: string) {
    this.#proc = proc;
  }

  /** The owners by process id, or undefined if they could not be read within so many seconds, or at most one. */
  async read(pids: readonly number[], secondsLeft: number): Promise<ReadonlyMap<number, CgroupOwner> | undefined> {
    if (pids.length === 0) return new Map();
    if (this.#atWork) return undefined;
    this.#atWork = true;
    const owners = readCgroups(pids, this.#proc).finally(() => (this.#atWork = false));
    const timer = new AbortController();
    const patience = Math.min(PATIENCE, secondsLeft) * 1000;
    const late = sleep(patience, undefined, { signal: timer.signal }).catch(() => undefined);
    const found = await Promise.race([owners, late]);
    timer.abort();
    return found;
  }
}
