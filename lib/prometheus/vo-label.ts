import type { Window } from "../accounting/ports.ts";
import type { Selection } from "../accounting/tenant.ts";
import type { Client } from "./connection.ts";
import { inParts } from "./in-parts.ts";
import { labelValue, renamedPrefix } from "./labels.ts";
import { splitLabelQuery, voLabelQuery } from "./queries.ts";
import { narrowedTo, uidLabels } from "./uid-parts.ts";

/**
 * Whether any pod of the namespace carried the VO label in the window; asked in parts where it must be, until one did.
 * Throws `config_invalid` for what cannot be a label, and as `inParts`.
 */
export async function findVoLabel(client: Client, selection: Selection, window: Window): Promise<boolean> {
  let seen = false;
  const ask = async (part: Window, uids: readonly string[]): Promise<readonly never[]> => {
    const query = voLabelQuery(narrowedTo(selection, uids), part);
    seen ||= (await client.instant(query, part.to)).length > 0;
    return [];
  };
  await inParts([window], ask, {
    asked: `the label ${selection.voLabel ?? ""}`,
    uidLabels: uidLabels(selection),
    known: () => seen,
  });
  return seen;
}

/** How many pods have the VO label split in two; see `Monitoring.voLabelSplit`. Throws as `findVoLabel`. */
export async function countSplitLabels(client: Client, selection: Selection, window: Window): Promise<number> {
  const uids = new Set<string>();
  const spelling = { prefix: renamedPrefix(selection) };
  const ask = async (part: Window, matchers: readonly string[]): Promise<readonly never[]> => {
    const query = splitLabelQuery(narrowedTo(selection, matchers), part);
    for (const { labels } of await client.instant(query, part.to)) uids.add(labelValue(labels, "uid", spelling));
    return [];
  };
  const asked = `whether the label ${selection.voLabel ?? ""} was split`;
  await inParts([window], ask, { asked, uidLabels: uidLabels(selection) });
  return uids.size;
}
