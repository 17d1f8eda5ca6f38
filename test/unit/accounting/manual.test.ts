import { describe, expect, test } from "vitest";
import { type Want, decide } from "../../../lib/accounting/publishing/decide.ts";
import { type ManualInput, refusalError, submitManual, unpin } from "../../../lib/accounting/publishing/manual.ts";
import { openState, publish } from "../../../lib/accounting/publishing/publish.ts";
import { type UnitState, readState, writeState } from "../../../lib/accounting/publishing/state.ts";
import type { Unit } from "../../../lib/accounting/model/tenant.ts";
import { MemoryStore, type ObjectStore } from "../../../lib/accounting/store/store.ts";
import { checkMessage } from "../../../lib/accounting/apel/check.ts";
import { readMessage } from "../../../lib/accounting/apel/read.ts";
import { apelKey, messageKeys } from "../../../lib/accounting/apel/replace-keys.ts";
import { parseMessage } from "../../../lib/accounting/apel/parse.ts";
import type { SummaryRecord } from "../../../lib/accounting/apel/record.ts";
import { listOutgoing, parseOutgoingKey } from "../../../lib/accounting/delivery/outgoing.ts";
import { ApelTable } from "../../support/apel-table.ts";

const NOW = Date.UTC(2026, 7, 10) / 1000;
const JULY = Date.UTC(2026, 6, 1) / 1000;
const UNIT: Unit = { site: "SITE-A", submitHost: "host-a", month: "2026-07" };
const NO_HOST: Unit = { ...UNIT, submitHost: "None" };
const WHEN = { now: NOW };

type Fields = Record<string, string | number | undefined>;
const lines = (fields: Fields) =>
  Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key}: ${value}\n`)
    .join("");

const summary = (more: Fields = {}) =>
  lines({
    Site: "SITE-A",
    Month: 7,
    Year: 2026,
    VO: "atlas",
    SubmitHost: "host-a",
    InfrastructureType: "grid",
    ServiceLevelType: "si2k",
    ServiceLevel: 2975,
    WallDuration: 7200,
    CpuDuration: 3600,
    NumberOfJobs: 3,
    Processors: 1,
    NodeCount: 1,
    EarliestEndTime: JULY,
    LatestEndTime: JULY + 500,
    ...more,
  });
const job = (more: Fields = {}) =>
  lines({
    Site: "SITE-A",
    SubmitHost: "host-a",
    MachineName: "pod-1",
    Queue: "long",
    LocalJobId: "uid-1",
    LocalUserId: "user7",
    FQAN: "/atlas/Role=production",
    VO: "atlas",
    WallDuration: 100,
    CpuDuration: 90,
    Processors: 1,
    NodeCount: 1,
    StartTime: JULY,
    EndTime: JULY + 100,
    InfrastructureDescription: "APEL-KUBERNETES",
    InfrastructureType: "grid",
    ServiceLevelType: "si2k",
    ServiceLevel: 2975,
    ...more,
  });
const sync = (more: Fields = {}) =>
  lines({ Site: "SITE-A", SubmitHost: "host-a", NumberOfJobs: 3, Month: 7, Year: 2026, ...more });

const message = (header: string, ...records: string[]) => `${header}\n${records.map((r) => `${r}%%\n`).join("")}`;
const summaries = (...records: string[]) => message("APEL-summary-job-message: v0.2", ...records);
const jobs = (...records: string[]) => message("APEL-individual-job-message: v0.3", ...records);
const syncs = (...records: string[]) => message("APEL-sync-message: v0.1", ...records);
const file = (text: string, name = "a.txt"): ManualInput => ({ name, text });

async function outgoing(store: ObjectStore) {
  const keys = await store.list("outgoing/");
  return Promise.all(keys.map(async (key) => ({ ...parseOutgoingKey(key)!, body: (await store.get(key))!.body })));
}
const bodies = async (store: ObjectStore) => (await outgoing(store)).map(({ body }) => body);
const stateOf = async (store: ObjectStore, unit = UNIT) => (await readState(store, unit, () => undefined))?.state;
const pinnedKeys = (state: UnitState | undefined) => state?.pins.flatMap((pin) => pin.records.map(apelKey)) ?? [];
/** What APEL's table holds once everything in outgoing/ was sent in its order. */
async function apel(store: ObjectStore): Promise<ApelTable> {
  const table = new ApelTable();
  for (const { body } of await outgoing(store)) table.load(body, NOW);
  return table;
}
const both = (store: ObjectStore) => ({ store, outbox: store });
const submit = async (store: ObjectStore, ...files: ManualInput[]) =>
  (await submitManual(both(store), files, WHEN)).files;

const automatic: SummaryRecord = {
  kind: "summary",
  site: "SITE-A",
  submitHost: "host-a",
  year: 2026,
  month: 7,
  vo: "cms",
  infrastructureType: "grid",
  serviceLevel: { type: "si2k", value: 2975 },
  wallDuration: 500,
  cpuDuration: 400,
  numberOfJobs: 5,
  processors: 1,
  nodeCount: 1,
  earliestEndTime: JULY,
  latestEndTime: JULY + 9,
};
const want = (...records: SummaryRecord[]): Want => ({
  unit: UNIT,
  format: "summary-0.2",
  records,
  figures: [],
  sync: 5,
  individual: { records: [], days: {} },
});
const decideFor = (state: UnitState | undefined, wanted = want(automatic), force = false) =>
  decide(wanted, state, [], { now: NOW, force, allowDecrease: false, open: false });
async function publishAutomatically(store: ObjectStore, wanted = want(automatic), force = false) {
  const held = await openState(both(store), UNIT, NOW, () => undefined);
  const decision = decideFor(held.state, wanted, force);
  if (decision.action !== "publish") return decision;
  expect(await publish(both(store), decision, held)).toBeDefined();
  return decision;
}

describe("sending", () => {
  test("a good file goes as it is, record by record, and pins its unit", async () => {
    const store = new MemoryStore();
    const text = summaries(summary(), summary({ VO: "lhcb" }));
    const [report] = await submit(store, file(text));
    expect(report).toMatchObject({ name: "a.txt", alreadySent: [], refused: [], warnings: [] });
    expect(report!.sent).toEqual(messageKeys(text).map((key, i) => ({ line: 2 + 16 * i, unit: UNIT, key })));
    expect(await bodies(store)).toEqual([text]);
    expect(await outgoing(store)).toMatchObject([{ unit: UNIT, generation: 1, kind: "summary" }]);
    expect(report!.outgoing).toEqual([{ unit: UNIT, generation: 1, keys: await store.list("outgoing/") }]);
    const state = await stateOf(store);
    expect(state).toMatchObject({ generation: 1, known: [], pins: [{ sync: null, at: NOW }] });
    expect(pinnedKeys(state)).toEqual(messageKeys(text));
  });

  test("a job reaches APEL with the fields that gridmeter has no use for, and pins nothing", async () => {
    const store = new MemoryStore();
    await submit(store, file(jobs(job())));
    expect(await bodies(store)).toEqual([jobs(job())]);
    for (const field of ["Queue: long", "LocalUserId: user7", "FQAN: /atlas", "InfrastructureDescription: APEL"])
      expect((await bodies(store))[0]).toContain(field);
    expect(await stateOf(store)).toMatchObject({ generation: 1, pins: [] });
  });

  test("jobs belong to the month of their end, one message per unit, generations apart", async () => {
    const store = new MemoryStore();
    const august = job({ LocalJobId: "uid-2", EndTime: Date.UTC(2026, 7, 1) / 1000 });
    const [report] = await submit(store, file(jobs(august, job(), job({ LocalJobId: "uid-3" }))));
    expect(report!.sent.map(({ line, unit }) => [line, unit.month])).toEqual([
      [2, "2026-08"],
      [21, "2026-07"],
      [40, "2026-07"],
    ]);
    expect((await bodies(store)).toSorted()).toEqual(
      [jobs(august), jobs(job(), job({ LocalJobId: "uid-3" }))].toSorted(),
    );
  });

  test("every kind and version goes in its own version", async () => {
    const store = new MemoryStore();
    const normalised = lines({
      Site: "SITE-A",
      Month: 7,
      Year: 2026,
      SubmitHost: "host-a",
      Infrastructure: "grid",
      WallDuration: 1,
      CpuDuration: 1,
      NormalisedWallDuration: "{HEPscore23: 15}",
      NormalisedCpuDuration: "{HEPscore23: 15}",
      NumberOfJobs: 1,
      Processors: 1,
      NodeCount: 1,
    });
    const level = { ServiceLevelType: undefined, ServiceLevel: "{HEPscore23: 15.3}" };
    const texts = [
      message("APEL-normalised-summary-message: v0.4", normalised),
      message("APEL-summary-job-message: v0.4", summary(level)),
      message("APEL-individual-job-message: v0.4", job(level)),
      syncs(sync()),
    ];
    const reports = await submit(store, ...texts.map((text, i) => file(text, `${i}`)));
    expect(reports.flatMap(({ refused }) => refused)).toEqual([]);
    expect((await outgoing(store)).map(({ kind, body }) => [kind, body])).toEqual([
      ["normalised", texts[0]],
      ["summary", texts[1]],
      ["individual", texts[2]],
      ["sync", texts[3]],
    ]);
    const state = await stateOf(store);
    expect(state!.pins.map(({ sync, records }) => [sync, records.map(({ kind }) => kind)])).toEqual([
      [null, ["normalised"]],
      [null, ["summary"]],
      [3, []],
    ]);
  });

  test("a summary's InfrastructureDescription reaches APEL, and is no part of the key", async () => {
    const described = { InfrastructureDescription: "x".repeat(100) };
    const level = { ServiceLevelType: undefined, ServiceLevel: "{hepspec: 12}" };
    for (const text of [
      summaries(summary(described)),
      message("APEL-summary-job-message: v0.4", summary({ ...level, ...described })),
    ]) {
      const store = new MemoryStore();
      const [report] = await submit(store, file(text));
      expect(report).toMatchObject({ refused: [], warnings: [] });
      expect(await bodies(store)).toEqual([text]);
      const plain = text.replace(/^InfrastructureDescription.*\n/m, "");
      expect(messageKeys(text)).toEqual(messageKeys(plain));
      // Another description is another record, which replaces the first; its pin is one.
      await submit(store, file(plain));
      expect((await apel(store)).rows).toHaveLength(1);
      expect(pinnedKeys(await stateOf(store))).toEqual(messageKeys(text));
      expect((await unpin(store, { files: [file(text)] }, WHEN)).units).toMatchObject([{ left: 0 }]);
    }
    const [report] = await submit(
      new MemoryStore(),
      file(summaries(summary({ InfrastructureDescription: "x".repeat(101) }))),
    );
    expect(report!.refused.flatMap(({ problems }) => problems.map(({ rule }) => rule))).toEqual(["string-length"]);
  });

  test.each(["v0.1", "v0.2"])(
    "individual records under the header %s go as they are, read as v0.3",
    async (version) => {
      const store = new MemoryStore();
      const old = jobs(job()).replace("v0.3", version);
      const [report] = await submit(store, file(old));
      expect(report).toMatchObject({ sent: [{ line: 2 }], refused: [], warnings: [] });
      expect(await bodies(store)).toEqual([old]);
      expect(checkMessage(old, NOW).problems).toEqual([]);
      expect(readMessage(old, NOW)).toEqual(readMessage(jobs(job()), NOW));
      expect(messageKeys(old)).toEqual(messageKeys(jobs(job())));
      expect(await submit(store, file(old))).toMatchObject([{ sent: [], alreadySent: [{ line: 2 }] }]);
    },
  );

  test("CRLF and blank lines around records are read, LF is written; the same file with LF is the same file", async () => {
    const store = new MemoryStore();
    const text = summaries(summary(), summary({ VO: "lhcb" }));
    const dos = `\r\n${text.replaceAll("%%\n", "%%\n\n").replaceAll("\n", "\r\n")}`;
    const [report] = await submit(store, file(dos));
    expect(report!.sent.map(({ line }) => line)).toEqual([3, 20]);
    expect(await bodies(store)).toEqual([text]);
    const [again] = await submit(store, file(text));
    expect(again).toMatchObject({ sent: [], alreadySent: [{ line: 2 }, { line: 18 }] });
  });

  test("more than 500 records go as several messages of one generation", async () => {
    const store = new MemoryStore();
    const text = jobs(...Array.from({ length: 501 }, (_, i) => job({ LocalJobId: `uid-${i}` })));
    const [report] = await submit(store, file(text));
    expect(report!.sent).toHaveLength(501);
    const sent = await outgoing(store);
    expect(sent.map(({ generation }) => generation)).toEqual([1, 1]);
    expect(sent.map(({ body }) => parseMessage(body).records.length)).toEqual(expect.arrayContaining([1, 500]));
  });

  test("more than 500 kB go as several messages", async () => {
    const store = new MemoryStore();
    const wide = (i: number) => job({ LocalJobId: `uid-${i}`, UpdateTime: "x".repeat(200_000) });
    await submit(store, file(jobs(wide(1), wide(2), wide(3))));
    const sent = await bodies(store);
    expect(sent).toHaveLength(2);
    for (const body of sent) expect(checkMessage(body, NOW).problems).toEqual([]);
  });

  test("without a submit host the unit is the one without, and that is said", async () => {
    const store = new MemoryStore();
    const bare = summary({ SubmitHost: undefined });
    const [report] = await submit(store, file(summaries(bare, summary({ SubmitHost: "none", VO: "lhcb" }))));
    expect(report!.sent.map(({ unit }) => unit)).toEqual([NO_HOST, NO_HOST]);
    expect(report!.warnings.map(({ line, rule }) => [line, rule])).toEqual([
      [2, "submit-host-absent"],
      [17, "submit-host-absent"],
    ]);
    expect(await bodies(store)).toEqual([summaries(bare, summary({ SubmitHost: "none", VO: "lhcb" }))]);
    expect(pinnedKeys(await stateOf(store, NO_HOST))).toHaveLength(2);
    const [again] = await submit(store, file(summaries(bare)));
    expect(again).toMatchObject({ sent: [], alreadySent: [{ line: 2 }] });
    expect((await unpin(store, { unit: NO_HOST }, WHEN)).units).toMatchObject([{ left: 0 }]);
  });

  test("an individual v0.3 record without service level goes with a warning", async () => {
    const store = new MemoryStore();
    const plain = job({ ServiceLevelType: undefined, ServiceLevel: undefined });
    const [report] = await submit(store, file(jobs(plain)));
    expect(report).toMatchObject({ sent: [{ line: 2 }], warnings: [{ line: 2, rule: "service-level-absent" }] });
    expect(await bodies(store)).toEqual([jobs(plain)]);
  });

  test("a record that replaces no published row is warned of: it counts on top", async () => {
    const store = new MemoryStore();
    await publishAutomatically(store);
    const [report] = await submit(
      store,
      file(summaries(summary({ VO: "cms" }), summary({ VO: "cms", Processors: 8 }))),
    );
    expect(report!.warnings.map(({ line, rule }) => [line, rule])).toEqual([[18, "replaces-nothing"]]);
    expect(report!.sent).toHaveLength(2);
  });
});

describe("where things go", () => {
  test("state and memory stay in the one store, messages go to the other", async () => {
    const stores = { store: new MemoryStore(), outbox: new MemoryStore() };
    await submitManual(stores, [file(summaries(summary()))], WHEN);
    expect((await stores.store.list("")).map((key) => key.split("/")[0])).toEqual(["manual", "state"]);
    expect(await bodies(stores.outbox)).toEqual([summaries(summary())]);
    expect(await stores.outbox.list("")).toHaveLength(1);
  });
});

describe("refusing", () => {
  test("a bad record is refused with its line and rule, the others of the file go as a message of their own", async () => {
    const store = new MemoryStore();
    const bad = summary({ VO: "cms", WallDuration: "3600.0" });
    const report = await submitManual(
      both(store),
      [file(summaries(summary(), bad, summary({ VO: "lhcb" })), "x.apel")],
      WHEN,
    );
    const [first] = report.files;
    expect(first!.refused).toEqual([
      { line: 18, problems: [{ line: 26, rule: "integer-digits", reason: expect.stringContaining('"3600.0"') }] },
    ]);
    expect(await bodies(store)).toEqual([summaries(summary(), summary({ VO: "lhcb" }))]);
    const error = refusalError(report);
    expect(error).toMatchObject({ code: "message_invalid", exit: 2 });
    expect(error!.message).toMatch(/^x\.apel: line 26: .*integer-digits.*2 others were/);
  });

  test("nothing refused is no error", async () => {
    expect(
      refusalError(await submitManual(both(new MemoryStore()), [file(summaries(summary()))], WHEN)),
    ).toBeUndefined();
  });

  const oneBad: [string, string, (good: string, bad: string) => string][] = [
    ["an unknown key", "key-unknown", (good, bad) => summaries(good, `${bad}Colour: blue\n`)],
    ["a character that is not ASCII", "not-ascii", (good, bad) => summaries(good, bad.replace("cms", "cmß"))],
    [
      "a line break of the server's",
      "line-break",
      (good, bad) => summaries(good, bad.replace("cms", "cms\u000BVO: x")),
    ],
    ["a blank line inside", "blank-line", (good, bad) => summaries(good, bad.replace("VO", "\nVO"))],
    ["no colon", "no-colon", (good, bad) => summaries(good, `${bad}what\n`)],
    ["no %% at the end of the file", "record-not-ended", (good, bad) => summaries(good) + bad],
    ["two records without %% between", "key-duplicated", (good, bad) => summaries(good, bad + summary())],
    [
      "a month in the future",
      "month-in-future",
      (good, bad) => summaries(good, bad.replace("Year: 2026", "Year: 2027")),
    ],
    [
      "an integer that cannot be kept exactly",
      "int64",
      (good, bad) => summaries(good, bad.replace("7200", "9007199254740993")),
    ],
    ["the key of another record", "record-duplicated", (good) => summaries(good, summary({ WallDuration: 1 }))],
  ];
  test.each(oneBad)("%s costs that record only", async (_, rule, make) => {
    const store = new MemoryStore();
    const [report] = await submit(store, file(make(summary(), summary({ VO: "cms" }))));
    expect(report!.refused.map(({ line }) => line)).toEqual([18]);
    expect(report!.refused[0]!.problems.map((problem) => problem.rule)).toContain(rule);
    expect(report!.sent.map(({ line }) => line)).toEqual([2]);
    expect(await bodies(store)).toEqual([summaries(summary())]);
  });

  const broken: [string, string, string][] = [
    ["an empty file", "empty-message", ""],
    ["an unknown header", "header-unknown", message("APEL-summary-job-message: v9", summary())],
    [
      "a header that means something else at APEL",
      "header-normalised-trap",
      message("APEL-summary-job-message: v0.3", summary()),
    ],
    ["no header", "header-unknown", `${summary()}%%\n`],
    ["no record", "no-records", "APEL-summary-job-message: v0.2\n%%\n"],
    ["old line ends", "line-break", summaries(summary()).replaceAll("\n", "\r")],
    ["an odd character between records", "line-break", `${summaries(summary())}\u000B\n${summary({ VO: "cms" })}%%\n`],
    ["two messages in one file", "key-unknown", summaries(summary()) + syncs(sync())],
  ];
  test.each(broken)("%s refuses the whole file", async (_, rule, text) => {
    const store = new MemoryStore();
    const [report] = await submit(store, file(text));
    expect(report!.refused).toHaveLength(1);
    expect(report!.refused[0]!.problems.map((problem) => problem.rule)).toContain(rule);
    expect(report).toMatchObject({ sent: [], alreadySent: [] });
    expect(await store.list("")).toEqual([]);
  });

  test("a refused file does not keep another one from being sent", async () => {
    const store = new MemoryStore();
    const reports = await submit(store, file("what is this\n"), file(summaries(summary()), "b.txt"));
    expect(reports.map(({ name, sent, refused }) => [name, sent.length, refused.length])).toEqual([
      ["a.txt", 0, 1],
      ["b.txt", 1, 0],
    ]);
  });
});

describe("each once", () => {
  test("the same file again, and the same record in another file, are reported and not sent", async () => {
    const store = new MemoryStore();
    const text = summaries(summary());
    await submit(store, file(text));
    const before = await bodies(store);
    const state = await stateOf(store);
    const [again, other] = await submit(
      store,
      file(text),
      file(summaries(summary(), summary({ VO: "lhcb" })), "b.txt"),
    );
    expect(again).toMatchObject({ sent: [], alreadySent: [{ line: 2, unit: UNIT }], refused: [], outgoing: [] });
    expect(other).toMatchObject({ sent: [{ line: 18 }], alreadySent: [{ line: 2 }] });
    expect(await bodies(store)).toEqual([...before, summaries(summary({ VO: "lhcb" }))]);
    expect(state!.generation).toBe(1);
    expect(pinnedKeys(await stateOf(store))).toHaveLength(2);
  });

  test("nothing at all is stored by the same file again", async () => {
    const store = new MemoryStore();
    const text = jobs(job(), job({ LocalJobId: "uid-2" }));
    await submit(store, file(text));
    const before = await Promise.all((await store.list("")).map((key) => store.get(key)));
    await submit(store, file(text));
    expect(await Promise.all((await store.list("")).map((key) => store.get(key)))).toEqual(before);
  });

  test("fields in another order are the same record", async () => {
    const store = new MemoryStore();
    await submit(store, file(summaries(summary())));
    const turned = `${summary().trimEnd().split("\n").toReversed().join("\n")}\n`;
    expect((await submit(store, file(summaries(turned))))[0]).toMatchObject({ sent: [], alreadySent: [{ line: 2 }] });
  });

  test("a record twice in one file goes once", async () => {
    const store = new MemoryStore();
    const [report] = await submit(store, file(summaries(summary(), summary())));
    expect(report).toMatchObject({ sent: [{ line: 2 }], alreadySent: [{ line: 18 }], refused: [] });
    expect(await bodies(store)).toEqual([summaries(summary())]);
  });

  test("a correction replaces, and so does going back to the first version", async () => {
    const store = new MemoryStore();
    const [a, b] = [summaries(summary()), summaries(summary({ NumberOfJobs: 9 }))];
    for (const text of [a, b, a]) expect((await submit(store, file(text)))[0]!.sent).toHaveLength(1);
    expect((await submit(store, file(a)))[0]).toMatchObject({ sent: [], alreadySent: [{ line: 2 }] });
    expect((await outgoing(store)).map(({ generation, body }) => [generation, body])).toEqual([
      [1, a],
      [2, b],
      [3, a],
    ]);
    const state = await stateOf(store);
    expect(state!.pins.flatMap(({ records }) => records.map(({ numberOfJobs }) => numberOfJobs))).toEqual([3]);
  });

  test("a record over which a later publication went by --force may be sent again", async () => {
    const store = new MemoryStore();
    const text = summaries(summary());
    await submit(store, file(text));
    await publishAutomatically(store, want(automatic), true);
    expect((await submit(store, file(text)))[0]!.sent).toHaveLength(1);
    expect((await submit(store, file(text)))[0]!.alreadySent).toHaveLength(1);
  });

  test("a damaged memory is put aside, said, and the record goes once more", async () => {
    const store = new MemoryStore();
    const text = summaries(summary());
    await submit(store, file(text));
    const [key] = await store.list("manual/");
    await store.put(key!, "{");
    const damages: string[] = [];
    const options = { ...WHEN, damaged: (damage: { key: string }) => damages.push(damage.key) };
    const { files } = await submitManual(both(store), [file(text)], options);
    expect(files[0]!.sent).toHaveLength(1);
    expect(new Set(damages)).toEqual(new Set([key]));
    expect((await submit(store, file(text)))[0]!.alreadySent).toHaveLength(1);
  });
});

describe("pins", () => {
  test("hold up automatic runs, except with --force", async () => {
    const store = new MemoryStore();
    await submit(store, file(summaries(summary())));
    const refused = await publishAutomatically(store);
    expect(refused).toMatchObject({ action: "refuse", error: { code: "pinned_refused" } });
    expect(await publishAutomatically(store, want(automatic), true)).toMatchObject({ action: "publish" });
  });

  test("a sync record alone holds them up too; jobs do not", async () => {
    const store = new MemoryStore();
    await submit(store, file(jobs(job())));
    expect(await publishAutomatically(store)).toMatchObject({ action: "publish" });
    await submit(store, file(syncs(sync({ NumberOfJobs: 77 }))));
    expect((await stateOf(store))!.pins).toMatchObject([{ records: [], sync: 77 }]);
    expect(await publishAutomatically(store)).toMatchObject({ action: "refuse", error: { code: "pinned_refused" } });
    const lifted = await unpin(store, { files: [file(syncs(sync({ NumberOfJobs: 77 })))] }, WHEN);
    expect(lifted.units).toMatchObject([{ unit: UNIT, left: 0 }]);
    // The same figures as before, yet APEL holds 77 jobs in its sync record, so they go out again.
    expect(await publishAutomatically(store)).toMatchObject({ action: "publish", why: "changed" });
  });

  test("lifted by unit, the next publication zeroes what it does not cover", async () => {
    const store = new MemoryStore();
    await submit(store, file(summaries(summary(), summary({ VO: "cms" }))), file(syncs(sync()), "s.txt"));
    const report = await unpin(store, { unit: UNIT }, WHEN);
    expect(report.nothing).toEqual([]);
    expect(report.units).toMatchObject([{ unit: UNIT, left: 0 }]);
    expect(report.units[0]!.lifted).toHaveLength(3);
    expect(await stateOf(store)).toMatchObject({ pins: [], known: [{ vo: "atlas" }, { vo: "cms" }] });
    const decision = await publishAutomatically(store);
    expect(decision.action).toBe("publish");
    const rows = (await apel(store)).rows.filter((row) => row.kind === "summary");
    expect(rows.map((row) => [row.vo, row.numberOfJobs])).toEqual([
      ["atlas", 0],
      ["cms", 5],
    ]);
    expect((await stateOf(store))!.known).toEqual([]);
  });

  test("the published figures go out again after hand-written ones replaced them", async () => {
    const store = new MemoryStore();
    await publishAutomatically(store);
    await submit(store, file(summaries(summary({ VO: "cms", NumberOfJobs: 99 }))));
    await unpin(store, { unit: UNIT }, WHEN);
    expect(await publishAutomatically(store)).toMatchObject({ action: "publish", why: "changed" });
    expect((await apel(store)).totals("2026-07").get("SITE-A")).toMatchObject({ jobs: 5, syncJobs: 5 });
    expect(await publishAutomatically(store)).toEqual({ action: "unchanged" });
  });

  test("lifted by file, those of other files stay", async () => {
    const store = new MemoryStore();
    const [a, b] = [file(summaries(summary())), file(summaries(summary({ VO: "lhcb" })), "b.txt")];
    await submit(store, a, b);
    const dos = { ...a, text: a.text.replaceAll("\n", "\r\n") };
    expect(await unpin(store, { files: [dos] }, WHEN)).toMatchObject({
      units: [{ lifted: messageKeys(a.text), left: 1 }],
    });
    expect(pinnedKeys(await stateOf(store))).toEqual(messageKeys(b.text));
    expect(decideFor(await stateOf(store))).toMatchObject({ action: "refuse" });
    expect(await unpin(store, { files: [a] }, WHEN)).toEqual({ units: [], nothing: ["a.txt"] });
    expect(await unpin(store, { files: [b] }, WHEN)).toMatchObject({ units: [{ left: 0 }], nothing: [] });
    expect(decideFor(await stateOf(store))).toMatchObject({ action: "publish" });
  });

  test("lifted by a file that was corrected and sent again, all its records are", async () => {
    const store = new MemoryStore();
    await submit(store, file(summaries(summary(), summary({ VO: "cms", Year: "MMXXVI" }))));
    const mended = file(summaries(summary(), summary({ VO: "cms" })));
    expect((await submit(store, mended))[0]).toMatchObject({ alreadySent: [{ line: 2 }], sent: [{ line: 18 }] });
    expect(await unpin(store, { files: [mended] }, WHEN)).toMatchObject({ units: [{ left: 0 }] });
  });

  test("a file that was replaced by another lifts nothing", async () => {
    const store = new MemoryStore();
    const [a, b] = [file(summaries(summary())), file(summaries(summary({ NumberOfJobs: 9 })))];
    await submit(store, a, b);
    expect(await unpin(store, { files: [a] }, WHEN)).toEqual({ units: [], nothing: ["a.txt"] });
    expect(await unpin(store, { files: [b] }, WHEN)).toMatchObject({ units: [{ left: 0 }] });
  });

  test("after lifting, the same file may be sent again", async () => {
    const store = new MemoryStore();
    const a = file(summaries(summary()));
    await submit(store, a);
    await unpin(store, { files: [a] }, WHEN);
    expect((await submit(store, a))[0]!.sent).toHaveLength(1);
    expect(pinnedKeys(await stateOf(store))).toEqual(messageKeys(a.text));
  });

  test("lifting where nothing is pinned changes nothing", async () => {
    const store = new MemoryStore();
    expect(await unpin(store, { unit: UNIT }, WHEN)).toEqual({ units: [], nothing: [] });
    expect(await unpin(store, { files: [file("no message")] }, WHEN)).toEqual({ units: [], nothing: ["a.txt"] });
    expect(await store.list("")).toEqual([]);
  });

  test("a lost state is found again from all generations, hand-written ones among them", async () => {
    const store = new MemoryStore();
    await publishAutomatically(store);
    await submit(store, file(summaries(summary())));
    for (const key of await store.list("state/")) await store.remove(key);
    const { state } = await openState(both(store), UNIT, NOW, () => undefined);
    expect(state.generation).toBe(2);
    expect(state.known.map(({ vo }) => vo)).toEqual(["cms", "atlas"]);
    // Its pin is lost with it, so the record is sent and pinned again rather than taken for sent.
    expect((await submit(store, file(summaries(summary()))))[0]!.sent).toHaveLength(1);
  });
});

/** A store that does something before each call; throwing is a kill before it, since nothing of the call happens. */
class Wrapped implements ObjectStore {
  calls = 0;
  readonly below: ObjectStore;
  readonly before: (call: number, what: string, key: string) => Promise<void> | void;
  constructor(below: ObjectStore, before: (call: number, what: string, key: string) => Promise<void> | void) {
    this.below = below;
    this.before = before;
  }
  async #told(what: string, key: string) {
    this.calls += 1;
    await this.before(this.calls, what, key);
  }
  async get(key: string) {
    await this.#told("get", key);
    return this.below.get(key);
  }
  async put(...args: Parameters<ObjectStore["put"]>) {
    await this.#told("put", args[0]);
    return this.below.put(...args);
  }
  async list(prefix: string) {
    await this.#told("list", prefix);
    return this.below.list(prefix);
  }
  async remove(key: string) {
    await this.#told("remove", key);
    return this.below.remove(key);
  }
}

describe("other runs and kills", () => {
  const change = async (store: ObjectStore) => {
    const { state, version } = await openState(both(store), UNIT, NOW, () => undefined);
    expect(await writeState(store, { ...state, generation: state.generation + 1 }, version)).toBe("stored");
  };

  test.each([1, 4])(
    "a state changed %i times in between is read again, and no generation is given twice",
    async (times) => {
      const below = new MemoryStore();
      let left = times;
      const store = new Wrapped(below, async (_, what, key) => {
        if (what === "put" && key.startsWith("state/") && left > 0) {
          left -= 1;
          await change(below);
        }
      });
      const [report] = await submit(store, file(summaries(summary())));
      expect(report!.outgoing).toMatchObject([{ generation: times + 1 }]);
      expect(await stateOf(below)).toMatchObject({ generation: times + 1, pins: [{ at: NOW }] });
      left = times;
      expect((await unpin(store, { unit: UNIT }, WHEN)).units).toMatchObject([{ left: 0 }]);
      expect(await stateOf(below)).toMatchObject({ generation: 2 * times + 1, pins: [] });
    },
  );

  test("a state that never holds still is an error, and nothing is sent or lifted", async () => {
    const below = new MemoryStore();
    const store = new Wrapped(below, async (_, what, key) => {
      if (what === "put" && key.startsWith("state/")) await change(below);
    });
    await expect(submit(store, file(summaries(summary())))).rejects.toMatchObject({ code: "store_conflict" });
    expect(await below.list("outgoing/")).toEqual([]);
    expect(await below.list("manual/")).toEqual([]);
    await submit(below, file(summaries(summary())));
    await expect(unpin(store, { unit: UNIT }, WHEN)).rejects.toMatchObject({ code: "store_conflict" });
    expect(pinnedKeys(await stateOf(below))).toHaveLength(1);
  });

  test("an older run that is late does not undo what a newer one remembers", async () => {
    const below = new MemoryStore();
    const [a, b] = [file(summaries(summary())), file(summaries(summary({ NumberOfJobs: 9 })))];
    let newer = true;
    const store = new Wrapped(below, async (_, what, key) => {
      if (what !== "put" || !key.startsWith("manual/") || !newer) return;
      newer = false;
      await submit(below, b);
    });
    await submit(store, a);
    expect((await submit(below, b))[0]).toMatchObject({ sent: [], alreadySent: [{ line: 2 }] });
    expect((await submit(below, a))[0]!.sent).toHaveLength(1);
  });

  const killed = new Error("killed");
  const killAt = (n: number, below: ObjectStore) =>
    new Wrapped(below, (call) => {
      if (call >= n) throw killed;
    });
  const good = [
    file(
      summaries(
        summary(),
        summary({ VO: "cms", WallDuration: "x" }),
        summary({ VO: "lhcb" }),
        summary({ SubmitHost: "host-b" }),
      ),
    ),
    file(syncs(sync()), "s.txt"),
    file(jobs(job(), job({ LocalJobId: "uid-2" })), "j.txt"),
  ];
  const goodKeys = good
    .flatMap(({ text }) => messageKeys(text))
    .filter((key) => !key.includes("cms"))
    .toSorted();

  test("killed before any call to the store, a second run completes: all sent, all pinned, nothing lost", async () => {
    const whole = new Wrapped(new MemoryStore(), () => undefined);
    await submit(whole, ...good);
    expect(whole.calls).toBeGreaterThan(30);
    for (let n = 1; n <= whole.calls; n += 1) {
      const below = new MemoryStore();
      await expect(submit(killAt(n, below), ...good)).rejects.toBe(killed);
      // What is remembered as sent is stored: remembering comes last.
      const remembered = (await below.list("manual/")).length;
      expect(new Set((await bodies(below)).flatMap(messageKeys)).size, `call ${n}`).toBeGreaterThanOrEqual(remembered);
      const reports = await submit(below, ...good);
      const done = reports.flatMap(({ sent, alreadySent }) => [...sent, ...alreadySent]).map(({ key }) => key);
      expect(done.toSorted(), `call ${n}`).toEqual(goodKeys);
      expect([...new Set((await bodies(below)).flatMap(messageKeys))].toSorted(), `call ${n}`).toEqual(goodKeys);
      expect(pinnedKeys(await stateOf(below)), `call ${n}`).toHaveLength(2);
      expect(
        (await stateOf(below))!.pins.map(({ sync }) => sync),
        `call ${n}`,
      ).toEqual([null, 3]);
      expect(pinnedKeys(await stateOf(below, { ...UNIT, submitHost: "host-b" })), `call ${n}`).toHaveLength(1);
      for (const { unit, generations } of (await listOutgoing(below)).units)
        expect(Math.max(...generations.map(({ generation }) => generation))).toBe(
          (await stateOf(below, unit))!.generation,
        );
      const third = await submit(below, ...good);
      expect(
        third.flatMap(({ sent }) => sent),
        `call ${n}`,
      ).toEqual([]);
    }
  });

  test("killed before any call, lifting is done or not done, and a second one completes it", async () => {
    for (let n = 1; ; n += 1) {
      const below = new MemoryStore();
      await publishAutomatically(below);
      await submit(below, good[0]!);
      const store = killAt(n, below);
      const first = await unpin(store, { files: [good[0]!] }, WHEN).catch((thrown: unknown) => thrown);
      const pinned = pinnedKeys(await stateOf(below)).length;
      expect([0, 2]).toContain(pinned);
      expect((await stateOf(below))!.known).toHaveLength(2 - pinned);
      await unpin(below, { files: [good[0]!] }, WHEN);
      expect(await stateOf(below)).toMatchObject({ pins: [] });
      expect(await publishAutomatically(below)).toMatchObject({ action: "publish" });
      expect((await apel(below)).totals("2026-07").get("SITE-A")).toMatchObject({ jobs: 5 + 3 });
      if (first !== killed) break;
      expect(n).toBeLessThan(20);
    }
  });

  test("what was sent is what a reader of the message gets", async () => {
    const store = new MemoryStore();
    await submit(store, ...good);
    const read = (await bodies(store)).flatMap((body) => readMessage(body, NOW)).map(apelKey);
    expect(read.toSorted()).toEqual(goodKeys);
  });
});
