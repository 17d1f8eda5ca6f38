import type { Selection } from "../accounting/tenant.ts";
import { HEX } from "../accounting/tiling.ts";

/** Some of the pods: the matchers that select them, and the pods among them when even these are too many. */
export type UidPart = {
  readonly matchers: readonly string[];
  /** these pods in parts, each pod in one; none where nothing smaller is left */
  parts(): readonly UidPart[];
};

/** Labels under which a pod's uid may stand: with a prefix, the plain one may be the uid of the target itself. */
export function uidLabels({ labelPrefix }: Selection): readonly string[] {
  return labelPrefix === "" ? ["uid"] : [`${labelPrefix}uid`, "uid"];
}

/** The selection narrowed to a part of its pods. @param matchers those of the part */
export function narrowedTo(selection: Selection, matchers: readonly string[]): Selection {
  return { ...selection, matchers: [...selection.matchers, ...matchers] };
}

/**
 * All series in parts: by the first hexadecimal digit of the uid, then by the second. What has no uid there is a part of
 * its own, and falls into parts by the next label where a uid may stand.
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
  const smallest = (pattern: string): UidPart => part(`${label}=~"${pattern}"`, () => []);
  const bySecond = (first: string): readonly UidPart[] => [
    ...HEX.map((second) => smallest(`${first}${second}.*`)),
    smallest(`${first}(?:[^0-9a-f].*)?`),
  ];
  const rest = `${label}!~"[0-9a-f].*"`;
  return [
    ...HEX.map((first) => part(`${label}=~"${first}.*"`, () => bySecond(first))),
    part(rest, () => partsBy(others, [...outer, rest])),
  ];
}
