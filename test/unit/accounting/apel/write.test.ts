import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { GridmeterError } from "../../../../lib/shared/errors.ts";
import { checkMessage } from "../../../../lib/accounting/apel/check.ts";
import { readMessage } from "../../../../lib/accounting/apel/read.ts";
import { apelKey, messageKeys } from "../../../../lib/accounting/apel/replace-keys.ts";
import type { ApelRecord, IndividualRecord } from "../../../../lib/accounting/apel/record.ts";
import type { MessageFormat } from "../../../../lib/accounting/model/tenant.ts";
import { checkGeneration } from "../../../../lib/accounting/delivery/outgoing.ts";
import { jobMessages, writeMessages } from "../../../../lib/accounting/apel/write.ts";
import {
  INDIVIDUAL,
  NORMALISED,
  NOW,
  SUMMARY,
  SYNC,
  individual,
  normalised,
  record,
  serviceLevel,
  summary,
  sync,
} from "./arbitrary.ts";

const FORMATS: MessageFormat[] = ["summary-0.2", "summary-0.4", "normalised-0.4", "individual-0.3", "individual-0.4"];

const { serviceLevel: _level, ...BARE } = INDIVIDUAL;

const unique = <T extends ApelRecord>(of: fc.Arbitrary<T>, maxLength = 8) =>
  fc.uniqueArray(of, { selector: apelKey, minLength: 1, maxLength });
const body = (records: ApelRecord[], format: MessageFormat) =>
  writeMessages(records, format)
    .map((m) => m.body)
    .join("");
const byKey = (records: readonly ApelRecord[]) => new Map(records.map((r) => [apelKey(r), r]));
const errorOf = (action: () => unknown) => {
  try {
    action();
  } catch (thrown) {
    if (thrown instanceof GridmeterError) return thrown;
    throw thrown;
  }
  throw new Error("nothing was thrown");
};

describe("round trip: what is written reads back as it was", () => {
  const cases: [string, fc.Arbitrary<ApelRecord>, MessageFormat][] = [
    ["summary v0.2", summary, "summary-0.2"],
    ["summary v0.4", summary, "summary-0.4"],
    ["normalised v0.4", normalised, "normalised-0.4"],
    ["individual v0.3", individual, "individual-0.3"],
    [
      "individual v0.4",
      fc.tuple(individual, serviceLevel).map(([r, serviceLevel]) => ({ ...r, serviceLevel })),
      "individual-0.4",
    ],
    ["sync v0.1", sync, "summary-0.2"],
  ];
  test.each(cases)("%s", (_name, arbitrary, format) => {
    fc.assert(
      fc.property(unique(arbitrary), (records) => {
        const messages = writeMessages(records, format);
        const read = messages.flatMap((message) => readMessage(message.body, NOW));
        expect(byKey(read)).toEqual(byKey(records));
        expect(messages.flatMap((m) => messageKeys(m.body))).toEqual(read.map(apelKey));
      }),
    );
  });
});

test("the order of the records given changes nothing, and kinds never share a message", () => {
  fc.assert(
    fc.property(unique(record), fc.constantFrom(...FORMATS.slice(0, 4)), (records, format) => {
      const messages = writeMessages(records, format);
      expect(writeMessages(records.toReversed(), format)).toEqual(messages);
      for (const message of messages) {
        expect(readMessage(message.body, NOW).every((r) => r.kind === message.kind)).toBe(true);
      }
    }),
  );
});

test("summary v0.2 in the project's field order", () => {
  expect(body([SUMMARY, SYNC], "summary-0.2")).toBe(`APEL-summary-job-message: v0.2
Site: UNI-TEST
Month: 11
Year: 2026
VO: atlas
SubmitHost: k8s.example.org
InfrastructureType: grid
ServiceLevelType: si2k
ServiceLevel: 2975
WallDuration: 7200
CpuDuration: 7200
NumberOfJobs: 3
Processors: 0
NodeCount: 0
EarliestEndTime: 1793491210
LatestEndTime: 1793495200
%%
APEL-sync-message: v0.1
Site: UNI-TEST
SubmitHost: k8s.example.org
NumberOfJobs: 3
Month: 11
Year: 2026
%%
`);
});

test("v0.4: ServiceLevel as a dict with an unquoted key and no ServiceLevelType line", () => {
  const text = body([{ ...SUMMARY, serviceLevel: { type: "hepscore23", value: 15.3 } }], "summary-0.4");
  expect(text).toContain("APEL-summary-job-message: v0.4\n");
  expect(text).toContain("\nServiceLevel: {HEPscore23: 15.3}\n");
  expect(text).not.toContain("ServiceLevelType");
});

test("normalised v0.4: Infrastructure, durations as dicts, no ServiceLevel", () => {
  const text = body([NORMALISED], "normalised-0.4");
  expect(text).toContain("APEL-normalised-summary-message: v0.4\n");
  expect(text).toContain("\nInfrastructure: grid\n");
  expect(text).toContain("\nNormalisedWallDuration: {HEPscore23: 50}\nNormalisedCpuDuration: {HEPscore23: 40}\n");
  expect(text).not.toMatch(/InfrastructureType|ServiceLevel/);
});

test("individual v0.3 writes type and value, v0.4 the dict", () => {
  expect(body([INDIVIDUAL], "individual-0.3")).toContain("\nServiceLevelType: hepscore23\nServiceLevel: 15.3\n%%");
  expect(body([INDIVIDUAL], "individual-0.4")).toContain("\nServiceLevel: {HEPscore23: 15.3}\n%%");
});

test.each([
  [2974.9999999999995, "2975"],
  [15.3, "15.3"],
  [11.9 * 250, "2975"],
  [0.1 + 0.2, "0.3"],
  [1 / 3, "0.333"],
  [100, "100"],
])("ServiceLevel %d is written with at most 3 decimals: %s", (value, text) => {
  expect(body([{ ...SUMMARY, serviceLevel: { type: "si2k", value } }], "summary-0.2")).toContain(
    `\nServiceLevel: ${text}\n`,
  );
});

test("at most 500 records a file", () => {
  const records = Array.from({ length: 1201 }, (_, i) => ({ ...SUMMARY, vo: `vo${i}` }));
  const counts = writeMessages(records, "summary-0.2").map((m) => messageKeys(m.body).length);
  expect(counts).toEqual([500, 500, 201]);
});

test("at most 500 kB a file", () => {
  const wide = "x".repeat(250);
  const records = Array.from({ length: 500 }, (_, i) => ({
    ...INDIVIDUAL,
    site: wide,
    vo: wide,
    submitHost: wide,
    machineName: wide,
    localJobId: `${i}`,
  }));
  const messages = writeMessages(records, "individual-0.3");
  expect(messages).toHaveLength(2);
  for (const { body } of messages) expect(body.length).toBeLessThanOrEqual(500_000);
  expect(messages.flatMap((m) => messageKeys(m.body))).toHaveLength(500);
});

describe("single jobs, one after the other", () => {
  const inOrder = (jobs: readonly IndividualRecord[]) => jobs.toSorted((a, b) => (apelKey(a) < apelKey(b) ? -1 : 1));
  const site = INDIVIDUAL.site;

  test("give the messages that all of them at once give", () => {
    const some = fc.uniqueArray(
      individual.map((job) => ({ ...job, site, endTime: 1_700_000_000 + (job.endTime % 9) })),
      { selector: apelKey, maxLength: 20 },
    );
    fc.assert(
      fc.property(some, (drawn) => {
        const jobs = drawn.map((job) => ({ ...job, startTime: job.endTime }));
        expect([...jobMessages(inOrder(jobs), "individual-0.3")]).toEqual(writeMessages(jobs, "individual-0.3"));
      }),
    );
  });

  test("in as many files", () => {
    const wide = "x".repeat(250);
    const jobs = Array.from({ length: 1300 }, (_, i): IndividualRecord => {
      const long = i < 600 ? { machineName: wide, vo: wide, submitHost: wide, voGroup: wide } : {};
      return { ...INDIVIDUAL, ...long, localJobId: `${i}`, endTime: INDIVIDUAL.endTime + i };
    });
    const messages = [...jobMessages(jobs, "individual-0.3")];
    expect(messages.map((m) => messageKeys(m.body).length)).toEqual([391, 500, 409]);
    expect(messages).toEqual(writeMessages(jobs, "individual-0.3"));
    expect([...jobMessages([], "individual-0.3")]).toEqual([]);
  });

  test("a key that occurs twice is refused; another order is a fault of the program", () => {
    const later = { ...INDIVIDUAL, endTime: INDIVIDUAL.endTime + 1 };
    const error = errorOf(() => [...jobMessages([INDIVIDUAL, later, later], "individual-0.3")]);
    expect(error.message).toContain("two records have one APEL key");
    expect(() => [...jobMessages([later, INDIVIDUAL], "individual-0.3")]).toThrow(TypeError);
  });

  test("what only the check of a whole message finds is refused by it", () => {
    const endTime = NOW + 5 * 86_400;
    const [message] = jobMessages([{ ...INDIVIDUAL, endTime }], "individual-0.3");
    expect(
      checkMessage(message!.body, NOW)
        .problems.map(({ reason }) => reason)
        .join(),
    ).toContain("EndTime");
    expect(checkMessage(message!.body, Infinity).problems).toEqual([]);
  });
});

test("no records, no messages: an empty file stops the central loader", () => {
  expect(writeMessages([], "summary-0.2")).toEqual([]);
});

test("tombstones come before the figures, so that figures win where the server holds two keys for one", () => {
  const gone = { ...SUMMARY, vo: "zeus", numberOfJobs: 0, wallDuration: 0, cpuDuration: 0 };
  const read = readMessage(body([SUMMARY, gone], "summary-0.2"), NOW);
  expect(read.map((r) => r.kind === "summary" && r.vo)).toEqual(["zeus", "atlas"]);
});

test("tombstones of another kind than the format get a message of their own kind", () => {
  const kinds = writeMessages([{ ...SUMMARY, numberOfJobs: 0 }, NORMALISED, SYNC], "normalised-0.4").map((m) => m.kind);
  expect(kinds).toEqual(["summary", "normalised", "sync"]);
});

describe("what breaks a rule is refused, quoting the bad value", () => {
  const unit = { site: SUMMARY.site, submitHost: SUMMARY.submitHost, month: "2025-01" };
  const bad: [string, ApelRecord, MessageFormat, string][] = [
    ["a fraction of a second", { ...SUMMARY, wallDuration: 3600.5 }, "summary-0.2", `"3600.5"`],
    ["a negative duration", { ...SUMMARY, cpuDuration: -1 }, "summary-0.2", `"-1"`],
    ["NaN", { ...SUMMARY, numberOfJobs: Number.NaN }, "summary-0.2", `"NaN"`],
    ["1e21", { ...SUMMARY, wallDuration: 1e21 }, "summary-0.2", `"1e+21"`],
    ["more jobs than int32", { ...SYNC, numberOfJobs: 2 ** 31 }, "summary-0.2", `"2147483648"`],
    [
      "a line break that would pass for a line",
      { ...SUMMARY, vo: "atlas\nVOGroup: x" },
      "summary-0.2",
      String.raw`"atlas\nVOGroup: x"`,
    ],
    ["%% in a value", { ...SUMMARY, vo: "a%%b" }, "summary-0.2", `"a%%b"`],
    ["a name that is not ASCII", { ...SYNC, site: "Zürich" }, "summary-0.2", `"Zürich"`],
    ["a site named none", { ...SYNC, site: "None" }, "summary-0.2", `"None"`],
    [
      "too long an infrastructure type",
      { ...SUMMARY, infrastructureType: "x".repeat(21) },
      "summary-0.2",
      `"${"x".repeat(21)}"`,
    ],
    ["a month to come", { ...SYNC, year: 2027, month: 2 }, "summary-0.2", "2027-02"],
    ["an end outside the month", { ...SUMMARY, latestEndTime: NOW }, "summary-0.2", String(NOW)],
    ["no service level in individual v0.4", BARE, "individual-0.4", "ServiceLevel"],
  ];
  test.each(bad)("%s", (_name, record, format, quoted) => {
    const error = errorOf(() => checkGeneration(unit, writeMessages([record], format), NOW));
    expect(error.code).toBe("message_invalid");
    expect(error.message).toContain(quoted);
    expect(error.message).toMatch(/none was written|Nothing was published/);
  });

  test("two records with one key: the second would replace the first", () => {
    const twice = [
      SUMMARY,
      { ...SUMMARY, numberOfJobs: 9, serviceLevel: { type: "si2k", value: 2974.9999999999995 } as const },
    ];
    expect(errorOf(() => writeMessages(twice, "summary-0.2")).message).toContain("add them up");
  });
});
