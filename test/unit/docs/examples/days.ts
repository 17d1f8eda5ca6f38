import { observe } from "../../../../lib/accounting/counting/settled-days.ts";
import { CELL } from "../../../../lib/accounting/model/monitoring.ts";
import { parsedDay } from "./ledger-day.ts";
import { at, became, cluster, DAY, ended, HOUR, job, message, tenant, unitIn, World } from "../../accounting/world.ts";
import { columns, when } from "./text.ts";
import type { Example } from "./text.ts";

const DAY_OF = "2025-01-14";
const CASES = [
  { what: "nothing missed", outages: [], settle: 6 },
  { what: "nothing missed, SETTLE=1h", outages: [], settle: 1 },
  { what: "25 minutes in the day", outages: [["2025-01-14T20:00", "2025-01-14T20:25"]], settle: 6 },
  { what: "50 minutes in the day", outages: [["2025-01-14T20:00", "2025-01-14T20:50"]], settle: 6 },
  { what: "3 hours after midnight", outages: [["2025-01-15T00:00", "2025-01-15T03:00"]], settle: 6 },
  { what: "40 minutes over midnight", outages: [["2025-01-14T23:40", "2025-01-15T00:20"]], settle: 6 },
] as const;

const settling: Example = () => {
  const window = { from: at(DAY_OF) - HOUR, to: at("2025-01-20") };
  const rows = CASES.map(({ what, outages, settle }) => {
    const cells = Array.from(
      { length: (window.to - window.from) / CELL },
      (_, index) => window.from + (index + 1) * CELL,
    );
    const seen = cells.filter((cell) => !outages.some(([from, to]) => cell > at(from) && cell <= at(to)));
    const [day] = observe([DAY_OF], { cells: seen, partly: [] }, window, settle * HOUR, window.to);
    if (day?.settled !== true) throw new Error(`${what}: not settled`);
    const gaps = day.gaps.map((gap) => `${when(gap.from)} to ${when(gap.to).slice(11)}`);
    return [what, gaps.join(", ") || "-", when(day.until)];
  });
  return columns(["monitoring", `gaps of ${DAY_OF}`, "settled"], rows);
};

const ledgerDay: Example = async () => {
  const start = at("2025-01-10T08:00");
  const pods = [
    job(start, start + HOUR, { containers: [{ milliCores: 2000 }] }),
    job(start + HOUR, start + 4 * HOUR, { containers: [{ milliCores: 2000 }] }),
    job(start, start + HOUR, { containers: [{}] }),
  ];
  const world = new World(cluster(pods));
  await world.run("2025-02-01T09:30", [tenant("grid")]);
  const key = "ledger/grid/2025-01/2025-01-10.json";
  const held = await world.store.get(key);
  return `${key}\n\n${JSON.stringify(parsedDay(held?.body ?? ""), null, 2)}`;
};

const fortnight: Example = async () => {
  const pods = ["2025-01-10T12:00", "2025-01-31T23:59:58", "2025-02-03T12:00", "2025-02-10T12:00"];
  const world = new World(cluster(pods.map((end) => ended(end, { lingers: 4 * HOUR }))));
  const rows: (string | number)[][] = [];
  for (let day = 1; day <= 16; day += 1) {
    const now = at("2025-02-01") + (day - 1) * DAY + 9.5 * HOUR;
    const result = await world.run(now, [tenant("grid")]);
    const became = ["2025-01", "2025-02"].map((month) => {
      const { status, why, generation } = unitIn(result, month);
      return status === "published" ? `${why}, generation ${generation}` : status;
    });
    rows.push([when(now).slice(0, 16), result.tenants[0]?.count.asked.days ?? 0, ...became]);
  }
  return columns(["run", "days asked", "2025-01", "2025-02"], rows);
};

const retention: Example = async () => {
  const pods = ["2025-01-02T12:00", "2025-01-20T12:00", "2025-02-05T12:00"].map((end) => ended(end));
  const world = new World(cluster(pods));
  const one = [tenant("grid")];
  await world.run("2025-02-10T09:30", one);
  const memory = { forgetBefore: at("2025-01-03") };
  const later = await world.run("2025-02-11T09:30", one, { memory });
  const bare = await new World(cluster(pods)).run("2025-02-11T09:30", one, { memory });
  const rows = [
    ["the ledger of the day before", became(unitIn(later, "2025-01")), became(unitIn(later, "2025-02"))],
    ["no ledger (first run)", became(unitIn(bare, "2025-01")), became(unitIn(bare, "2025-02"))],
  ];
  const text = message(unitIn(bare, "2025-01"));
  return `${columns(["the run of 2025-02-11 has", "2025-01", "2025-02"], rows)}\n\n${text}`;
};

export const DAYS: Readonly<Record<string, Example>> = { settling, "ledger-day": ledgerDay, fortnight, retention };
