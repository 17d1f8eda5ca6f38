import type { Fact, Monitoring, Only, Row, Window } from "../../lib/accounting/model/monitoring.ts";

/**
 * The rows of a fact, one for each uid and part, of several the greatest, NaN before all. Of requests and VO labels one for each
 * value, as the port says, and of their copies the newest of each value.
 */
export async function rowsOf(monitoring: Monitoring, fact: Fact, window: Window, only?: Only): Promise<readonly Row[]> {
  const rows = new Map<string, Row>();
  // Each monitoring has its own name of a copy.
  const take = ({ copy: _copy, ...row }: Row): void => {
    const key = keyOf(fact, row);
    const held = rows.get(key);
    if (held === undefined || isGreater(row, held)) rows.set(key, row);
  };
  await monitoring.facts(fact, window, take, only);
  return [...rows.values()];
}

function keyOf(fact: Fact, { uid, part, text, value }: Row): string {
  switch (fact) {
    case "cores":
    case "unscheduledCores":
    case "coresAt":
    case "memoryRequest":
    case "unscheduledMemoryRequest":
    case "memoryRequestAt":
      return JSON.stringify([uid, part, String(value)]);
    case "vo":
    case "voAt":
      return JSON.stringify([uid, text]);
    default:
      return JSON.stringify([uid, part]);
  }
}

function isGreater(row: Row, held: Row): boolean {
  if (row.at !== held.at) return (row.at ?? 0) > (held.at ?? 0);
  if (row.value !== held.value) return row.value > held.value || Number.isNaN(row.value);
  return (row.text ?? "") > (held.text ?? "");
}
