import { readFile, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { DirqQueue } from "../../../../lib/accounting/delivery/dirq.ts";
import { PlainDirectoryQueue } from "../../../../lib/accounting/delivery/plain-queue.ts";
import { messageQueueContract } from "../../../support/dirq-contract.ts";
import { dirqTool } from "../../../support/dirq-tool.ts";

messageQueueContract({
  name: "DirqQueue",
  open: (root, patience) => new DirqQueue(root, patience),
  read: async (root) => z.array(z.string()).parse(await dirqTool("read", root)),
});

messageQueueContract({
  name: "PlainDirectoryQueue",
  open: (root, patience) => new PlainDirectoryQueue(root, patience),
  // ssmsend: every regular file, whatever its name, oldest mtime first
  read: async (root) => {
    const files: { mtime: number; name: string; body: string }[] = [];
    for (const name of await readdir(root)) {
      const entry = await stat(join(root, name));
      if (entry.isFile()) files.push({ mtime: entry.mtimeMs, name, body: await readFile(join(root, name), "utf8") });
    }
    return files.sort((a, b) => a.mtime - b.mtime || (a.name < b.name ? -1 : 1)).map(({ body }) => body);
  },
});
