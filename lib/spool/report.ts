import type { Unit } from "../accounting/tenant.ts";

/**
 * - `delivered`: added to the queue now
 * - `already_there`: a file with the same text is in the queue, or it was spooled before
 * - `waiting`: still in `outgoing/`, to be tried again in the next round; `reason` says for what
 * - `superseded`: not sent, a later generation holds all its APEL keys
 * - `refused`: moved to `refused/`, never to be sent; `reason` says why
 */
export type DeliveryStatus = "delivered" | "already_there" | "waiting" | "superseded" | "refused";

export type DeliveredMessage = {
  /** the object's key in `outgoing/` */
  readonly key: string;
  readonly status: DeliveryStatus;
  readonly reason?: string;
};

/** What became of a unit's outgoing messages. Keys that gridmeter did not make belong to no unit. */
export type DeliveryReport = { readonly unit?: Unit; readonly messages: readonly DeliveredMessage[] };
