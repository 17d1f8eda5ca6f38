import { parseDestination, parseLedgerPlace } from "../config/destination.ts";
import type { Destination } from "../config/destination.ts";
import { GridmeterError } from "../errors.ts";
import { DirqQueue } from "../outbox/dirq-queue.ts";
import type { MessageQueue } from "../outbox/message-queue.ts";
import { PlainDirectoryQueue } from "../outbox/plain-directory-queue.ts";
import { DirectoryStore } from "../store/directory-store.ts";
import { MemoryStore } from "../store/memory-store.ts";
import type { ObjectStore } from "../store/object-store.ts";
import { ReadOnlyStore } from "../store/read-only-store.ts";

/** Where a run keeps its ledger, state and outgoing messages. */
export type OpenLedger = { readonly store: ObjectStore; readonly remembers: boolean };

/** Opens `--ledger`. A dry run gets a store that writes nothing. @throws usage */
export function openLedger(text: string, dryRun: boolean): OpenLedger {
  const parsed = parseLedgerPlace(text);
  if (!parsed.ok)
    throw new GridmeterError("usage", `--ledger ${JSON.stringify(text)} ${parsed.problem}. Nothing was published.`);
  const place = parsed.value;
  switch (place.kind) {
    case "none":
      return { store: new MemoryStore(), remembers: false };
    case "directory": {
      const store = new DirectoryStore(place.path);
      return { store: dryRun ? new ReadOnlyStore(store) : store, remembers: true };
    }
  }
}

/** Opens `--output` or OUTPUT_PATH. @throws usage */
export function openQueue(text: string): MessageQueue {
  const parsed = parseDestination(text);
  if (!parsed.ok)
    throw new GridmeterError("usage", `--output ${JSON.stringify(text)} ${parsed.problem}. Nothing was published.`);
  const destination: Destination = parsed.value;
  switch (destination.kind) {
    case "dirq":
      return new DirqQueue(destination.path);
    case "directory":
      return new PlainDirectoryQueue(destination.path);
    case "s3":
      throw new GridmeterError(
        "usage",
        `--output ${JSON.stringify(text)}: this version cannot write to S3. Nothing was published. Use dirq:DIR or dir:DIR.`,
      );
  }
}
