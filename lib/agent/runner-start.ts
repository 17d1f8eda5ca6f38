import { spawn } from "node:child_process";
import type { ChildProcessByStdio } from "node:child_process";
import type { Readable } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import { errorText } from "../errors.ts";
import { isErrno } from "../store/fs-error.ts";
import { lackOfDescriptors } from "./runner-descriptors.ts";
import { locateExecutable } from "./runner-executable.ts";
import type { Unstartable } from "./runner-executable.ts";
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
