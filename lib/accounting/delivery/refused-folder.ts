import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { type GuardedFolder, Odd, oddError } from "../store/guarded-folder.ts";
import type { Dealt, TakeResult } from "./queue.ts";

/** In gridmeter's own folder of a queue: messages that were of no use, each with the reason beside it. */
const REFUSED = "refused";

/**
 * Ends the taking of a message: it is removed, stays, or is moved to the refused ones.
 * @param name of its file in the folder
 * @param own gridmeter's own folder of the queue
 */
export async function dealtWith(
  dealt: Dealt,
  folder: GuardedFolder,
  name: string,
  own: GuardedFolder,
): Promise<TakeResult> {
  if (dealt === "keep") return "kept";
  if (dealt === "remove") {
    await folder.remove(name);
    return "removed";
  }
  const refused = await own.make(REFUSED);
  if (refused instanceof Odd) throw oddError(join(own.path, REFUSED), refused);
  try {
    const kept = refused.stat(name) === undefined ? name : `${name}.${randomUUID()}`;
    // A reason without its message is of a killed run.
    await refused.remove(`${kept}.reason`);
    await refused.write(`${kept}.reason`, `${dealt.setAside}\n`);
    await folder.rename(name, refused, kept);
    await refused.sync();
    return { aside: join(refused.path, kept) };
  } finally {
    refused.close();
  }
}
