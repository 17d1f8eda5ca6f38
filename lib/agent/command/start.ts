import { type ChildProcessByStdio, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import type { Readable } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import { errorText } from "../../shared/errors.ts";
import { isErrno } from "../../shared/fs.ts";
import { type Unstartable, locateExecutable } from "./executable.ts";
import type { Command } from "./types.ts";

export type Child = ChildProcessByStdio<null, Readable, Readable>;
type Started = { readonly kind: "started"; readonly child: Child; readonly pid: number };

/**
 * Starting a process takes the kernel and Node milliseconds in which nothing else happens, so that several at once would keep
 * a scrape waiting: each start has a turn of the event loop to itself.
 */
let turns: Promise<unknown> = Promise.resolve();
const ownTurn = (): Promise<unknown> => (turns = turns.then(() => nextTurn()));

/**
 * Starts a command, or says why not. `stillWanted` is asked after its file was found, which may take long on a file system that
 * hangs: undefined if it was not wanted any more, and nothing was started. Never throws.
 */
export async function startCommand(
  { argv: [name, ...rest], cwd }: Command,
  env: Readonly<Record<string, string>> & { readonly PATH: string },
  stillWanted: () => boolean,
): Promise<Started | Unstartable | undefined> {
  const located = await locateExecutable(name, env.PATH, cwd);
  await ownTurn();
  if (!stillWanted()) return undefined;
  if (located.kind !== "found") return located;
  const lack = lackOfDescriptors();
  if (lack !== undefined) return refused(located.path, lack);
  try {
    const child = spawn(located.path, rest, {
      argv0: name,
      ...(cwd === undefined ? {} : { cwd }),
      env,
      // A session and a group of its own, so that one signal reaches all that stayed in the group.
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    const { pid } = child;
    if (pid !== undefined) {
      child.on("error", () => undefined);
      return { kind: "started", child, pid };
    }
    // Nothing runs, no exit event will come, and with EMFILE there are not even streams, whatever the types say.
    return await new Promise((answer) => child.once("error", (error) => answer(refused(located.path, error))));
  } catch (thrown) {
    return refused(located.path, thrown);
  }
}

function refused(path: string, thrown: unknown): Unstartable {
  if (isErrno(thrown, "ENOENT")) {
    return { kind: "not_found", detail: `${path} is there, but not the interpreter or loader that it names` };
  }
  return { kind: "not_executable", detail: `${path} could not be started: ${errorText(thrown)}` };
}

const FIRST_ROOM = 16_384;

/**
 * Takes in what one stream of a command brings, up to `maxBytes`. The bytes are copied into one growing buffer: kept chunk by
 * chunk, a child that writes single bytes would cost a hundred times what it printed.
 */
export class Capture {
  readonly #stream: Readable;
  readonly #maxBytes: number;
  #bytes = Buffer.alloc(0);
  #length = 0;
  #keeps = true;

  /** `tooLarge` is called once, when more than `maxBytes` came; the stream is closed by then and all of it forgotten. */
  constructor(stream: Readable, maxBytes: number, tooLarge: () => void) {
    this.#stream = stream;
    this.#maxBytes = maxBytes;
    stream.on("data", (chunk: Buffer) => {
      if (!this.#keeps) return;
      if (this.#length + chunk.length > maxBytes) {
        this.close();
        tooLarge();
      } else this.#append(chunk);
    });
    // A stream that breaks is a stream that ended: how the command exits says whether the run was good.
    stream.on("error", () => undefined);
  }

  #append(chunk: Buffer): void {
    const needed = this.#length + chunk.length;
    if (needed > this.#bytes.length) {
      const room = Math.min(this.#maxBytes, Math.max(FIRST_ROOM, 2 * this.#bytes.length, needed));
      const larger = Buffer.alloc(room);
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    chunk.copy(this.#bytes, this.#length);
    this.#length = needed;
  }

  /** What came so far; bytes that are no UTF-8 are replaced (docker logs hands on whatever a job printed). */
  text(): string {
    return this.#bytes.toString("utf8", 0, this.#length);
  }

  /** Forgets all of it, but goes on reading, so that a child that cleans up after TERM is not killed by SIGPIPE instead. */
  forget(): void {
    this.#keeps = false;
    this.#bytes = Buffer.alloc(0);
    this.#length = 0;
  }

  /** Forgets all of it and closes our end, even while another process holds the other one. */
  close(): void {
    this.forget();
    this.#stream.destroy();
  }
}

/**
 * What a command sees of the agent's environment: where programs and the daemons of docker, containerd and NVIDIA are, and
 * nothing else, least of all the passwords of the Pushgateway or of S3.
 */
const INHERITED = [
  "PATH",
  "HOME",
  "USER",
  "LOGNAME",
  "TMPDIR",
  "TZ",
  "XDG_RUNTIME_DIR",
  "DBUS_SYSTEM_BUS_ADDRESS",
  "LD_LIBRARY_PATH",
  "DOCKER_HOST",
  "DOCKER_CONTEXT",
  "DOCKER_CONFIG",
  "DOCKER_TLS_VERIFY",
  "DOCKER_CERT_PATH",
  "CONTAINER_RUNTIME_ENDPOINT",
  "IMAGE_SERVICE_ENDPOINT",
] as const;

const USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** The variable by which the processes of a run are known again, whatever group or session they went into. */
export const RUN_VARIABLE = "GRIDMETER_RUN";

/**
 * The environment of a command. LC_ALL=C: numbers with a point, messages in English, whatever the node is set to.
 * `more` comes on top of what is inherited, but never displaces LC_ALL or the mark of the run.
 */
export function commandEnvironment(
  run: string,
  inherited: Readonly<Record<string, string | undefined>>,
  more: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> & { readonly PATH: string } {
  const kept = INHERITED.flatMap((name) => {
    const value = inherited[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  const chosen: Record<string, string> = { ...Object.fromEntries(kept), ...more };
  return { ...chosen, PATH: chosen["PATH"] || USUAL_PATH, LC_ALL: "C", [RUN_VARIABLE]: run };
}

/** A start takes two pairs for its pipes, a pair to hear of a failed exec, and one for its stdin; one more is for /proc. */
const NEEDED = 8;

/**
 * Why a command cannot be started for want of file descriptors (EMFILE, ENFILE), or undefined if there are enough. To be asked in
 * the very turn of a start: one that fails half-way for want of them leaves the parent's ends of its pipes open for good (libuv
 * opens them before it fails, and Node does not close them), until none is left at all. Takes some 30 microseconds.
 */
export function lackOfDescriptors(): unknown {
  const taken: number[] = [];
  try {
    while (taken.length < NEEDED) taken.push(openSync("/dev/null", "r"));
    return undefined;
  } catch (thrown) {
    return thrown;
  } finally {
    for (const number of taken) closeSync(number);
  }
}
