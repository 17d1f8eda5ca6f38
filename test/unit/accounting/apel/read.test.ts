import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { checkMessage } from "../../../../lib/accounting/apel/check.ts";
import { readMessage } from "../../../../lib/accounting/apel/read.ts";
import { parseMessage } from "../../../../lib/accounting/apel/parse.ts";
import { valueProblem } from "../../../../lib/accounting/apel/values.ts";
import { writeMessages } from "../../../../lib/accounting/apel/write.ts";
import { NOW, SUMMARY, SYNC, text } from "./arbitrary.ts";

const S02 = writeMessages([SUMMARY], "summary-0.2")[0]!.body;

describe("parseMessage", () => {
  test("gives the header, the kind, and the raw fields with their lines", () => {
    const { header, kind, records, problems } = parseMessage(
      "\nAPEL-sync-message: v0.1\nSite :  A b \nYear:2026\n%%\n\nSite: C\n%%",
    );
    expect({ header, kind, problems }).toEqual({ header: "APEL-sync-message: v0.1", kind: "sync", problems: [] });
    expect(records.map((r) => [r.line, Object.fromEntries(r.fields)])).toEqual([
      [3, { Site: { line: 3, value: "A b" }, Year: { line: 4, value: "2026" } }],
      [7, { Site: { line: 7, value: "C" } }],
    ]);
  });

  test("an unknown header leaves no records and one problem", () => {
    expect(parseMessage("hello\nSite: x\n%%\n")).toMatchObject({
      kind: undefined,
      records: [],
      problems: [{ line: 1, rule: "header-unknown" }],
    });
  });

  test("never throws, whatever it is given; nor does the check", () => {
    const piece = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.constantFrom("\n", "%%", ": ", "\r\n", "APEL-sync-message: v0.1\n", "Site: x\n", "{", "Month: 99\n"),
    );
    fc.assert(
      fc.property(fc.array(piece), fc.boolean(), (pieces, headed) => {
        const message = `${headed ? "APEL-summary-job-message: v0.4\n" : ""}${pieces.join("")}`;
        expect(parseMessage(message).records).toBeInstanceOf(Array);
        expect(checkMessage(message, NOW).problems.length).toBeGreaterThan(0);
      }),
    );
  });
});

describe("readMessage", () => {
  test("the server takes the first of hepscore23, hepspec, si2k in a dict", () => {
    const [v04] = writeMessages([SUMMARY], "summary-0.4");
    const two = v04!.body.replace("{si2k: 2975}", "{si2k: 2500, HEPSPEC: 10, hepScore23: 15.3}");
    expect(readMessage(two, NOW)).toMatchObject([{ serviceLevel: { type: "hepscore23", value: 15.3 } }]);
  });

  test("nulls become what the server stores", () => {
    const bare = S02.replace("VO: atlas\n", "")
      .replace(/EarliestEndTime:.*\n/, "")
      .replace(/LatestEndTime:.*\n/, "");
    expect(readMessage(bare, NOW)).toMatchObject([
      { vo: "None", earliestEndTime: 1793491200, latestEndTime: 1793491200 },
    ]);
  });

  test("a message that breaks a rule is refused with line and reason", () => {
    const read = () => readMessage(S02.replace("Month: 11", "Month: 13"), NOW);
    expect(read).toThrow(
      expect.objectContaining({ code: "message_invalid", message: expect.stringContaining("line 3: Month 13") }),
    );
  });

  test("an integer that JavaScript cannot hold exactly is refused, not rounded", () => {
    const big = S02.replace("WallDuration: 7200", "WallDuration: 9007199254740993");
    expect(checkMessage(big, NOW).problems).toEqual([]);
    expect(() => readMessage(big, NOW)).toThrow(/9007199254740993/);
  });
});

describe("valueProblem", () => {
  test.each([
    ["a line break", "a\nb", 255],
    ["a line break of Unicode", "a\u2028b", 255],
    ["%%", "50%%", 255],
    ["a character that is not ASCII", "Zürich", 255],
    ["a control character", "a\tb", 255],
    ["256 characters", "x".repeat(256), 255],
    ["21 characters for an infrastructure type", "x".repeat(21), 20],
    ["nothing", "", 255],
    ["only spaces", "  ", 255],
    ["none", "None", 255],
    ["null", "NULL", 255],
    ["a space at its end", "atlas ", 255],
  ])("refuses %s, quoting it", (_name, value, max) => {
    expect(valueProblem("SITE_NAME", value, max)).toContain(
      `SITE_NAME ${JSON.stringify(value.length > 80 ? `${value.slice(0, 80)}...` : value)}`,
    );
  });

  test("what it takes can be published and reads back the same", () => {
    fc.assert(
      fc.property(text(255), (site) => {
        expect(valueProblem("SITE_NAME", site)).toBeUndefined();
        expect(readMessage(writeMessages([{ ...SYNC, site }], "summary-0.2")[0]!.body, NOW)).toEqual([
          { ...SYNC, site },
        ]);
      }),
    );
  });
});
