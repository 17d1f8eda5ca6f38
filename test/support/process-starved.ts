/**
 * Uses up all file numbers, then runs `echo fed` with 0, 1, 2 ... of them free, and prints the results as JSON. To be run by
 * itself, under a low `ulimit -n`.
 */
import { closeSync, openSync } from "node:fs";
import { runCommand } from "../../lib/agent/command/run.ts";
import type { CommandResult } from "../../lib/agent/command/types.ts";

const run = () => runCommand({ argv: ["/bin/echo", "fed"], timeout: 5, maxBytes: 1000 }).settled;

await run(); // loads whatever Node loads late
process.stdout.write(""); // as is this stream

const taken: number[] = [];
const takeAll = () => {
  try {
    for (;;) taken.push(openSync("/dev/null", "r"));
  } catch {
    // all are used up
  }
};

const results: Record<string, CommandResult> = {};
for (const free of [0, 1, 2, 3, 40]) {
  takeAll();
  for (const number of taken.splice(0, free)) closeSync(number);
  results[free] = await run();
}
for (const number of taken) closeSync(number);
process.stdout.write(JSON.stringify(results));
