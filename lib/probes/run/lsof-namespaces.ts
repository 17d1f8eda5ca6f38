import { readlink } from "node:fs/promises";
import { SlotPerKey } from "../../agent/slot-per-key.ts";
import type { Command, Output, Parsed } from "../../agent/types.ts";
import { parseLsof, type Socket } from "../lsof.ts";
import { fillIn } from "./placeholders.ts";
import type { Reading } from "./reading.ts";
import type { Run } from "./run.ts";

/** Undefined where the process has gone, and its namespace perhaps too. */
export type Sockets = readonly Socket[] | undefined;

type Settings = {
  /** with the place `{pid}` */
  readonly command: Command["argv"];
  readonly maxBytes: number;
  /** seconds for each command */
  readonly commandTimeout: number;
  readonly proc: string;
};

/**
 * Runs lsof in network namespaces, once in each however many containers share it, as those of a pod and those on the host's
 * network do: every lsof reads all processes of the node.
 */
export class Namespaces {
  readonly #slots = new SlotPerKey();
  readonly #settings: Settings;

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  get stuck(): number {
    return this.#slots.stuck;
  }

  /** For one run, a function that gives the connections in the namespace of a process. */
  begin(run: Run): (pid: number) => Promise<Reading<Sockets>> {
    const known = new Map<string, Promise<Reading<Sockets>>>();
    return async (pid) => {
      const key = await namespaceOf(pid, this.#settings.proc);
      const earlier = known.get(key);
      if (earlier !== undefined) return withoutRejected(await earlier);
      const sockets = this.#look(run, key, pid);
      known.set(key, sockets);
      return sockets;
    };
  }

  #look(run: Run, key: string, pid: number): Promise<Reading<Sockets>> {
    const { command, maxBytes, commandTimeout } = this.#settings;
    const argv = fillIn(command, { pid: String(pid) });
    const start = (timeout: number) => this.#slots.run(key, { argv, timeout, maxBytes });
    return run.read("lsof", commandTimeout, start, parse);
  }
}

/** Broken rows of an output that several containers share are counted once. */
const withoutRejected = <T>(reading: Reading<T>): Reading<T> =>
  reading.kind === "ok" ? { ...reading, rejected: 0 } : reading;

/** What tells one network namespace from another; where it may not be asked, each process counts as in one of its own. */
const namespaceOf = (pid: number, proc: string): Promise<string> =>
  readlink(`${proc}/${pid}/ns/net`).catch(() => `the one of process ${pid}`);

const parse = (output: Output): Parsed<Sockets> =>
  output.exitCode !== 0 && /^nsenter: cannot open \/proc\/\d+\/ns\/net: No such file/m.test(output.stderr)
    ? { value: undefined, rejected: 0 }
    : parseLsof(output);
