import { GridmeterError } from "../errors.ts";
import type { Fact, Monitoring, Row, UidPrefixes, Window } from "./ports.ts";

/** Below this the asked range is not cut further by time but by uid. */
const SMALLEST = 3600;
const HEX = Array.from({ length: 16 }, (_, digit) => digit.toString(16));

type Answer = Map<string, Row>;

const tooLarge = (thrown: unknown): boolean =>
  thrown instanceof GridmeterError && thrown.code === "prometheus_too_large";

/** Whether of two rows of one uid, from two tiles or copies, the second replaces the first. `later`: its tile ends later. */
function wins(fact: Fact, held: Row, next: Row, later: boolean): boolean {
  switch (fact) {
    case "end":
    case "start":
    case "finished":
    case "cpu":
    case "memoryUsed":
      return next.value > held.value || Number.isNaN(next.value);
    case "cores":
    case "memoryRequest":
      // The request in force at the end: the later tile knows better; copies within one tile are merged by max.
      return later || next.value > held.value || Number.isNaN(next.value);
    case "vo":
      // A label that changed: any fixed choice will do, as long as it does not depend on the tiles.
      return (next.text ?? "") > (held.text ?? "");
  }
}

function merge(fact: Fact, into: Answer, rows: Iterable<Row>, later: boolean): void {
  const fresh: Answer = new Map();
  for (const row of rows) {
    const key = row.part === undefined ? row.uid : `${row.uid} ${row.part}`;
    const held = fresh.get(key);
    if (held === undefined || wins(fact, held, row, false)) fresh.set(key, row);
  }
  for (const [key, row] of fresh) {
    const held = into.get(key);
    if (held === undefined || wins(fact, held, row, later)) into.set(key, row);
  }
}

/** Cuts a window in two contiguous tiles at a whole hour. */
function halves(window: Window): readonly [Window, Window] {
  const hours = Math.ceil((window.to - window.from) / SMALLEST);
  const middle = window.from + Math.floor(hours / 2) * SMALLEST;
  return [
    { from: window.from, to: middle },
    { from: middle, to: window.to },
  ];
}

/**
 * Asks a fact over a window. Where Prometheus refuses it, the *asked range* is tiled contiguously, down to an hour, then
 * by uid prefix, and the answers are merged by uid: latest end and start, latest request. The result is the same
 * whichever tiles were needed and in which order they were answered.
 * @throws whatever the monitoring throws; `prometheus_too_large` once even the smallest piece is refused
 */
export async function ask(monitoring: Monitoring, fact: Fact, window: Window, prefixes?: UidPrefixes): Promise<Answer> {
  const answer: Answer = new Map();
  try {
    merge(fact, answer, await monitoring.facts(fact, window, prefixes), false);
    return answer;
  } catch (thrown) {
    if (!tooLarge(thrown)) throw thrown;
    const parts = smaller(window, prefixes);
    if (parts.length === 0) throw thrown;
    // Tiles in order of time, so that "later" means later whatever order they are answered in.
    const answers = await Promise.all(parts.map((part) => ask(monitoring, fact, part.window, part.prefixes)));
    answers.forEach((tile) => merge(fact, answer, tile.values(), true));
    return answer;
  }
}

type Part = { readonly window: Window; readonly prefixes?: UidPrefixes };

function smaller(window: Window, prefixes?: UidPrefixes): readonly Part[] {
  if (window.to - window.from > SMALLEST) {
    return halves(window).map((half) => ({ window: half, ...(prefixes === undefined ? {} : { prefixes }) }));
  }
  const held = prefixes ?? HEX;
  if (held.length > 1) {
    const middle = Math.ceil(held.length / 2);
    return [held.slice(0, middle), held.slice(middle)].map((half) => ({ window, prefixes: half }));
  }
  const [only = ""] = held;
  // Two hexadecimal digits are 256 shards of one hour: an hour that is still refused will not be answered at all.
  return only.length < 2 ? [{ window, prefixes: HEX.map((digit) => only + digit) }] : [];
}
