/** What people met in the field and what ordinary sites look like, each with what must come of it. */
export { BATCH } from "./batch.ts";
export { BEHIND_ONE_ADDRESS } from "./behind-one-address.ts";
export { LEFT_OUT_SITUATIONS } from "./left-out.ts";
export { MISSING_METRICS } from "./missing-metrics.ts";
export { NEWEST } from "./newest.ts";
export { SEEN } from "./seen.ts";
export { SHARDS } from "./shards.ts";
export type { Published, Right, Run, Situation } from "./situation.ts";
export { SPELLINGS } from "./spellings.ts";
