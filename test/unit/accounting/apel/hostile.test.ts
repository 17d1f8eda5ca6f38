import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readManualFile } from "../../../../lib/accounting/publishing/manual-file.ts";
import { refusalError, submitManual } from "../../../../lib/accounting/publishing/manual.ts";
import { checkMessage } from "../../../../lib/accounting/apel/check.ts";
import { LAYOUTS } from "../../../../lib/accounting/apel/fields.ts";
import { MOST_PROBLEMS, problemText } from "../../../../lib/accounting/apel/values.ts";
import { MemoryStore } from "../../../../lib/accounting/store/store.ts";
import { writeMessages } from "../../../../lib/accounting/apel/write.ts";
import { NOW, SUMMARY } from "./arbitrary.ts";

const HEADER = "APEL-summary-job-message: v0.2\n";
const [GOOD] = writeMessages([SUMMARY], "summary-0.2");
const RECORD = GOOD!.body.slice(HEADER.length);

describe("problems are bounded: the first 50 and a count", () => {
  test.each([
    ["234,000 lines that are no fields", `${HEADER}${"x\n".repeat(234_000)}%%\n`, 234_000],
    ["234,000 lines before a header", "x\n".repeat(234_000), 1],
    ["160,000 records", `${HEADER}${"%%\nx\n".repeat(99_000)}`, 99_000],
    ["control characters", `${HEADER}${"\u0001\n".repeat(200_000)}`, 200_000],
    ["keys of nobody's", `${HEADER}${"a:\n".repeat(160_000)}%%\n`, 160_000],
    ["keys that stand twice", `${HEADER}${"VO:\n".repeat(120_000)}%%\n`, 119_999],
  ])("%s", (_name, text, atLeast) => {
    const { problems } = checkMessage(text, NOW);
    expect(problems.length).toBeLessThanOrEqual(MOST_PROBLEMS + 1);
    const all = problems.reduce((sum, { more = 1 }) => sum + more, 0);
    expect(all).toBeGreaterThanOrEqual(atLeast);
    expect(problemText(problems).length).toBeLessThan(2000);
    if (all > MOST_PROBLEMS) expect(problemText(problems)).toMatch(new RegExp(`; and ${all - 5} more$`));
  });

  test("a good message has none; of 51 all are told", () => {
    expect(checkMessage(GOOD!.body, NOW).problems).toEqual([]);
    const { problems } = checkMessage(`${HEADER}${"x\n".repeat(42)}%%\n`, NOW);
    expect(problems.at(-1)).toMatchObject({
      rule: "more-problems",
      more: problems.reduce((n, p) => n + (p.more ?? 1), -50),
    });
  });

  test("whatever is drawn: never a throw, never more than 51, refused unless it is good", () => {
    const piece = fc.oneof(
      fc.constantFrom("%%\n", "x\n", "\n", ":\n", "VO: a\n", "Site\u0001: b\n", "%%%%\n", RECORD, HEADER),
      fc.string({ unit: "binary", maxLength: 20 }),
    );
    const header = fc.constantFrom("", ...LAYOUTS.map((layout) => `${layout.header}\n`));
    fc.assert(
      fc.property(
        header,
        fc.array(fc.tuple(piece, fc.integer({ min: 1, max: 400 })), { maxLength: 6 }),
        (start, parts) => {
          const text = start + parts.map(([one, times]) => one.repeat(times)).join("");
          const { problems } = checkMessage(text, NOW);
          expect(problems.length).toBeLessThanOrEqual(MOST_PROBLEMS + 1);
          const file = readManualFile(text, NOW);
          expect(file.refused.length).toBeLessThanOrEqual(MOST_PROBLEMS);
          for (const { problems: own } of file.refused) expect(own.length).toBeLessThanOrEqual(2 * MOST_PROBLEMS);
          expect(problems.length > 0 || file.records.length > 0).toBe(true);
        },
      ),
      { numRuns: 60 },
    );
  });
});

describe("hand-written files", () => {
  test("of a thousand bad records fifty are listed, the others are counted, and the good one goes", async () => {
    const store = new MemoryStore();
    const text = `${HEADER}${"VO: x\n%%\n".repeat(1000)}${RECORD}`;
    const report = await submitManual({ store, outbox: store }, [{ name: "a.txt", text }], { now: NOW });
    const [file] = report.files;
    expect(file).toMatchObject({ moreRefused: 950, sent: [{ line: 2002 }] });
    expect(file!.refused).toHaveLength(50);
    expect(refusalError(report)?.message).toMatch(/and 950 more records\. These records were not sent; 1 others were/);
  });

  test("a bad line behind the fiftieth refuses its own record, not another", () => {
    const bad = RECORD.replace("%%\n", "x\n%%\n");
    const { records, refused, moreRefused } = readManualFile(`${HEADER}${bad.repeat(60)}${RECORD}`, NOW);
    expect(records).toHaveLength(1);
    expect(refused.length + moreRefused).toBe(60);
  });

  test("a file that is too large, or of too many records, is refused by name and not read further", () => {
    const large = readManualFile(`${HEADER}${"x".repeat(5_000_001)}`, NOW);
    expect(large).toMatchObject({ records: [], refused: [{ problems: [{ rule: "too-large" }] }] });
    const many = readManualFile(`${HEADER}${"x\n%%\n".repeat(60_000)}`, NOW);
    expect(many).toMatchObject({ records: [], refused: [{ problems: [{ rule: "too-many-records" }] }] });
  });
});
