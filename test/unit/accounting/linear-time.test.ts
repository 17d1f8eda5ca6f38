import { describe, expect, test } from "vitest";
import { readManualFile } from "../../../lib/accounting/publishing/manual-file.ts";
import { parseWorkItem } from "../../../functions/common/work-item.ts";
import {
  decimal,
  digits,
  fitsDecimal,
  readDict,
  textProblem,
  valueProblem,
} from "../../../lib/accounting/apel/values.ts";
import { isKey, readSegment } from "../../../lib/accounting/store/store.ts";
import { checkMessage } from "../../../lib/accounting/apel/check.ts";
import { messageKeys } from "../../../lib/accounting/apel/replace-keys.ts";
import {
  apelText,
  parseBucketPlace,
  parseDestination,
  parseInstant,
  parseLedgerPlace,
  parseMatchers,
  parseNamespace,
  parseSelector,
  parseVoLabel,
} from "../../../lib/accounting/settings/formats.ts";
import { readEnvFile } from "../../../lib/accounting/settings/env-file.ts";
import { LONGEST_VALUE } from "../../../lib/accounting/settings/problems.ts";
import {
  maskServer,
  parseAuthorization,
  parseOrgId,
  parseRegion,
  parseServer,
} from "../../../lib/shared/server-url.ts";
import {
  boolean,
  decimal as decimalSetting,
  duration,
  milliCores,
  wholeNumber,
} from "../../../lib/shared/config-values.ts";
import { parseNotification } from "../../../lib/accounting/delivery/notifications.ts";
import { parseOutgoingKey } from "../../../lib/accounting/delivery/outgoing.ts";
import { hider } from "../../../lib/accounting/prometheus/auth.ts";
import { certificateProblems } from "../../../lib/accounting/prometheus/certificates.ts";
import { isTooLong, judgeRefusal, serverText } from "../../../lib/accounting/prometheus/errors.ts";
import { numberOf } from "../../../lib/accounting/prometheus/response.ts";
import { uidOfId } from "../../../lib/accounting/prometheus/rows.ts";
import { growthOf } from "../../support/growth.ts";

const NOW = Date.UTC(2026, 10, 1) / 1000;
const S02 = "APEL-summary-job-message: v0.2\n";
const S04 = "APEL-summary-job-message: v0.4\n";

/** Texts that make a pattern go back and forth: pieces that are repeated, and an end that does not fit. */
const HOSTILE: readonly (readonly [piece: string, end: string])[] = [
  ["1", "x"],
  ["a", "!"],
  ["a-", "!"],
  [" ", "x"],
  [" ", ""],
  ["/", "x"],
  [":", "x"],
  ["=", "x"],
  ["://", "x"],
  ["${", ":"],
  ["${a", "}"],
  ["$(", ""],
  ["<", ""],
  ["<style", ">"],
  ["{", "x"],
  ["}", "x"],
  ["\\", '"'],
  ['\\"', "x"],
  ["'", "x"],
  ['a="b",', "!"],
  ["exceeds ", "x"],
  ["limit ", "x"],
  ["hit the ", "x"],
  ["requestURI: ", "x"],
  ['query="', "\\"],
  ["x-amz-security-token", " "],
  ["T", "Z+"],
  ["1s", "x"],
  ["%%", "\n"],
  ["x\n", ""],
  ["\u0001\n", ""],
  ["Site: a\n", ""],
  ["Site: a\n%%\n", ""],
  ["APEL-message", "\n"],
  ["a # ", "#"],
  ["A='\\'", "x\n"],
  ['A="\\"\n', "x"],
  ["-----BEGIN CERTIFICATE-----", "x"],
  ["pod", "x"],
  ["\n", "x"],
];
const texts = HOSTILE.map(
  ([piece, end]) =>
    (length: number): string =>
      piece.repeat(Math.ceil(length / piece.length)) + end,
);

const before = (start: string, read: (text: string) => unknown) => (text: string) => read(start + text);
const shown = hider(new URL("http://p.example"), "Bearer abc");

/** Every reader of the accounting half that tries patterns on what others wrote, and the length that it is given at most. */
const READERS: readonly (readonly [string, (text: string) => unknown, number])[] = [
  ["a message", (text) => checkMessage(text, NOW), 240_000],
  ["a summary", before(S02, (text) => checkMessage(text, NOW)), 120_000],
  ["a summary v0.4", before(`${S04}Site: x\nServiceLevel: `, (text) => checkMessage(text, NOW)), 120_000],
  ["a hand-written file", before(S02, (text) => readManualFile(text, NOW)), 120_000],
  ["the keys of a file in the queue", before(`${S02}Site: x\n%%\n`, messageKeys), 120_000],
  ["a dict", readDict, 1024],
  ["digits", digits, 100_000],
  ["a decimal", decimal, 100_000],
  ["a service level", fitsDecimal, 100_000],
  ["a text for APEL", (text) => textProblem("VO", text), 100_000],
  ["a name for APEL", (text) => valueProblem("VO", text), 100_000],
  ["the key of an object", parseOutgoingKey, 100_000],
  ["a key's segment", readSegment, 4096],
  ["a store's key", isKey, 100_000],
  ["a queue message", parseNotification, 200_000],
  ["a work item", parseWorkItem, 200_000],
  ["a cgroup id", uidOfId, 100_000],
  ["a sample", numberOf, 100_000],
  ["a server's words", serverText, 100_000],
  ["a refusal (422)", (text) => judgeRefusal(422, text), 100_000],
  ["a refusal (500)", (text) => judgeRefusal(500, text), 100_000],
  ["a long query's refusal", (text) => isTooLong(400, text), 100_000],
  ["what is hidden in a text", shown, 100_000],
  ["an env file", (text) => readEnvFile(text, {}), 120_000],
  ["a value of an env file", (text) => readEnvFile(`A=${text}`, {}), 120_000],
  ...Object.entries({
    apelText: apelText(255),
    parseDestination,
    parseBucketPlace: (text: string) => parseBucketPlace(`s3://bucket/${text}`),
    parseLedgerPlace,
    parseNamespace,
    parseSelector,
    parseVoLabel,
    parseMatchers,
    parseInstant,
    parseServer,
    parsePath: (text: string) => parseServer(`http://h/${text}`),
    maskServer,
    parseAuthorization,
    parseOrgId,
    parseRegion,
    boolean,
    decimalSetting: decimalSetting(0, 1),
    duration: duration(1, 86_400),
    milliCores,
    wholeNumber: wholeNumber(0, 1),
  }).map(([name, parse]): [string, (text: string) => unknown, number] => [`the setting ${name}`, parse, LONGEST_VALUE]),
];

describe("twice the text takes at most three times the time, whatever it is", () => {
  test.each(READERS)("%s", (_name, read, length) => {
    for (const [index, textOf] of texts.entries())
      expect({ text: HOSTILE[index], growth: growthOf(read, textOf, length) }).toEqual({
        text: HOSTILE[index],
        growth: expect.toSatisfy((times: number) => times <= 3),
      });
  });
});

test("a file of certificates without an end", () => {
  expect(certificateProblems({ caFile: "/dev/zero" })).toMatchObject([
    { text: expect.stringContaining("at most 1000000 are read") },
  ]);
});

test("the measure sees what grows with the square", () => {
  const square = (text: string) => /a+$/.test(text);
  expect(growthOf(square, (length) => `${"a".repeat(length)}!`, 3000)).toBeGreaterThan(3);
});
