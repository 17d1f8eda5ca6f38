import { z } from "zod";
import { dayUsage } from "../../../../lib/accounting/counting/usage.ts";

const stored = z.object({ fingerprint: z.string(), usage: dayUsage });

/** A stored day of the ledger, its fingerprint aside: that is a hash which says nothing to a reader. */
export function parsedDay(body: string): unknown {
  const { fingerprint, usage } = stored.parse(JSON.parse(body));
  if (!/^[0-9a-f]{32}$/.test(fingerprint)) throw new Error(`a strange fingerprint: ${fingerprint}`);
  return { fingerprint: "...", usage };
}
