import { errorText } from "../errors.ts";
import type { PushAccount } from "./meta-pushes.ts";
import type { Outcome, OwnGroups } from "./publish-gateway.ts";
import type { GroupNow } from "./snapshot-board.ts";

/** What became of a group. `off`: it was refused, and the gateway holds no data of it any more. */
export type Placed = { readonly outcome: Outcome; readonly off: boolean };

export type PlaceOptions = {
  readonly groups: Pick<OwnGroups, "put" | "remove">;
  readonly read: (group: string) => GroupNow;
  readonly account: PushAccount;
  /** epoch seconds */
  readonly wallClock: () => number;
};

/**
 * Pushes a group as it is now; without `whole` only the account of its probe. A gateway that refuses a group's new data keeps the
 * old ones, which would be stale: so the group is replaced by the account alone, or removed if that is refused as well.
 * Never rejects.
 */
export async function place(group: string, whole: boolean, options: PlaceOptions): Promise<Placed> {
  const now = read(group, options);
  if ("result" in now) return { outcome: now, off: false };
  const put = async (text: string): Promise<Outcome> => {
    const outcome = await options.groups.put(group, text);
    options.account.ended(outcome.result, outcome.seconds, options.wallClock());
    return outcome;
  };
  const outcome = await put(whole ? now.text : now.account);
  if (!outcome.ofGroup) return { outcome, off: false };
  if (whole && now.text !== now.account) {
    const without = await put(now.account);
    if (without.result === "ok") return { outcome, off: true };
    if (!without.ofGroup) return { outcome: without, off: false };
  }
  const removal = await options.groups.remove(group);
  return removal.result === "ok" ? { outcome, off: true } : { outcome: { ...removal, ofGroup: false }, off: false };
}

function read(group: string, { read: readNow }: PlaceOptions): GroupNow | Outcome {
  try {
    return readNow(group);
  } catch (thrown) {
    const message = `The group could not be put together: ${errorText(thrown)}. This is a fault of the agent.`;
    return { result: "failed", seconds: 0, ofGroup: false, message };
  }
}
