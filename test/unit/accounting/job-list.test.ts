import * as fc from "fast-check";
import { expect, test } from "vitest";
import { apelKey } from "../../../lib/accounting/apel/replace-keys.ts";
import { individualRecord } from "../../../lib/accounting/publishing/jobs.ts";
import { JobList } from "../../../lib/accounting/counting/jobs.ts";
import type { Job } from "../../../lib/accounting/counting/usage.ts";
import { tenant } from "./world.ts";

const count = fc.integer({ min: 0, max: 2 ** 40 });
const text = fc.oneof(fc.string({ maxLength: 20 }), fc.string({ unit: "grapheme", maxLength: 20 }), fc.uuid());
const NUMBERS = ["milliCores", "cpuMilliseconds", "memoryRequest", "memoryUsed"];
/** Times that epoch seconds have ten digits of, few of them, so that some are equal. */
const time = fc.integer({ min: 1_700_000_000, max: 1_700_000_009 });
const job: fc.Arbitrary<Job> = fc.record(
  {
    uid: text,
    pod: text,
    vo: fc.option(text, { nil: null }),
    start: time,
    end: time,
    milliCores: count,
    cpuMilliseconds: count,
    memoryRequest: count,
    memoryUsed: count,
  },
  { requiredKeys: ["uid", "pod", "vo", "start", "end", "milliCores"] },
);

test("jobs come back as they were, however often, in the order of their APEL keys", () => {
  const grid = tenant("grid");
  fc.assert(
    fc.property(fc.array(job), (jobs) => {
      const list = new JobList(jobs);
      const found = [...list];
      expect(list).toHaveLength(jobs.length);
      expect([...list]).toEqual(found);
      const plain = (all: readonly Job[]) =>
        all.map((each) => JSON.stringify(each, ["uid", "pod", "vo", "start", "end", ...NUMBERS])).toSorted();
      expect(plain(found)).toEqual(plain(jobs));
      // Uids that read as null are one key at APEL, and refused there.
      const keys = found
        .filter(({ uid }) => !["", "none", "null"].includes(uid.toLowerCase()))
        .map((each) => apelKey(individualRecord(grid, each)));
      expect(keys).toEqual(keys.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0)));
    }),
  );
});

test("half a character spoils no other job", () => {
  const more = { vo: null, start: 1_700_000_000, end: 1_700_000_000, milliCores: 1 };
  const list = new JobList([
    { uid: "a\uD83D", pod: "\uDE00b", ...more },
    { uid: "c", pod: "d", ...more },
  ]);
  expect([...list].map(({ uid, pod }) => [uid, pod])).toEqual([
    ["a\uFFFD", "\uFFFDb"],
    ["c", "d"],
  ]);
});

test("no jobs", () => {
  expect([...new JobList()]).toEqual([]);
  expect(new JobList()).toHaveLength(0);
});
