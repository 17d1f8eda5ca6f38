import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import type { Sent } from "./dirq-invariants.ts";

const SCRIPT = fileURLToPath(new URL("outbox-contract-reader.py", import.meta.url));
const answer = z.array(z.object({ name: z.string(), body: z.string() }));

/** The real python-dirq at any number of queues; one process, since starting it costs more than what it does. */
export type DirqReader = {
  /** What ssmsend would send now, in its order; locked ones not. */
  read(queue: string): Promise<readonly Sent[]>;
  /** ssmsend's run: all that is not locked is sent and gone. */
  take(queue: string): Promise<readonly Sent[]>;
  /** ssmsend holds all that is there; gives the names. */
  lock(queue: string): Promise<readonly string[]>;
  /** ssmsend sends what it held. */
  send(queue: string, names: readonly string[]): Promise<readonly Sent[]>;
  stop(): Promise<void>;
};

export function startDirqReader(): DirqReader {
  const child = spawn("/usr/bin/python3", [SCRIPT], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  let last: Promise<unknown> = Promise.resolve();
  const ask = (action: string, queue: string, names: readonly string[] = []): Promise<readonly Sent[]> => {
    const answered = last.then(async () => {
      child.stdin.write(`${JSON.stringify({ action, queue, names })}\n`);
      const line = await lines.next();
      if (line.done === true) throw new Error(`python-dirq ended with ${String(child.exitCode)} at ${action} ${queue}`);
      return answer.parse(JSON.parse(line.value));
    });
    last = answered.catch(() => undefined);
    return answered;
  };
  return {
    read: (queue) => ask("read", queue),
    take: (queue) => ask("take", queue),
    lock: async (queue) => (await ask("lock", queue)).map(({ name }) => name),
    send: (queue, names) => ask("send", queue, names),
    stop: async () => {
      const closed = once(child, "close");
      child.stdin.end();
      await closed;
    },
  };
}
