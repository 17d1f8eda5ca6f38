import { describe, expect, test } from "vitest";
import { parseMessage } from "../../../lib/accounting/apel/parse.ts";
import { writeMessages } from "../../../lib/accounting/apel/write.ts";
import type { ApelRecord } from "../../../lib/accounting/apel/record.ts";
import type { CountedMonth } from "../../../lib/accounting/counting/count-month.ts";
import type { Tenant } from "../../../lib/accounting/model/tenant.ts";
import { MemoryStore, type ObjectStore } from "../../../lib/accounting/store/store.ts";
import { individualRecord } from "../../../lib/accounting/publishing/jobs.ts";
import { JobList } from "../../../lib/accounting/counting/jobs.ts";
import { publishMonth } from "../../../lib/accounting/publishing/publish.ts";
import { readStates } from "../../../lib/accounting/publishing/state.ts";
import { type Job, toDays } from "../../../lib/accounting/counting/usage.ts";
import { Random } from "../../simulator/index.ts";
import { at, became, cluster, DAY, HOST, message, SITE, tenant, texts, World } from "./world.ts";

const MONTH = "2025-01";
const FROM = at("2025-01-01");
const NOW = at("2025-02-10");
const DAYS = ["2025-01-01", "2025-01-02", "2025-01-03"];
const OPTIONS = { now: NOW, force: false, allowDecrease: false, open: () => true, damaged: () => undefined };

const GRID = tenant("grid", { format: "individual-0.4", vo: "ops" });
const SECOND = tenant("second", { format: "individual-0.4", vo: "dteam" });

/** Jobs of the three days in no order, several of which end in the same second. */
function jobsOf(name: string, count: number): Job[] {
  const random = new Random(`jobs of ${name}`);
  return Array.from({ length: count }, () => {
    const end = FROM + 600 * random.int(0, 3 * 144 - 1);
    const measured = random.int(0, 1) === 0 ? {} : { memoryUsed: random.int(1, 9999) };
    return {
      uid: random.uid(),
      pod: `job-${random.suffix()}`,
      vo: null,
      start: end - random.int(0, 9000),
      end,
      milliCores: 500 * random.int(1, 9),
      memoryRequest: 2 ** 20,
      ...measured,
    };
  });
}

/** A month as it is counted. @param settled days that are */
function counted(of: Tenant, jobs: readonly Job[], settled: readonly string[] = DAYS): CountedMonth {
  const days = toDays(
    jobs.map(({ vo: _own, ...pod }) => ({ ...pod, succeeded: true })),
    DAYS,
    { defaultMilliCores: undefined, gapsOf: () => [] },
  );
  const dayOf = (job: Job): string => DAYS[Math.floor((job.end - FROM) / DAY)] ?? "";
  return {
    tenant: of,
    period: { month: MONTH, from: FROM, to: FROM + 3 * DAY, days: DAYS },
    days: days.map(({ usage }) => usage),
    settled: new Set(settled),
    jobs: new Map(DAYS.map((day) => [day, new JobList(jobs.filter((job) => dayOf(job) === day))])),
    warnings: [],
    gaps: [],
    empty: false,
  };
}

const sync = (numberOfJobs: number): ApelRecord => ({
  kind: "sync",
  site: SITE,
  submitHost: HOST,
  numberOfJobs,
  year: 2025,
  month: 1,
});

async function stored(store: ObjectStore): Promise<string[]> {
  const keys = await store.list("outgoing/");
  return Promise.all(keys.map(async (key) => (await store.get(key))!.body));
}

describe("messages of single jobs, made one after the other", () => {
  const first = jobsOf("grid", 900);
  const second = jobsOf("second", 500);

  test("are those that would be written of all of them at once, however often they are asked for", async () => {
    const store = new MemoryStore();
    const [outcome] = await publishMonth(
      { store, outbox: store },
      MONTH,
      [counted(GRID, first), counted(SECOND, second)],
      OPTIONS,
    );
    const records = [
      ...first.map((job) => individualRecord(GRID, job)),
      ...second.map((job) => individualRecord(SECOND, job)),
    ];
    const expected = writeMessages([...records, sync(1400)], "individual-0.4").map(({ body }) => body);
    expect(expected).toHaveLength(4);
    const [jobs, last] = [expected.slice(0, 3), expected.slice(3)];
    expect(became(outcome!)).toBe("published");
    expect(texts(outcome!)).toEqual([...last, ...jobs]);
    expect(texts(outcome!)).toEqual([...last, ...jobs]);
    expect((await stored(store)).toSorted()).toEqual(expected.toSorted());
  });

  test("settled days only, each day once", async () => {
    const store = new MemoryStore();
    const run = async (settled: readonly string[]) =>
      (await publishMonth({ store, outbox: store }, MONTH, [counted(GRID, first, settled)], OPTIONS))[0]!;
    const ids = (outcome: Awaited<ReturnType<typeof run>>) =>
      texts(outcome)
        .flatMap((text) => parseMessage(text).records)
        .flatMap(({ fields }) => fields.get("LocalJobId")?.value ?? [])
        .toSorted();
    const of = (...days: readonly number[]) =>
      first.filter(({ end }) => days.includes(Math.floor((end - FROM) / DAY))).map(({ uid }) => uid);
    expect(ids(await run(["2025-01-02"]))).toEqual(of(1).toSorted());
    expect(ids(await run(DAYS))).toEqual(of(0, 2).toSorted());
    expect(became(await run(DAYS))).toBe("unchanged");
  });

  const last = (jobs: readonly Job[]): Job => jobs.reduce((a, b) => (b.end > a.end ? b : a));
  const bad: [string, (job: Job) => Job, string][] = [
    ["a name that is no ASCII", (job) => ({ ...job, pod: "jöb" }), "is not ASCII"],
    // It can be written, and only the check of the whole message finds it.
    ["a duration that does not fit", (job) => ({ ...job, start: 0, milliCores: 64_000 }), "WallDuration"],
  ];
  test.each(bad)("%s in the last of them, and nothing at all is stored", async (_what, spoil, reason) => {
    const late = last(first);
    const store = new MemoryStore();
    const jobs = first.map((job) => (job === late ? spoil(job) : job));
    const [outcome] = await publishMonth({ store, outbox: store }, MONTH, [counted(GRID, jobs)], OPTIONS);
    expect(became(outcome!)).toBe("message_invalid");
    expect(message(outcome!)).toContain(reason);
    expect(await store.list("")).toEqual([]);
  });

  test("one job of two tenants is refused, and nothing at all is stored", async () => {
    const store = new MemoryStore();
    const months = [counted(GRID, first), counted(SECOND, [...second, last(first)])];
    const [outcome] = await publishMonth({ store, outbox: store }, MONTH, months, OPTIONS);
    expect(became(outcome!)).toBe("message_invalid");
    expect(message(outcome!)).toContain("two records have one APEL key");
    expect(await store.list("")).toEqual([]);
  });

  class Killed extends Error {}

  test("killed before each call to the store, then run again: nothing is lost, nothing counts twice", async () => {
    const quiet = cluster([], { from: at("2025-01-01"), to: at("2025-01-01T01:00") });
    const all = [...first, ...second].map(({ uid }) => uid).toSorted();
    const published = (world: World) =>
      world.table.rows.flatMap((row) => (row.kind === "individual" ? [row.localJobId] : [])).toSorted();
    let kills = 0;
    for (let last = 1, dead = true; dead; last += 1) {
      const world = new World(quiet);
      let calls = 0;
      dead = false;
      const step = <T>(call: () => Promise<T>): Promise<T> => {
        calls += 1;
        dead ||= calls >= last;
        return dead ? Promise.reject(new Killed()) : call();
      };
      const store: ObjectStore = {
        get: (key) => step(() => world.store.get(key)),
        put: (...args) => step(() => world.store.put(...args)),
        list: (prefix) => step(() => world.store.list(prefix)),
        remove: (key) => step(() => world.store.remove(key)),
      };
      const months = [counted(GRID, first), counted(SECOND, second)];
      await publishMonth({ store, outbox: store }, MONTH, months, OPTIONS).catch((error: unknown) => {
        if (!(error instanceof Killed)) throw error;
      });
      kills += dead ? 1 : 0;
      await world.deliver(NOW);
      expect(world.shown(MONTH).jobs).toBeLessThanOrEqual(all.length);
      expect(world.shown(MONTH).syncJobs).toBeLessThanOrEqual(all.length);
      const stores = { store: world.store, outbox: world.store };
      const [again] = await publishMonth(stores, MONTH, months, { ...OPTIONS, now: NOW + DAY });
      expect(["published", "unchanged"]).toContain(became(again!));
      await world.deliver(NOW + DAY);
      expect(published(world)).toEqual(all);
      expect(world.shown(MONTH).syncJobs).toBe(all.length);
      const [held] = await readStates(world.store, MONTH, () => undefined);
      expect(held?.state.pending).toBeUndefined();
      const [third] = await publishMonth(stores, MONTH, months, { ...OPTIONS, now: NOW + DAY });
      expect(became(third!)).toBe("unchanged");
    }
    expect(kills).toBeGreaterThan(7);
  });
});
