// A process that writes to a DirectoryStore. `count ROOT N`: counts up by compare-and-set. `write ROOT KEY`: overwrites
// the key with ever larger numbers and reports each one that was stored, until it is killed.
import { writeSync } from "node:fs";
import { DirectoryStore } from "../../lib/accounting/store/directory.ts";
import { bodyOf, numberIn } from "./store-body.ts";

const [mode, root = "", argument = ""] = process.argv.slice(2);
const store = new DirectoryStore(root);

async function countUp(times: number): Promise<void> {
  for (let done = 0; done < times;) {
    const held = await store.get("counter");
    const next = String(Number(held?.body ?? "0") + 1);
    const condition = held === undefined ? ({ absent: true } as const) : { version: held.version };
    if ((await store.put("counter", next, condition)) === "stored") done += 1;
  }
}

async function write(key: string): Promise<never> {
  let number = numberIn((await store.get(key))?.body ?? bodyOf(0));
  for (;;) {
    number += 1;
    await store.put(key, bodyOf(number));
    writeSync(1, `${number}\n`);
  }
}

await (mode === "count" ? countUp(Number(argument)) : write(argument));
