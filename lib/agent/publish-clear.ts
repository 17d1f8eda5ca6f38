import type { Outcome, OwnGroups } from "./publish-gateway.ts";

/** `refusal`: what the gateway said if it does not let this agent list or delete groups. */
export type Cleared = { readonly removed: readonly string[]; readonly refusal?: string };

/**
 * Removes what an earlier agent of this job and instance left on the gateway, groups of probes that are configured no more
 * included. Whoever may push but not list is refused: then the groups that can be named are removed; pushes replace those anyway.
 * Gives the outcome of what failed, if that may pass: then it is to be done again. Never rejects.
 */
export async function clearOld(
  groups: Pick<OwnGroups, "found" | "remove">,
  named: readonly string[],
): Promise<Cleared | Outcome> {
  const { outcome, probes } = await groups.found();
  if (outcome.result !== "ok" && outcome.result !== "refused") return outcome;
  const removed: string[] = [];
  let refused = outcome.result === "refused" ? outcome : undefined;
  for (const probe of refused === undefined ? probes : named) {
    const removal = await groups.remove(probe);
    if (removal.result === "ok") removed.push(probe);
    else if (removal.result === "refused") refused ??= removal;
    else return removal;
  }
  return { removed, ...(refused === undefined ? {} : { refusal: refused.message }) };
}
