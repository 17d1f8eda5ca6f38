import type { Outcome, OwnGroups } from "./publish-gateway.ts";

/** `refusal`: what the gateway said if this agent could not list or may not delete groups. */
export type Cleared = { readonly removed: readonly string[]; readonly refusal?: string };

/** An answer that is no list, or none in time: the gateway may take pushes all the same. */
const mayWork = ({ result, status }: Outcome): boolean => result !== "failed" || status !== undefined;

/**
 * Removes what an earlier agent of this job and instance left on the gateway, groups of probes that are configured no more
 * included. Where groups cannot be listed, those that can be named are removed; pushes replace them anyway. So it is for whoever
 * may push but not list, and, when it was `tried` before, with a gateway that holds too much to list it in time or in memory, or
 * behind something that answers in its place: an agent must not stay silent for that.
 * Gives the outcome of what failed, if that may pass: then it is to be done again. Never rejects.
 */
export async function clearOld(
  groups: Pick<OwnGroups, "found" | "remove">,
  named: readonly string[],
  tried: boolean,
): Promise<Cleared | Outcome> {
  const { outcome, probes } = await groups.found();
  const listed = outcome.result === "ok";
  if (!listed && outcome.result !== "refused" && !(tried && mayWork(outcome))) return outcome;
  const removed: string[] = [];
  let refused = listed ? undefined : outcome;
  for (const probe of listed ? probes : named) {
    const removal = await groups.remove(probe);
    if (removal.result === "ok") removed.push(probe);
    else if (removal.result === "refused") refused ??= removal;
    else return removal;
  }
  return { removed, ...(refused === undefined ? {} : { refusal: refused.message }) };
}
