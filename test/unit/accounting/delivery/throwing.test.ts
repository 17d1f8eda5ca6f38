import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { DirqQueue } from "../../../../lib/accounting/delivery/dirq.ts";
import { bodyHash, unitPrefix } from "../../../../lib/accounting/delivery/outgoing.ts";
import { deliverAll } from "../../../../lib/accounting/delivery/deliver.ts";
import { MemoryStore } from "../../../../lib/accounting/store/store.ts";
import { NOW, generationMessages, summaryBody, unit, storeGeneration } from "../../../support/dirq-messages.ts";
import { scratchDirectory } from "../../../support/store-script.ts";

// No such message is known; should there be one, this is what it does.
vi.mock(import("../../../../lib/accounting/apel/record.ts"), async (importOriginal) => {
  const real = await importOriginal();
  return {
    ...real,
    parsedUnit: (record) => {
      if (record.fields.get("VO")?.value === "throws") throw new RangeError("Maximum call stack size exceeded");
      return real.parsedUnit(record);
    },
  };
});

test("a message that makes our own code throw is set aside like one that is refused, and the rest goes on", async () => {
  const scratch = await scratchDirectory();
  const store = new MemoryStore();
  const body = summaryBody(unit, 1, ["throws"]);
  const key = `${unitPrefix(unit)}0000000001-summary-${bodyHash(body)}`;
  await store.put(key, body);
  await storeGeneration(store, unit, 2, generationMessages(unit, 2));
  const reports = await deliverAll(store, new DirqQueue(join(scratch.path, "queue")), { now: NOW });
  await scratch.remove();
  expect(reports.flatMap(({ messages }) => messages)).toEqual([
    { key, status: "refused", reason: "gridmeter cannot read it (Maximum call stack size exceeded)" },
    expect.objectContaining({ status: "delivered" }),
    expect.objectContaining({ status: "delivered" }),
  ]);
  expect((await store.get(key.replace("outgoing/", "refused/")))?.body).toBe(body);
});
