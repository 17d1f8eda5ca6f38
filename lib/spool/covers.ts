import { messageKeys } from "../apel/keys.ts";
import { isJobs } from "./load.ts";
import type { LoadedGeneration, LoadedMessage } from "./load.ts";

/** The least and the greatest of a message's APEL keys; none where its text is gone. */
type Edges = { readonly least: string; readonly greatest: string } | undefined;

/** Tells of a unit's waiting generations which need not be sent, since a later one holds all their APEL keys. */
export class Coverage {
  /** of messages of single jobs, by their objects' keys: each is read once to be compared with all others */
  readonly #edges = new Map<string, Edges>();

  /** The first of the later generations that covers this one. */
  async by(generation: LoadedGeneration, later: readonly LoadedGeneration[]): Promise<LoadedGeneration | undefined> {
    for (const other of later) if (await this.#covers(other, generation)) return other;
    return undefined;
  }

  async #covers(later: LoadedGeneration, earlier: LoadedGeneration): Promise<boolean> {
    const keys = new Set(later.messages.flatMap((message) => message.keys));
    if (!earlier.messages.every((message) => message.keys.every((key) => keys.has(key)))) return false;
    const hashes = new Set(later.messages.map(({ hash }) => hash));
    const jobs = later.messages.filter(isJobs);
    for (const message of earlier.messages)
      if (isJobs(message) && !hashes.has(message.hash) && !(await this.#holds(jobs, message))) return false;
    return true;
  }

  /** Whether some of these messages together hold all jobs of one. Only those are read that reach into its keys. */
  async #holds(messages: readonly LoadedMessage[], one: LoadedMessage): Promise<boolean> {
    const edges = await this.#edgesOf(one);
    const held = new Set<string>();
    for (const message of messages) {
      const others = await this.#edgesOf(message);
      if (edges === undefined || others === undefined) continue;
      if (others.greatest < edges.least || others.least > edges.greatest) continue;
      for (const key of await keysIn(message)) held.add(key);
    }
    return held.size > 0 && (await keysIn(one)).every((key) => held.has(key));
  }

  async #edgesOf(message: LoadedMessage): Promise<Edges> {
    if (!this.#edges.has(message.key)) this.#edges.set(message.key, edgesOf(await keysIn(message)));
    return this.#edges.get(message.key);
  }
}

async function keysIn({ read }: LoadedMessage): Promise<readonly string[]> {
  const body = await read();
  return body === undefined ? [] : messageKeys(body);
}

function edgesOf([first, ...others]: readonly string[]): Edges {
  if (first === undefined) return undefined;
  const least = others.reduce((a, b) => (b < a ? b : a), first);
  return { least, greatest: others.reduce((a, b) => (b > a ? b : a), first) };
}
