// A gridmeter of another user: queue-putter.ts STORE QUEUE KIND BODY. Stores the body in the store, puts it into the queue in place of
// what is there, and prints what came of it as JSON.
import { errorSummary } from "../../lib/shared/errors.ts";
import { DirqQueue } from "../../lib/accounting/delivery/dirq.ts";
import { PlainDirectoryQueue } from "../../lib/accounting/delivery/plain-queue.ts";
import { DirectoryStore } from "../../lib/accounting/store/directory.ts";

const [storeRoot = "", queueRoot = "", kind = "", body = ""] = process.argv.slice(2);
const warnings: string[] = [];
const warn = (text: string): unknown => warnings.push(text);
const queue = kind === "dir" ? new PlainDirectoryQueue(queueRoot, 5000, warn) : new DirqQueue(queueRoot, 5000, warn);

async function put(): Promise<object> {
  try {
    const result = await queue.exclusively(async (open) => {
      const held = await open.list();
      for (const { read } of held) await read();
      return open.replace(
        held.map(({ name }) => name),
        [body],
      );
    });
    await new DirectoryStore(storeRoot, { warn }).put("state/2025-01/key", body);
    return { result, warnings };
  } catch (thrown) {
    return { error: errorSummary(thrown), warnings };
  }
}

process.stdout.write(`${JSON.stringify(await put())}\n`);
