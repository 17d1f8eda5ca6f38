import { describe, expect, test } from "vitest";
import { checkMessage } from "../../../../lib/accounting/apel/check.ts";
import type { Rule } from "../../../../lib/accounting/apel/values.ts";
import { writeMessages } from "../../../../lib/accounting/apel/write.ts";
import { INDIVIDUAL, NORMALISED, NOW, SUMMARY, SYNC } from "./arbitrary.ts";

const only = (messages: { body: string }[]) => messages.map((m) => m.body).join("");
const S02 = only(writeMessages([SUMMARY], "summary-0.2"));
const S04 = only(writeMessages([SUMMARY], "summary-0.4"));
const N04 = only(writeMessages([NORMALISED], "normalised-0.4"));
const I03 = only(writeMessages([INDIVIDUAL], "individual-0.3"));
const I04 = only(writeMessages([INDIVIDUAL], "individual-0.4"));
const SYN = only(writeMessages([SYNC], "summary-0.2"));

const rules = (text: string) => checkMessage(text, NOW).problems.map((p) => p.rule);
/** The message with one field's value replaced (or the line dropped). */
function set(message: string, key: string, value: string | undefined): string {
  const line = new RegExp(`^${key}:.*\n`, "m");
  expect(message).toMatch(line);
  return message.replace(line, () => (value === undefined ? "" : `${key}: ${value}\n`));
}
const add = (message: string, line: string) => message.replace("%%", `${line}\n%%`);

test("plain messages of every kind and version have no problems", () => {
  for (const message of [S02, S04, N04, I03, I04, SYN])
    expect(checkMessage(message, NOW)).toEqual({ problems: [], warnings: [] });
});

const framing: [string, Rule, string][] = [
  ["an empty file is refused", "empty-message", ""],
  ["a blank file is refused", "empty-message", " \n\r\n \n"],
  ["ASCII only", "not-ascii", set(S02, "VO", "atläs")],
  ["ASCII only: a byte order mark", "not-ascii", `\uFEFF${S02}`],
  ["a value holds no control character", "control-character", set(S02, "VO", "at\u0000las")],
  ["a value holds no tab", "control-character", set(S02, "VO", "at\tlas")],
  ["a value holds no DEL", "control-character", set(S02, "VO", "at\u007Flas")],
  ...["\u000B", "\u000C", "\u001C", "\u001D", "\u001E", "\u0085", "\u2028", "\u2029", "\r"].map(
    (char): [string, Rule, string] => [
      `the server breaks lines at U+${char.codePointAt(0)!.toString(16).padStart(4, "0")}`,
      "line-break",
      set(S02, "VO", `atlas${char}VOGroup: x`),
    ],
  ),
  ["a value holds no %%", "separator-in-value", set(S02, "VO", "at%%las")],
  ["%% at the end of a line does not end the record", "separator-in-value", set(S02, "LatestEndTime", "1793495200 %%")],
  ["each record is ended by %%", "record-not-ended", S02.replace("%%\n", "")],
  [
    "records are separated by %%: a second one without is a repeated key",
    "key-duplicated",
    S02.replace("%%\n", "") + S02.split("\n").slice(1).join("\n"),
  ],
  ["a header alone", "no-records", "APEL-summary-job-message: v0.2\n%%\n"],
  ["a blank line inside a record", "blank-line", S02.replace("VO:", "\nVO:")],
  ["lines are Key: value", "no-colon", add(S02, "atlas")],
  ["unknown keys reject the message", "key-unknown", add(S02, "Colour: blue")],
  ["keys are case-sensitive", "key-unknown", S02.replace("VO:", "vo:")],
  [
    "InfrastructureDescription is no key of a normalised one",
    "key-unknown",
    add(N04, "InfrastructureDescription: k8s"),
  ],
  ["normalised v0.4 has Infrastructure, not InfrastructureType", "key-unknown", add(N04, "InfrastructureType: grid")],
  ["normalised v0.4 has no ServiceLevel line", "key-unknown", add(N04, "ServiceLevel: {HEPscore23: 15.3}")],
  [
    "v0.4 has no ServiceLevelType line, which would override",
    "service-level-type-line",
    add(S04, "ServiceLevelType: si2k"),
  ],
  ["individual v0.4 has no ServiceLevelType line", "service-level-type-line", add(I04, "ServiceLevelType: si2k")],
  ["a key stands once", "key-duplicated", add(S02, "VO: cms")],
  ["header v0.3-summary means normalised", "header-normalised-trap", S02.replace("v0.2", "v0.3")],
  ["an unknown header", "header-unknown", S02.replace("v0.2", "v0.9")],
  ...["v0.0", "v0.5", "v0.10"].map((version): [string, Rule, string] => [
    `individual ${version}`,
    "header-unknown",
    I03.replace("v0.3", version),
  ]),
  ["a header with a trailing space", "header-unknown", S02.replace("v0.2", "v0.2 ")],
  ["a message without header", "header-unknown", S02.split("\n").slice(1).join("\n")],
  ["JSON is not a message", "header-unknown", "{}"],
  ["two records with one key: the first would be lost", "record-duplicated", S02 + S02.split("\n").slice(1).join("\n")],
  [
    "at most 500 records",
    "too-many-records",
    `APEL-sync-message: v0.1\n${Array.from({ length: 501 }, (_, i) => `Site: s${i}\nNumberOfJobs: 1\nMonth: 1\nYear: 2026\n%%\n`).join("")}`,
  ],
  ["at most 500 kB", "too-large", S02 + "\n".repeat(500_001 - S02.length)],
];

const types: [string, Rule, string][] = [
  ...["3600.0", "1e5", "-5", "+5", "0x10", "3_600", "1 000", "abc"].map((bad): [string, Rule, string] => [
    `integer fields take digits only: ${bad}`,
    "integer-digits",
    set(S02, "WallDuration", bad),
  ]),
  ["times are integer epoch seconds", "integer-digits", set(S02, "LatestEndTime", "2026-11-01T00:00:00Z")],
  ...["none", "None", "NULL", "null", ""].map((word): [string, Rule, string] => [
    `null in a mandatory field: ${JSON.stringify(word)}`,
    "mandatory-missing",
    set(S02, "NumberOfJobs", word),
  ]),
  ["strings have at most 255 characters", "string-length", set(S02, "Site", "x".repeat(256))],
  ["InfrastructureType has at most 20", "string-length", set(S02, "InfrastructureType", "x".repeat(21))],
  ["Infrastructure has at most 20", "string-length", set(N04, "Infrastructure", "x".repeat(21))],
  ["ServiceLevelType (at most 50) is a known name", "benchmark-unknown", set(S02, "ServiceLevelType", "x".repeat(51))],
  [
    "InfrastructureDescription has at most 100",
    "string-length",
    add(I03, `InfrastructureDescription: ${"x".repeat(101)}`),
  ],
  ...[S02, S04].map((message): [string, Rule, string] => [
    "InfrastructureDescription of a summary has at most 100",
    "string-length",
    add(message, `InfrastructureDescription: ${"x".repeat(101)}`),
  ]),
  ["ServiceLevel has at most 3 decimals", "decimal", set(S02, "ServiceLevel", "2974.9999999999995")],
  ["ServiceLevel has at most 7 digits before the point", "decimal", set(S02, "ServiceLevel", "10000000")],
  ["ServiceLevel is a plain decimal", "decimal", set(S02, "ServiceLevel", "1e3")],
  ["ServiceLevel is not negative", "decimal", set(S02, "ServiceLevel", "-1")],
  ["v0.4: the dict's value is DECIMAL(10,3) too", "decimal", set(S04, "ServiceLevel", "{HEPscore23: 15.3001}")],
  ["NumberOfJobs of a summary fits int32", "int32", set(S02, "NumberOfJobs", "2147483648")],
  ["NumberOfJobs of a sync record fits int32", "int32", set(SYN, "NumberOfJobs", "2147483648")],
  ...["WallDuration", "CpuDuration", "MemoryVirtual"].map((key): [string, Rule, string] => [
    `${key} of an individual record fits int32`,
    "int32",
    set(I03, key, "2147483648"),
  ]),
  ["MemoryReal of an individual record fits int32", "int32", add(I03, "MemoryReal: 2147483648")],
  ["a summary's durations fit int64", "int64", set(S02, "CpuDuration", "9223372036854775808")],
  ["normalised durations fit int64", "int64", set(N04, "NormalisedCpuDuration", "{HEPscore23: 9223372036854775808}")],
];

const records: [string, Rule, string][] = [
  ...[
    "Site",
    "Month",
    "Year",
    "WallDuration",
    "CpuDuration",
    "NumberOfJobs",
    "NodeCount",
    "Processors",
    "ServiceLevelType",
    "ServiceLevel",
  ].map((key): [string, Rule, string] => [
    `summary: ${key} is mandatory`,
    "mandatory-missing",
    set(S02, key, undefined),
  ]),
  ["summary v0.4: ServiceLevel is mandatory", "mandatory-missing", set(S04, "ServiceLevel", undefined)],
  ...["Site", "NodeCount", "Processors", "NormalisedWallDuration", "NormalisedCpuDuration"].map(
    (key): [string, Rule, string] => [`normalised: ${key} is mandatory`, "mandatory-missing", set(N04, key, undefined)],
  ),
  ...["Site", "LocalJobId", "WallDuration", "CpuDuration", "StartTime", "EndTime"].map(
    (key): [string, Rule, string] => [`individual: ${key} is mandatory`, "mandatory-missing", set(I03, key, undefined)],
  ),
  ...["Site", "NumberOfJobs", "Month", "Year"].map((key): [string, Rule, string] => [
    `sync: ${key} is mandatory`,
    "mandatory-missing",
    set(SYN, key, undefined),
  ]),
  ["EarliestEndTime is not before the month", "end-time-outside-month", set(S02, "EarliestEndTime", "1793491199")],
  [
    "LatestEndTime is not after the next month's start",
    "end-time-outside-month",
    set(S02, "LatestEndTime", "1796083201"),
  ],
  ["EarliestEndTime <= LatestEndTime", "end-time-order", set(S02, "EarliestEndTime", "1793495201")],
  ["normalised: ends lie in the month", "end-time-outside-month", set(N04, "LatestEndTime", "1796083201")],
  ["a month in the future", "month-in-future", set(SYN, "Year", "2027").replace("Month: 11", "Month: 2")],
  ["a month is 1 to 12: 13", "month-range", set(S02, "Month", "13")],
  ["a month is 1 to 12: 0", "month-range", set(SYN, "Month", "0")],
  ["a year is one", "month-range", set(SYN, "Year", "0")],
  [
    "v0.2: known benchmarks are hepscore23, hepspec, si2k",
    "benchmark-unknown",
    set(S02, "ServiceLevelType", "specint"),
  ],
  [
    "v0.4: known dict keys are hepscore23, hepspec, si2k",
    "benchmark-unknown",
    set(S04, "ServiceLevel", "{specint: 1}"),
  ],
  ...[
    `{"HEPscore23": 15.3}`,
    "{HEPscore23: 15.3,}",
    "{HEPscore23 15.3}",
    "{}",
    "HEPscore23: 15.3",
    "15.3",
    "{hepspec: 1, HEPSPEC: 2}",
    "{{hepspec: 1}}",
  ].map((dict): [string, Rule, string] => [`v0.4 dict syntax: ${dict}`, "dict-syntax", set(S04, "ServiceLevel", dict)]),
  ["normalised durations are integers", "dict-integer", set(N04, "NormalisedWallDuration", "{HEPscore23: 50.5}")],
  ["normalised durations are dicts", "dict-syntax", set(N04, "NormalisedWallDuration", "50")],
  [
    "both normalised durations are of one benchmark",
    "benchmark-mixture",
    set(N04, "NormalisedCpuDuration", "{hepspec: 40}"),
  ],
  ["individual: EndTime >= StartTime", "end-before-start", set(I03, "EndTime", "1793491199")],
  ["individual: EndTime <= now + 2 days", "end-in-future", set(I03, "EndTime", String(NOW + 2 * 86_400 + 1))],
  [
    "individual v0.4 without ServiceLevel stops the central loader",
    "service-level-missing",
    set(I04, "ServiceLevel", undefined),
  ],
  ["individual v0.4 with a null ServiceLevel", "service-level-missing", set(I04, "ServiceLevel", "none")],
  ["individual v0.3: a type without a value", "service-level-half", set(I03, "ServiceLevel", undefined)],
  ["individual v0.3: a value without a type", "service-level-half", set(I03, "ServiceLevelType", undefined)],
];

describe("framing", () => {
  test.each(framing)("%s (%s)", (_title, rule, message) => expect(rules(message)).toContain(rule));
});
describe("types", () => {
  test.each(types)("%s (%s)", (_title, rule, message) => expect(rules(message)).toEqual([rule]));
});
describe("records", () => {
  test.each(records)("%s (%s)", (_title, rule, message) => expect(rules(message)).toEqual([rule]));
});
describe("what the server takes passes", () => {
  const fine: [string, string][] = [
    ["CRLF", S02.replaceAll("\n", "\r\n")],
    [
      "blank lines before the header and around %%",
      `\n\n${S02.replace("v0.2\n", "v0.2\n\n").replace("%%", "\n%%\n\n%%\n")}\n`,
    ],
    ["no line break after the last %%", S02.trimEnd()],
    ["no space after the colon", S02.replaceAll(": ", ":").replace(":v0.2", ": v0.2")],
    ["a colon in a value", set(S02, "SubmitHost", "host:6443/ns")],
    ["any order of keys", `${S02.split("\n")[0]}\n${S02.split("\n").slice(1, -2).toReversed().join("\n")}\n%%\n`],
    ["0 for NodeCount and Processors", set(set(S02, "NodeCount", "0"), "Processors", "0")],
    ["null in optional fields", set(set(S02, "VO", "None"), "LatestEndTime", "null")],
    ["ends on the month's very edges", set(set(S02, "EarliestEndTime", "1793491200"), "LatestEndTime", "1796083200")],
    ["KAPEL's 2500.0", set(S02, "ServiceLevel", "2500.0")],
    ["the largest ServiceLevel", set(S02, "ServiceLevel", "9999999.999")],
    ["a benchmark in other case", set(S02, "ServiceLevelType", "HEPSPEC")],
    ["the largest int32 and int64", set(set(S02, "NumberOfJobs", "2147483647"), "WallDuration", "9223372036854775807")],
    ["a dict of two benchmarks, in any case", set(S04, "ServiceLevel", "{HEPSPEC: 12,hepscore23:15.3}")],
    [
      "user, group and role",
      add(S02, "GlobalUserName: /CN=me\nVOGroup: /atlas\nVORole: production\nUpdateTime: 2026-11-02T00:00:00Z"),
    ],
    ["a job that ends two days from now", set(I03, "EndTime", String(NOW + 2 * 86_400))],
    [
      "KAPEL's individual keys",
      add(I03, "Queue: q\nLocalUserId: u\nFQAN: /atlas\nInfrastructureDescription: APEL-K8S\nSubmitHostType: x"),
    ],
    ["a sync record without submit host", set(SYN, "SubmitHost", undefined)],
  ];
  test.each(fine)("%s", (_title, message) => expect(checkMessage(message, NOW).problems).toEqual([]));
});

test("individual v0.3 without a service level is allowed with a warning: only Gratia takes it", () => {
  const message = set(set(I03, "ServiceLevel", undefined), "ServiceLevelType", undefined);
  const { problems, warnings } = checkMessage(message, NOW);
  expect(problems).toEqual([]);
  expect(warnings).toMatchObject([{ line: 2, rule: "service-level-absent" }]);
});

test("times end with the year 9999 (time-limit)", () => {
  expect(rules(set(I03, "StartTime", "253402300800"))).toContain("time-limit");
  expect(rules(set(I03, "StartTime", "253402300799"))).not.toContain("time-limit");
});

test("a problem names its line and quotes the value", () => {
  const line = S02.split("\n").findIndex((l) => l.startsWith("WallDuration")) + 1;
  const [problem] = checkMessage(set(S02, "WallDuration", "3600.0"), NOW).problems;
  expect(problem).toMatchObject({ line, reason: expect.stringContaining(`"3600.0"`) });
});

test("the problems of all records are reported, in the order of lines", () => {
  const bad = `${set(S02, "Month", "13")}${set(S02, "VO", "cms").split("\n").slice(1).join("\n").replace("7200", "x")}`;
  const found = checkMessage(bad, NOW).problems;
  expect(found.map((p) => p.rule)).toEqual(["month-range", "integer-digits"]);
  expect(found.map((p) => p.line)).toEqual(found.map((p) => p.line).toSorted((a, b) => a - b));
});
