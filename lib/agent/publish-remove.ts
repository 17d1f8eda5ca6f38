import pLimit from "p-limit";
import type { Outcome, OwnGroups } from "./publish-gateway.ts";
import type { Clock } from "./schedule-clock.ts";

const AT_ONCE = 4;
const TRIES = 2;
/** With less time left, seconds, nothing is tried any more. */
const LEAST = 0.05;

/** Removes groups until `ends` (of the clock) at the latest. Gives those that may be left, and why. Never rejects. */
export async function removeUntil(
  ends: number,
  probes: readonly string[],
  groups: Pick<OwnGroups, "remove">,
  clock: Clock,
): Promise<ReadonlyMap<string, string>> {
  const left = new Map(probes.map((probe) => [probe, "there was no time left"]));
  const limit = pLimit(AT_ONCE);
  const remove = async (probe: string): Promise<void> => {
    const rest = ends - clock.now();
    if (rest < LEAST) return;
    const { result, message }: Outcome = await groups.remove(probe, rest);
    if (result === "ok") left.delete(probe);
    else left.set(probe, message);
  };
  // A kept connection may be closed by the other side just when it is used: that costs the first try only.
  for (let tries = 0; tries < TRIES && left.size > 0; tries++) {
    await Promise.all([...left.keys()].map((probe) => limit(remove, probe)));
  }
  return left;
}
