import { messageKeys } from "../apel/keys.ts";
import type { LoadedGeneration } from "./load.ts";

/** The first of the later generations that covers this one. */
export async function coveredBy(
  generation: LoadedGeneration,
  later: readonly LoadedGeneration[],
): Promise<LoadedGeneration | undefined> {
  for (const other of later) if (await covers(other, generation)) return other;
  return undefined;
}

/** Whether the later generation holds all APEL keys of the earlier, which then need not be sent. */
async function covers(later: LoadedGeneration, earlier: LoadedGeneration): Promise<boolean> {
  const keys = new Set(later.messages.flatMap((message) => message.keys));
  if (!earlier.messages.every((message) => message.keys.every((key) => keys.has(key)))) return false;
  const hashes = new Set(later.messages.map(({ hash }) => hash));
  const others = earlier.messages.filter(({ kind, hash }) => kind === "individual" && !hashes.has(hash));
  if (others.length === 0) return true;
  const jobs = new Set<string>();
  for (const { kind, read } of later.messages)
    if (kind === "individual") for (const key of messageKeys(await read())) jobs.add(key);
  for (const { read } of others) if (!messageKeys(await read()).every((key) => jobs.has(key))) return false;
  return true;
}
