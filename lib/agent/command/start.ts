import { type ChildProcessByStdio, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { closeSync, openSync, readlinkSync } from "node:fs";
import type { Readable } from "node:stream";
import { setImmediate as nextIteration } from "node:timers/promises";
import { errorText } from "../../shared/errors.ts";
import { isErrno } from "../../shared/fs.ts";
import { readProcess } from "../../shared/proc.ts";
import { type Unstartable, locateExecutable } from "./executable.ts";
import type { Command } from "./types.ts";

export type Child = ChildProcessByStdio<null, Readable, Readable>;
type Started = { readonly kind: "started"; readonly child: Child; readonly pid: number };

/**
 * Starting a process blocks the event loop for milliseconds. Starts are therefore queued, one an iteration of the loop, so that
 * /metrics answers between two of them (p99 of a scrape with 1,000 containers in bench/results.md).
 */
let lastStart: Promise<unknown> = Promise.resolve();
const ownIteration = (): Promise<unknown> => (lastStart = lastStart.then(() => nextIteration()));

/**
 * Starts a command, or says why it could not be started. Undefined if nothing was started because `stillWanted` says no: finding
 * the file may take longer than the deadline, on a file system that hangs. Never throws.
 */
export async function startCommand(
  { argv: [name, ...rest], cwd }: Command,
  env: Readonly<Record<string, string>> & { readonly PATH: string },
  stillWanted: () => boolean,
): Promise<Started | Unstartable | undefined> {
  const located = await locateExecutable(name, env.PATH, cwd);
  await ownIteration();
  if (!stillWanted()) return undefined;
  if (located.kind !== "found") return located;
  const lack = lackOfDescriptors();
  if (lack !== undefined) return refusal(located.path, lack);
  try {
    const child = spawn(located.path, rest, {
      argv0: name,
      ...(cwd === undefined ? {} : { cwd }),
      env,
      // A session and a group of its own, so that one signal goes to all processes that stayed in the group.
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    const { pid } = child;
    if (pid !== undefined) {
      child.on("error", () => undefined);
      return { kind: "started", child, pid };
    }
    // Nothing runs, no exit event comes, and after EMFILE even the streams are missing, whatever the types say.
    return await new Promise((answer) => child.once("error", (error) => answer(refusal(located.path, error))));
  } catch (thrown) {
    return refusal(located.path, thrown);
  }
}

function refusal(path: string, thrown: unknown): Unstartable {
  if (isErrno(thrown, "ENOENT")) {
    return { kind: "not_found", detail: `${path} is there, but not the interpreter or loader that it names` };
  }
  return { kind: "not_executable", detail: `${path} could not be started: ${errorText(thrown)}` };
}

const FIRST_SIZE = 16_384;

/**
 * Collects what a command prints on one stream, up to `maxBytes` (faults "endless flood", "500 MB then exit 0"). The bytes are
 * copied into one growing buffer: in a list of chunks, a child that writes single bytes would take a hundred times the memory of
 * what it printed.
 */
export class Capture {
  readonly #stream: Readable;
  readonly #maxBytes: number;
  #bytes = Buffer.alloc(0);
  #length = 0;
  #keeps = true;

  /** `tooLarge` is called once, when more than `maxBytes` came. The stream is closed and its bytes are dropped by then. */
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
    // A broken stream counts as one that ended: the command's exit says whether the run was good.
    stream.on("error", () => undefined);
  }

  #append(chunk: Buffer): void {
    const needed = this.#length + chunk.length;
    if (needed > this.#bytes.length) {
      const size = Math.min(this.#maxBytes, Math.max(FIRST_SIZE, 2 * this.#bytes.length, needed));
      const larger = Buffer.alloc(size);
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    chunk.copy(this.#bytes, this.#length);
    this.#length = needed;
  }

  /** What came so far. Bytes that are no UTF-8 are replaced: docker logs prints whatever a job printed. */
  text(): string {
    return this.#bytes.toString("utf8", 0, this.#length);
  }

  /** Drops the bytes, but goes on reading, so that a child that cleans up after TERM is not ended by SIGPIPE. */
  drop(): void {
    this.#keeps = false;
    this.#bytes = Buffer.alloc(0);
    this.#length = 0;
  }

  /** Drops the bytes and closes the agent's end of the pipe, even if a grandchild holds the other one. */
  close(): void {
    this.drop();
    this.#stream.destroy();
  }
}

/**
 * The variables of the agent's environment that a command gets: where programs and the daemons of docker, containerd and NVIDIA
 * are. All others are kept from it, such as the password of the Pushgateway.
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

/** The variable that marks the processes of a run, whatever group or session they are in. */
export const RUN_VARIABLE = "GRIDMETER_RUN";

/** An agent: its pid and the ticks from boot to its start, which together are no other process's, and where that pid counts. */
type AgentName = { readonly space: string; readonly pid: number; readonly start: number };

let ownName: string | undefined;

/** The mark of one run: which agent started it, and which run it is. Where /proc cannot be read, it has the latter alone. */
export function newMark(): string {
  ownName ??= nameOfAgent();
  return `${ownName}${randomUUID()}`;
}

function nameOfAgent(): string {
  try {
    const [space, own] = [ownSpace(), readProcess(process.pid)];
    return space === undefined || own === undefined ? "" : `${space}/${own.pid}/${own.start}/`;
  } catch {
    return ""; // no file descriptor is free
  }
}

/** The agent that a mark names. */
export function agentOf(mark: string): AgentName | undefined {
  const [, space, pid, start] = /^(pid:\[\d{1,20}\])\/(\d{1,10})\/(\d{1,20})\/[0-9a-f-]{36}$/.exec(mark) ?? [];
  return space === undefined ? undefined : { space, pid: Number(pid), start: Number(start) };
}

/** The namespace of process ids; undefined without /proc, or where /proc is another namespace's. */
export function ownSpace(): string | undefined {
  try {
    return readlinkSync("/proc/self") === String(process.pid) ? readlinkSync("/proc/self/ns/pid") : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The environment of a command. LC_ALL=C: numbers with a point and messages in English, whatever the node's locale is.
 * `more` overrides what is inherited, but never LC_ALL or the mark of the run.
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

/** File descriptors of a start: two pairs for the pipes, a pair that reports a failed exec, one for stdin, and one to read /proc. */
const NEEDED = 8;

/**
 * The error (EMFILE, ENFILE) that a start would meet because too few file descriptors are free; undefined if there are enough.
 * Asked right before a start: one that meets it half-way leaves its pipes open in the agent for good, as libuv opens them first
 * and Node does not close them. Takes some 30 microseconds.
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
