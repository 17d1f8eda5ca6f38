import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  parseInstant,
  parseMatchers,
  parseNamespace,
  parseSelector,
  parseVoLabel,
} from "../../../../lib/accounting/settings/formats.ts";
import {
  type Parsed,
  boolean,
  decimal,
  didYouMean,
  duration,
  milliCores,
  threeDecimals,
  utcDay,
  wholeNumber,
} from "../../../../lib/shared/config-values.ts";
import { parseServer } from "../../../../lib/shared/server-url.ts";

type Table = {
  readonly parse: (text: string) => Parsed<unknown>;
  readonly good: readonly (readonly [string, unknown])[];
  readonly bad: readonly (readonly [string, string])[];
};

const basic = (text: string): string => `Basic ${Buffer.from(text).toString("base64")}`;

const TABLES: Readonly<Record<string, Table>> = {
  "booleans as Python's environs reads them": {
    parse: boolean,
    good: [
      ...["True", "true", "1", "yes", "y", "on", "T"].map((text) => [text, true] as const),
      ...["False", "FALSE", "0", "no", "n", "Off", "f"].map((text) => [text, false] as const),
    ],
    bad: ["2", "maybe", "truee"].map((text) => [text, "neither true nor false"] as const),
  },
  "whole numbers": {
    parse: wholeNumber(0, 100),
    good: [
      ["0", 0],
      ["+7", 7],
      ["100", 100],
      ["007", 7],
    ],
    bad: ["-1", "101", "1.0", "1e1", "", "NaN", "0x10"].map((text) => [text, "whole number from 0 to 100"] as const),
  },
  "decimal numbers": {
    parse: decimal(0.001, 100),
    good: [
      ["15.0", 15],
      ["15", 15],
      [".5", 0.5],
      ["1e1", 10],
      ["0.001", 0.001],
    ],
    bad: ["0", "-1", "nan", "inf", "Infinity", "1e400", "100.1", "1,5", "15 HS06"].map(
      (text) => [text, "number from"] as const,
    ),
  },
  "cores in milli-cores": {
    parse: milliCores,
    good: [
      ["1", 1000],
      ["0.25", 250],
      ["0.001", 1],
      ["1.005", 1005],
      ["2.3", 2300],
    ],
    bad: [
      ["0", "from 0.001"],
      ["0.0005", "from 0.001"],
      ["1.0005", "at most 3 decimals"],
      ["500m", "number of cores"],
    ],
  },
  durations: {
    parse: duration(300, 14 * 86_400),
    good: [
      ["6h", 21_600],
      ["1h30m", 5400],
      ["1800s", 1800],
      ["1800", 1800],
      ["1w", 604_800],
      ["1d12h", 129_600],
      ["300s0ms", 300],
      ["1.5h", 5400],
      ["6 h", 21_600],
    ],
    bad: [
      ["", "not a duration"],
      ["1h30", "not a duration"],
      ["h", "not a duration"],
      ["-6h", "not a duration"],
      ["PT6H", "not a duration"],
      ["4m59s", "from 5m to 14d"],
      ["15d", "from 5m to 14d"],
    ],
  },
  "UTC days": {
    parse: utcDay,
    good: [["2024-02-29", "2024-02-29"]],
    bad: ["2023-02-29", "2024-3-1", "2024-03-01T00:00:00Z", "yesterday"].map((text) => [text, "yyyy-mm-dd"] as const),
  },
  "times with a zone": {
    parse: parseInstant,
    good: [
      ["2021-03-09T00:00:00+00:00", 1_615_248_000],
      ["2021-03-09 00:00:00+00:00", 1_615_248_000],
      ["2021-03-09T01:00:00+01:00", 1_615_248_000],
      ["20210309T000000Z", 1_615_248_000],
      ["2021-03-09T00:00:00.999Z", 1_615_248_000],
    ],
    bad: [
      ["2021-03-09T00:00:00", "write 2021-03-09T00:00:00Z"],
      ["2021-03-09", "write 2021-03-09T00:00:00Z"],
      ["2021-02-30T00:00:00Z", "not a time"],
      ["March 2021", "not a time"],
      ["1615248000", "not a time"],
      ["0204-03-01T00:00:00Z", "before 2014"],
    ],
  },
  "label matchers, sorted and written one way": {
    parse: parseMatchers,
    good: [
      ['cluster="a",region!="b"', ['cluster="a"', 'region!="b"']],
      ["region!=b , cluster=a,", ['cluster="a"', 'region!="b"']],
      ["{cluster='a'}", ['cluster="a"']],
      ['a=~"x.*|y",b!~"z,}"', ['a=~"x.*|y"', 'b!~"z,}"']],
      ['a="say \\"hi\\" \\\\d"', ['a="say \\"hi\\" \\\\d"']],
      ["a=~^x\\d+$", ['a=~"^x\\\\d+$"']],
      ["a=b,a=b", ['a="b"']],
      ['a=""', ['a=""']],
    ],
    bad: [
      ["cluster", "cannot be read from"],
      ['a="b', "cannot be read from"],
      ['a="b" c="d"', "cannot be read from"],
      ["1a=b", "cannot be read from"],
      ["a=,b=c", "cannot be read from"],
      ["namespace=x", "matcher on namespace"],
      ['a="\\d"', "unknown escape"],
    ],
  },
  "VO labels as kube-state-metrics names them": {
    parse: parseVoLabel,
    good: [
      ["example.org/vo", "label_example_org_vo"],
      ["vo", "label_vo"],
      ["gridVo", "label_grid_vo"],
      ["app.kubernetes.io/part-of", "label_app_kubernetes_io_part_of"],
    ],
    bad: ["a/b/c", "-vo", "Example.org/vo", "vo name", `v${"o".repeat(63)}`].map(
      (text) => [text, "pod label"] as const,
    ),
  },
  namespaces: {
    parse: parseNamespace,
    good: [
      ["atlas-jobs", "atlas-jobs"],
      ["0123", "0123"],
    ],
    bad: ["Atlas", "a_b", "a|b", ".*", "-a", "a".repeat(64)].map((text) => [text, "Kubernetes namespace"] as const),
  },
  selectors: {
    parse: parseSelector,
    good: [
      ['up{job="ksm"}', 'up{job="ksm"}'],
      ["ksm:up", "ksm:up"],
      ['{job="x"}', '{job="x"}'],
    ],
    bad: ["up{", "1up", "up > 0", "{}"].map((text) => [text, "not a PromQL selector"] as const),
  },
  "Prometheus's address": {
    parse: parseServer,
    good: [
      ["http://prometheus:9090", { url: "http://prometheus:9090" }],
      ["https://p.example.org/prometheus/", { url: "https://p.example.org/prometheus" }],
      ["https://me:a%40b@p.example.org", { url: "https://p.example.org", authHeader: basic("me:a@b") }],
      ["http://me@p", { url: "http://p", authHeader: basic("me:") }],
    ],
    bad: [
      ["prometheus:9090", "http://"],
      ["ftp://p", "http://"],
      ["http://", "not a URL"],
      ["http://p:99999", "not a URL"],
      ["http://p /x", "not a URL"],
      ["http://p?x=1", "a query"],
      ["http://p?", "a query"],
      ["http://p/#a", "a query or a fragment"],
      ["http://p/api/v1/query", "before /api/v1"],
      ["http://me:%E0%A4@p", "percent-encoded"],
    ],
  },
};

describe.each(Object.entries(TABLES))("%s", (_, { parse, good, bad }) => {
  test.each(good)("takes %j", (text, value) => {
    expect(parse(text)).toEqual({ ok: true, value });
  });
  test.each(bad)("refuses %j", (text, reason) => {
    const parsed = parse(text);
    expect(parsed.ok ? "nothing wrong" : parsed.problem).toContain(reason);
  });
});

test("a service level has at most 3 decimals and no float noise (APEL: DECIMAL(10,3))", () => {
  expect(threeDecimals(11.9 * 250)).toBe(2975);
  expect(threeDecimals(2974.9999999999995)).toBe(2975);
  expect(threeDecimals(1.0005)).toBe(1.001);
  expect(threeDecimals(0.0000001)).toBe(0);
  fc.assert(
    fc.property(fc.double({ min: 0.001, max: 2_500_000, noNaN: true }), (value) => {
      const rounded = threeDecimals(value);
      expect(String(rounded)).toMatch(/^\d+(\.\d{1,3})?$/);
      expect(Math.abs(rounded - value)).toBeLessThanOrEqual(0.000500001);
    }),
  );
});

test("the order in which matchers are written changes nothing", () => {
  const matcher = fc.tuple(fc.constantFrom("a", "b", "c"), fc.constantFrom("=", "!="), fc.constantFrom("x", "y"));
  const lists = fc
    .array(matcher, { minLength: 1, maxLength: 6 })
    .chain((list) => fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length })));
  fc.assert(
    fc.property(lists, ([list, shuffled]) => {
      const quotedText = list.map(([name, operator, value]) => `${name}${operator}"${value}"`).join(",");
      const bareText = shuffled.map(([name, operator, value]) => `${name} ${operator} ${value}`).join(" , ");
      expect(parseMatchers(bareText)).toEqual(parseMatchers(quotedText));
    }),
  );
});

test.each([
  ["siteName", "SITE_NAME"],
  ["NAMSPACE", "NAMESPACE"],
  ["vo-label", "VO_LABEL"],
])("did you mean: %s", (written, meant) => {
  expect(didYouMean(written, ["SITE_NAME", "NAMESPACE", "VO_LABEL", "VO_NAME"])).toBe(`; did you mean ${meant}?`);
  expect(didYouMean("completelyDifferent", ["SITE_NAME", "NAMESPACE"])).toBe("");
});
