import { expect, test } from "vitest";
import { parseDestination, parseLedgerPlace } from "../../../../lib/accounting/settings/formats.ts";

test.each([
  ["/srv/kapel", { kind: "dirq", path: "/srv/kapel" }],
  ["out", { kind: "dirq", path: "out" }],
  ["./a:b", { kind: "dirq", path: "./a:b" }],
  ["dirq:/q", { kind: "dirq", path: "/q" }],
  ["dirq:a:b", { kind: "dirq", path: "a:b" }],
  ["dir:./d", { kind: "directory", path: "./d" }],
  ["s3://bucket", { kind: "s3", bucket: "bucket", prefix: "" }],
  ["s3://bucket/a/b/", { kind: "s3", bucket: "bucket", prefix: "a/b" }],
])("--output %s", (text, value) => {
  expect(parseDestination(text)).toEqual({ ok: true, value });
});

test.each([
  ["-", "--dry-run"],
  ["stdout", "--dry-run"],
  ["dirq:", "names no directory"],
  ["dir: ", "names no directory"],
  ["s3:bucket", "s3://BUCKET"],
  ["s3:///x", "s3://BUCKET"],
  ["s3://B_ucket/x", "s3://BUCKET"],
  ["s3://bucket/a//b", "single slashes"],
  ["s3://bucket//a", "single slashes"],
  ["s3://bucket/a b", "prefix"],
  ["file:///x", "unknown scheme"],
  ["a\0b", "zero byte"],
])("--output %j is refused", (text, reason) => {
  const parsed = parseDestination(text);
  expect(parsed.ok ? "nothing wrong" : parsed.problem).toContain(reason);
});

test("--ledger takes a directory, a bucket or none", () => {
  expect(parseLedgerPlace("none")).toEqual({ ok: true, value: { kind: "none" } });
  expect(parseLedgerPlace("./none")).toEqual({ ok: true, value: { kind: "directory", path: "./none" } });
  expect(parseLedgerPlace("s3://bucket/a")).toEqual({ ok: true, value: { kind: "s3", bucket: "bucket", prefix: "a" } });
  for (const text of ["", " ", "file:///x", "s3:bucket", "s3://bucket//x"])
    expect(parseLedgerPlace(text).ok).toBe(false);
});
