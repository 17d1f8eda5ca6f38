import type { Selection } from "../accounting/tenant.ts";
import { HEX } from "../accounting/tiling.ts";
import { renamedPrefix } from "./labels.ts";

/** Some of the pods: the matchers that select them, and the pods among them when even these are too many. */
export type UidPart = {
  readonly matchers: readonly string[];
  /** these pods in parts, each pod in one; none where nothing smaller is left */
  parts(): readonly UidPart[];
};

/**
 * Labels under which a pod's uid may stand, the likeliest first. Beside a renamed one, the plain one is the uid of the target
 * itself.
 */
export function uidLabels(selection: Selection): readonly string[] {
  const renamed = `${renamedPrefix(selection)}uid`;
  return selection.labelPrefix === "" ? ["uid", renamed] : [renamed, "uid"];
}

/** The selection narrowed to a part of its pods. @param matchers those of the part */
export function narrowedTo(selection: Selection, matchers: readonly string[]): Selection {
  return { ...selection, matchers: [...selection.matchers, ...matchers] };
}

/**
 * All series in parts: by the first hexadecimal digit of the uid, then by the second, then by the next label where a uid may
 * stand. What has no uid there is a part of its own, and falls into parts by the next label.
 */
export function partsByUid(labels: readonly string[]): readonly UidPart[] {
  return partsBy(labels, []);
}

function partsBy([label, ...others]: readonly string[], outer: readonly string[]): readonly UidPart[] {
  if (label === undefined) return [];
  const part = (matcher: string, parts: () => readonly UidPart[]): UidPart => ({
    matchers: [...outer, matcher],
    parts,
  });
  const byNext = (matcher: string): UidPart => part(matcher, () => partsBy(others, [...outer, matcher]));
  const bySecond = (first: string): readonly UidPart[] => [
    ...HEX.map((second) => byNext(`${label}=~"${first}${second}.*"`)),
    byNext(`${label}=~"${first}(?:[^0-9a-f].*)?"`),
  ];
  return [
    ...HEX.map((first) => part(`${label}=~"${first}.*"`, () => bySecond(first))),
    byNext(`${label}!~"[0-9a-f].*"`),
  ];
}
