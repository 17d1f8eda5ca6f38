import { z } from "zod";
import { type Damage, readJson } from "../store/json.ts";
import { type ObjectStore, safeSegment } from "../store/store.ts";
import type { Tenant, Unit } from "../model/tenant.ts";
import { LAST_GENERATION } from "../delivery/outgoing.ts";
import type { MonthlyRecord } from "./records.ts";

const count = z.number().int().min(0);
const benchmark = z.enum(["si2k", "hepspec", "hepscore23"]);
const monthly = {
  site: z.string(),
  submitHost: z.string(),
  year: count,
  month: count,
  vo: z.string(),
  globalUserName: z.string().exactOptional(),
  voGroup: z.string().exactOptional(),
  voRole: z.string().exactOptional(),
  infrastructureType: z.string(),
  wallDuration: count,
  cpuDuration: count,
  numberOfJobs: count,
  processors: count,
  nodeCount: count,
  earliestEndTime: count,
  latestEndTime: count,
};
const record: z.ZodType<MonthlyRecord> = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("summary"), ...monthly, serviceLevel: z.object({ type: benchmark, value: z.number() }) }),
  z.object({
    kind: z.literal("normalised"),
    ...monthly,
    benchmark,
    normalisedWallDuration: count,
    normalisedCpuDuration: count,
  }),
]);

/** What one tenant had of one VO when the month was published; the guard compares with it, whatever model and format. */
const figure = z.object({
  tenant: z.string(),
  source: z.string(),
  vo: z.string(),
  jobs: count,
  milliCoreSeconds: count,
});
export type Figure = z.infer<typeof figure>;

const publication = z.object({
  generation: count,
  /** epoch seconds */
  at: count,
  /** of the messages' content: equal means there is nothing new to send */
  hash: z.string(),
  /** the monthly rows APEL holds because of it, tombstones included */
  records: z.array(record),
  /** NumberOfJobs of the sync record; null if none goes with it (individual records without a service level) */
  sync: count.nullable(),
  figures: z.array(figure),
  /** source -> day -> jobs: the days whose individual records have been published, this publication's included */
  individual: z.record(z.string(), z.record(z.string(), count)),
});
export type Publication = z.infer<typeof publication>;

const pin = z.object({ records: z.array(record), sync: count.nullable(), hash: z.string(), at: count });
export type Pin = z.infer<typeof pin>;

const unitState = z.object({
  unit: z.object({ site: z.string(), submitHost: z.string(), month: z.string() }),
  /** the highest generation ever reserved */
  generation: count.max(LAST_GENERATION),
  published: publication.optional(),
  /** reserved, perhaps written: a run that was killed leaves it, and the next one publishes again */
  pending: publication.optional(),
  /** hand-written records: automatic runs refuse the unit while there are any */
  pins: z.array(pin),
  /** rows of lifted pins: the next publication covers them or zeroes them */
  known: z.array(record),
});

/** All that is remembered about one (Site, SubmitHost, month). */
export type UnitState = z.infer<typeof unitState>;
/** A state as it is stored; `state` is undefined where the object is damaged. */
export type HeldState = { readonly state: UnitState | undefined; readonly version: string };

const prefix = (month: string): string => `state/${month}/`;

export function stateKey(unit: Unit): string {
  return `${prefix(unit.month)}${safeSegment(unit.site)}/${safeSegment(unit.submitHost)}.json`;
}

/** Identity of what a tenant counts, so that a renamed tenant is known to be the same pods. */
export function sourceOf(tenant: Tenant): string {
  return [tenant.server ?? "", tenant.selection.namespace, ...tenant.selection.matchers].join(" ");
}

export async function readState(
  store: ObjectStore,
  unit: Unit,
  damaged: (damage: Damage) => void,
): Promise<HeldState | undefined> {
  const held = await readJson(store, stateKey(unit), unitState, damaged);
  return held === undefined ? undefined : { state: held.value, version: held.version };
}

/** All units of a month that were ever published or pinned; damaged ones are set aside and left out. */
export async function readStates(
  store: ObjectStore,
  month: string,
  damaged: (damage: Damage) => void,
): Promise<readonly { readonly state: UnitState; readonly version: string }[]> {
  const keys = await store.list(prefix(month));
  const held = await Promise.all(keys.map((key) => readJson(store, key, unitState, damaged)));
  return held.flatMap((each) => (each?.value === undefined ? [] : [{ state: each.value, version: each.version }]));
}

/** Compare-and-set. `held` undefined: there must be no state yet. */
export async function writeState(
  store: ObjectStore,
  state: UnitState,
  version: string | undefined,
): Promise<"stored" | "conflict"> {
  return store.put(stateKey(state.unit), JSON.stringify(state), version === undefined ? { absent: true } : { version });
}
