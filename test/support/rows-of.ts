import type { Fact, Monitoring, Only, Row, Window } from "../../lib/accounting/ports.ts";

/** The rows of a fact, one for each uid and part; of several the greatest, and NaN before all. */
export async function rowsOf(monitoring: Monitoring, fact: Fact, window: Window, only?: Only): Promise<readonly Row[]> {
  const rows = new Map<string, Row>();
  const take = (row: Row): void => {
    const key = `${row.uid} ${row.part ?? ""}`;
    const held = rows.get(key);
    const greater =
      held === undefined ||
      row.value > held.value ||
      Number.isNaN(row.value) ||
      (row.value === held.value && (row.text ?? "") > (held.text ?? ""));
    if (greater) rows.set(key, row);
  };
  await monitoring.facts(fact, window, take, only);
  return [...rows.values()];
}
