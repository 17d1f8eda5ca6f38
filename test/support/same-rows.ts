import type { Fact, Monitoring, Only, Row, Window } from "../../lib/accounting/model/monitoring.ts";
import { rowsOf } from "./rows-of.ts";

/** All facts there are. */
export const FACTS = [
  "end",
  "name",
  "start",
  "succeeded",
  "failed",
  "runningUntil",
  "lastDay",
  "cores",
  "unscheduledCores",
  "coresAt",
  "vo",
  "voAt",
  "cpu",
  "memoryRequest",
  "unscheduledMemoryRequest",
  "memoryRequestAt",
  "memoryUsed",
] as const satisfies readonly Fact[];

const DAY = 86_400;
/** Steps at which a server looks for the last sample (lib/accounting/prometheus/queries.ts). */
const STEPS: Readonly<Partial<Record<Fact, number>>> = {
  runningUntil: 300,
  coresAt: 60,
  memoryRequestAt: 60,
  voAt: 60,
};

/**
 * What a real server and the in-memory monitoring answer to one question, in one order. Servers know the moment of a last sample to
 * the step only: one that is right within it is given as the in-memory monitoring has it.
 * @param interval seconds between scrapes
 */
export async function bothRows(
  [real, memory]: readonly [Monitoring, Monitoring],
  fact: Fact,
  asked: Window,
  interval: number,
  only?: Only,
): Promise<{ readonly answer: readonly Row[]; readonly expected: readonly Row[] }> {
  // A last day is asked for over whole days.
  const window = fact === "lastDay" ? wholeDays(asked) : asked;
  const expected = sorted(await rowsOf(memory, fact, window, only));
  const found = sorted(await rowsOf(real, fact, window, only));
  const step = STEPS[fact];
  if (step === undefined) return { answer: found, expected };
  const exact = new Map(expected.map((row) => [keyOf(row, fact), row]));
  const shown = new Map(found.map((row) => [keyOf(row, fact), row]));
  const shownBy = Math.floor(window.to / step) * step;
  // What a server saw last shortly before the window is of no use, and does no harm.
  const inside = found.filter((row) => momentOf(row) >= window.from || exact.has(keyOf(row, fact)));
  return {
    answer: inside.map((row) => {
      const held = exact.get(keyOf(row, fact));
      return held !== undefined && isRight(momentOf(row), momentOf(held), window, step, interval) ? held : row;
    }),
    // A text has no row but that of its moment, so one that came after the last step has none.
    expected: expected.filter((row) => fact !== "voAt" || momentOf(row) <= shownBy || shown.has(keyOf(row, fact))),
  };
}

const momentOf = ({ at, value }: Row): number => at ?? value;

/** Whether a moment is the right one, but for samples that come after the last step that shows them. */
function isRight(found: number, exact: number, { from, to }: Window, step: number, interval: number): boolean {
  if (found > exact) return false;
  const shownBy = Math.floor(to / step) * step;
  const early = step === STEPS.runningUntil ? step : 0;
  if (exact <= shownBy) return found >= Math.max(from, exact - early);
  return found >= Math.min(from, exact - interval - early) && found <= exact;
}

function keyOf({ uid, part, text, value, at }: Row, fact: Fact): string {
  return JSON.stringify([uid, part, text, fact === "runningUntil" && at === undefined ? "" : value]);
}

/** Whether a fact is the moment of a last sample: those of many pods over months are more than a server holds at once. */
export const isMoment = (fact: Fact): boolean => STEPS[fact] !== undefined;

function wholeDays({ from, to }: Window): Window {
  return { from: Math.floor(from / DAY) * DAY, to: Math.ceil(to / DAY) * DAY };
}

/** In one order. Servers add in different orders, so equal to 12 digits is equal. */
export function sorted(rows: readonly Row[]): readonly Row[] {
  const key = ({ uid, part = "", text = "", value, at = 0 }: Row): string =>
    JSON.stringify([uid, part, text, value, at]);
  return rows
    .map((row) => ({ ...row, value: Number(row.value.toPrecision(12)) }))
    .sort((a, b) => (key(a) < key(b) ? -1 : 1));
}
