import { GridmeterError } from "../errors.ts";
import type { CountedMonth } from "./counted-month.ts";
import { isIndividual } from "./records.ts";
import { sourceOf } from "./state.ts";
import type { UnitState } from "./state.ts";
import type { Unit } from "./tenant.ts";

/** A unit under which single jobs of a source stand at APEL, or may stand. */
type Standing = { readonly source: string; readonly unit: Unit };

function standing(states: readonly UnitState[]): readonly Standing[] {
  return states.flatMap(({ unit, published, pending }) =>
    [published, pending].flatMap((publication) =>
      Object.entries(publication?.individual ?? {})
        .filter(([, days]) => Object.values(days).some((jobs) => jobs > 0))
        .map(([source]) => ({ source, unit })),
    ),
  );
}

/**
 * Single jobs cannot be taken back: APEL has no tombstone for them. So a site that has some of a month cannot publish
 * summaries of it (APEL: mixing kinds for one site and month counts double), and a source that has some cannot move to
 * another site (APEL keys jobs by site). Another submit host is fine, since it is no part of their key.
 * @param months the unit's counted tenants; @param states all units of the month
 */
export function singlesFault(
  unit: Unit,
  months: readonly CountedMonth[],
  states: readonly UnitState[],
): GridmeterError | undefined {
  const name = `${unit.site} ${unit.submitHost} ${unit.month}`;
  const singles = standing(states);
  for (const { tenant, days } of months) {
    if (days.every((day) => day.groups.length === 0)) continue;
    const elsewhere = singles.find(({ source, unit: { site } }) => source === sourceOf(tenant) && site !== unit.site);
    if (isIndividual(tenant)) {
      if (elsewhere === undefined) continue;
      return new GridmeterError(
        "moved_tenant_refused",
        `${name}: single jobs of tenant ${tenant.name} are published for this month under the site ${elsewhere.unit.site} and cannot be taken back; ` +
          `under ${unit.site} they would count twice. Nothing was published for it. Keep the old site for this month and change it for the next.`,
      );
    }
    const found = elsewhere ?? singles.find(({ unit: { site } }) => site === unit.site);
    if (found === undefined) continue;
    return new GridmeterError(
      "format_refused",
      `${name}: individual records of this month are published already (of ${found.source.trim()}); a ${tenant.format} ` +
        "message would make APEL count the jobs twice. Nothing was published for it. Keep the individual format for this month and change it for the next.",
    );
  }
  return undefined;
}
