import { readCgroups, type CgroupOwner } from "../cgroup.ts";
import { PatientReader } from "./patient-reader.ts";

/** Seconds for reading control groups: they are in memory. */
const PATIENCE = 1;

/** Reads where processes run. */
export class OwnerReader {
  readonly #proc: string;
  readonly #files = new PatientReader();

  /** @param proc where the host's /proc is */
  constructor(proc: string) {
    this.#proc = proc;
  }

  /**
   * The owners by process id, or undefined if they could not be read within so many seconds, or at most one. Rejects if they cannot
   * be read at all.
   */
  async read(pids: readonly number[], secondsLeft: number): Promise<ReadonlyMap<number, CgroupOwner> | undefined> {
    if (pids.length === 0) return new Map();
    return this.#files.read(() => readCgroups(pids, this.#proc), Math.min(PATIENCE, secondsLeft));
  }
}
