// What an agent leaves behind that is ended by KILL: nobody ends its commands then. The next agent does.
import { statSync } from "node:fs";
import { type ProcessEntry, readProcess } from "../../shared/proc.ts";
import { GRACE } from "./run.ts";
import { agentOf, ownSpace } from "./start.ts";
import { isAlive, processesSince, readMarks, signalProcess, until } from "./tree.ts";

/** After KILL the processes are searched again until none is left: one may have forked meanwhile. Milliseconds between two searches. */
const PAUSE = 100;

/** How many processes a dead agent had left behind, and how many of them not even KILL has ended. */
export type Leftovers = { readonly found: number; readonly left: number };

/**
 * Ends the commands of agents that are dead, and all that came of them: TERM, the grace, KILL. Those of an agent that lives are left
 * alone, and so are all processes of other users and of other namespaces of process ids, whatever mark they have: an agent in a
 * container that lives cannot be seen from here by the pid in its mark. Resolves after `limit` seconds at the latest. Never rejects.
 */
export async function endLeftovers(limit: number, grace = GRACE): Promise<Leftovers> {
  const ends = performance.now() + limit * 1000;
  try {
    const found = await leftBehind();
    for (const entry of found) signalProcess(entry, "SIGTERM");
    if (found.length > 0) await until(() => !found.some(isAlive), performance.now() + grace * 1000, Infinity);
    let left = found.length === 0 ? [] : await leftBehind();
    const all = new Set([...found, ...left].map(({ pid, start }) => `${pid} ${start}`));
    while (left.length > 0 && performance.now() < ends) {
      for (const entry of left) signalProcess(entry, "SIGKILL");
      await until(() => !left.some(isAlive), Math.min(ends, performance.now() + PAUSE), Infinity);
      left = await leftBehind();
    }
    return { found: all.size, left: left.length };
  } catch {
    // No file descriptor is free: nothing can be read, and the agent's commands will say so.
    return { found: 0, left: 0 };
  }
}

/** The living processes that have the mark of a dead agent, and their descendants. */
async function leftBehind(): Promise<readonly ProcessEntry[]> {
  const entries = (await processesSince(0)).filter(isOwn);
  const marks = await readMarks(entries, [0]);
  const family = new Set<number>();
  for (let before = -1; before !== family.size;) {
    before = family.size;
    for (const { pid, parent } of entries) {
      if (isOfDeadAgent(marks.get(pid)) ?? family.has(parent)) family.add(pid);
    }
  }
  const spared = ancestors(entries);
  return entries.filter(({ pid }) => family.has(pid) && !spared.has(pid));
}

/** This process and those that it comes from: an agent may be started by a command of another. */
function ancestors(entries: readonly ProcessEntry[]): ReadonlySet<number> {
  const parents = new Map(entries.map(({ pid, parent }) => [pid, parent]));
  const found = new Set<number>();
  for (let pid: number | undefined = process.pid; pid !== undefined && !found.has(pid); pid = parents.get(pid)) {
    found.add(pid);
  }
  return found;
}

/** A user may give any process of his the mark. */
function isOwn({ pid }: ProcessEntry): boolean {
  try {
    return statSync(`/proc/${pid}`).uid === process.geteuid?.();
  } catch {
    return false;
  }
}

/** Whether the agent that gave the mark is dead; undefined for no mark, and for one of another namespace. */
function isOfDeadAgent(mark: string | undefined): boolean | undefined {
  const agent = agentOf(mark ?? "");
  if (agent === undefined || agent.space !== ownSpace()) return undefined;
  const now = readProcess(agent.pid);
  return now === undefined || now.start !== agent.start || !now.alive;
}
