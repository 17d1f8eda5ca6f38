import { expect, test } from "vitest";
import { type Notification, parseNotification, sha256Of } from "../../../../lib/accounting/delivery/notifications.ts";
import { bodyHash, unitPrefix } from "../../../../lib/accounting/delivery/outgoing.ts";
import { judge } from "../../../../lib/accounting/delivery/spooler.ts";
import { S3Store } from "../../../../lib/accounting/store/s3.ts";
import { createS3 } from "../../../../lib/accounting/store/aws.ts";
import { summaryBody, unit } from "../../../support/dirq-messages.ts";

const store = new S3Store({ client: createS3({ AWS_REGION: "x" }), bucket: "grid", prefix: "apel" });
const body = summaryBody(unit, 7);
const key = `${unitPrefix(unit)}0000000007-summary-${bodyHash(body)}`;
const good: Notification = { v: 1, bucket: "grid", key: `apel/${key}`, sha256: sha256Of(body), ...unit, generation: 7 };
const verdict = (text: string) => judge({ id: "1", receipt: "r", text }, store);

test("a message that tells of one of our outgoing objects", () => {
  expect(verdict(JSON.stringify(good))).toEqual({ kind: "announced", key, unit });
});

test.each<[string, string | object, string]>([
  ["not JSON", "hello", "not JSON"],
  ["empty", "", "not JSON"],
  ["a list", [good], "another shape"],
  ["null", "null", "another shape"],
  ["S3's own test event", { Service: "Amazon S3", Event: "s3:TestEvent" }, "another shape"],
  ["a later version", { ...good, v: 2 }, "another shape"],
  ["a missing field", { ...good, sha256: undefined }, "another shape"],
  ["a generation that is none", { ...good, generation: "7" }, "another shape"],
  ["another bucket", { ...good, bucket: "other" }, 'its bucket is "other", not grid'],
  ["another prefix", { ...good, key }, "is none of an outgoing message in s3://grid/apel"],
  ["a prefix that only begins alike", { ...good, key: `apel2/${key}` }, "is none of an outgoing message"],
  ["a key of another stage", { ...good, key: `apel/${key.replace("outgoing", "spooled")}` }, "is none of an outgoing"],
  ["a key that gridmeter did not make", { ...good, key: "apel/outgoing/x y" }, "is none of an outgoing message"],
  ["a way out", { ...good, key: "apel/outgoing/../ledger/x" }, "is none of an outgoing message"],
  ["another unit", { ...good, month: "2025-02" }, "is not that of its key"],
  ["another generation", { ...good, generation: 8 }, "is not that of its key"],
  ["another hash", { ...good, sha256: sha256Of(`${body} `) }, "does not fit its key"],
])("poisoned: %s", (_, message, reason) => {
  const text = typeof message === "string" ? message : JSON.stringify(message);
  expect(verdict(text)).toEqual({ kind: "poisoned", reason: expect.stringContaining(reason) });
});

test("a reason is one line", () => {
  const parsed = parseNotification("{}");
  expect(parsed.ok ? "" : parsed.problem).toMatch(/^it has another shape: .+$/);
});
