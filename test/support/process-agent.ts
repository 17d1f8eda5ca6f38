/**
 * Stands for an agent that ends while commands run. `node process-agent.ts HOW COMMAND...` starts `/bin/sh -c COMMAND` for
 * each, and ends half a second later, in the way HOW says. It prints what came of the commands if it is in a state to do so.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { killAll, runCommand } from "../../lib/agent/command/run.ts";

const [how, ...texts] = process.argv.slice(2);
const timeout = how === "of-its-own" ? 0.2 : 60;
const runs = texts.map((text) => runCommand({ argv: ["/bin/sh", "-c", text], timeout, maxBytes: 1000 }).settled);
await sleep(500);

switch (how) {
  case "kill-all": {
    const started = performance.now();
    await killAll("the test is over");
    console.log(JSON.stringify({ took: performance.now() - started, results: await Promise.all(runs) }));
    break;
  }
  case "exit":
    process.exit(0);
  case "throw":
    throw new Error("on purpose");
  case "of-its-own":
    console.log(JSON.stringify({ results: await Promise.all(runs) }));
    break;
  default:
    throw new Error(`ends how? ${how}`);
}
