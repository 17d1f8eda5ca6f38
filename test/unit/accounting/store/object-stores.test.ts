import { DirectoryStore } from "../../../../lib/accounting/store/directory.ts";
import { MemoryStore, ReadOnlyStore } from "../../../../lib/accounting/store/store.ts";
import { objectStoreContract } from "../../../support/object-store-contract.ts";
import { scratchDirectory } from "../../../support/store-script.ts";

objectStoreContract("DirectoryStore", async () => {
  const scratch = await scratchDirectory();
  const root = `${scratch.path}/not/yet/made`;
  return { one: new DirectoryStore(root), two: new DirectoryStore(root), close: () => scratch.remove() };
});

objectStoreContract("MemoryStore", async () => {
  const store = new MemoryStore();
  return { one: store, two: store, close: async () => undefined };
});

objectStoreContract("ReadOnlyStore", async () => {
  const store = new ReadOnlyStore(new MemoryStore());
  return { one: store, two: store, close: async () => undefined };
});
