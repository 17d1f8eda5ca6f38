import { COUNTING } from "./counting.ts";
import { DAYS } from "./days.ts";
import { KINDS } from "./kinds.ts";
import { PUBLISHING } from "./publishing.ts";
import { RECORDS } from "./records.ts";
import type { Example } from "./text.ts";

/** The worked examples of docs/accounting-semantics.md by the name in their marker. */
export const EXAMPLES: Readonly<Record<string, Example>> = {
  ...COUNTING,
  ...DAYS,
  ...RECORDS,
  ...KINDS,
  ...PUBLISHING,
};
