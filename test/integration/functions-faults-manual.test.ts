// `manual` with names that somebody may give a file, and events that are none: in this process, against moto.
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand } from "@aws-sdk/client-s3";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { logger } from "../../functions/common/runtime.ts";
import { manualFiles } from "../../functions/manual.ts";
import { NOW, summaryBody, unit } from "../support/dirq-messages.ts";
import { deployed, eventFile, newest, startDeployable } from "../support/functions-world.ts";
import type { Deployed } from "../support/functions-world.ts";
import type { Moto } from "../support/moto.ts";

vi.hoisted(() => {
  Object.assign(process.env, { POWERTOOLS_LOG_LEVEL: "SILENT", POWERTOOLS_METRICS_DISABLED: "true" });
});

let moto: Moto;
let one: Deployed;
beforeAll(async () => {
  moto = await startDeployable();
});
afterAll(() => moto.stop());
beforeEach(async () => {
  one = await deployed(moto, "http://127.0.0.1:9");
});

const GOOD = summaryBody(unit, 3);
const put = (Key: string, Body = GOOD) => moto.s3.send(new PutObjectCommand({ Bucket: one.bucket, Key, Body }));
/** A key as S3 writes it into its events: as a form would. */
const asForm = (key: string): string => encodeURIComponent(key).replaceAll("%2F", "/").replaceAll("%20", "+");
const eventOf = (...keys: readonly string[]) => ({
  Records: keys.map((key) => ({ s3: { bucket: { name: one.bucket }, object: { key } } })),
});
const run = (event: unknown) => manualFiles(event, NOW, one.parts);
async function files(): Promise<readonly string[]> {
  const { Contents = [] } = await moto.s3.send(
    new ListObjectsV2Command({ Bucket: one.bucket, Prefix: "manual/", MaxKeys: 100 }),
  );
  return Contents.map(({ Key }) => Key!).filter((key) => /^manual\/(incoming|accepted|refused)\//.test(key));
}

test.each(["a b+c&d=e%20(v2).apel", "größe \u{1F600}", "folder//../.a.v0000000001", "back\\slash \"' <x>"])(
  "whatever its name, a good file is sent and moved under it: %j",
  async (name) => {
    await put(`manual/incoming/${name}`);
    const event = eventOf(asForm(`manual/incoming/${name}`));
    expect(await run(event)).toMatchObject({ files: [{ outcome: "accepted", sent: 1 }] });
    expect(await files()).toEqual([`manual/accepted/${name}`]);
    expect((await newest(one.store, unit.month)).messages).toEqual([GOOD]);
  },
);

test("a name that leaves no room for a reason beside it: the file is kept under another, and the log says which", async () => {
  const warn = vi.spyOn(logger, "warn");
  const name = "0".repeat(1024 - "manual/incoming/".length);
  await put(`manual/incoming/${name}`, "nonsense");
  expect(await run(eventOf(`manual/incoming/${name}`))).toMatchObject({ files: [{ outcome: "refused" }] });
  const [kept = "", reason] = await files();
  expect(kept).toMatch(/^manual\/refused\/[0-9a-f]{64}$/);
  expect(reason).toBe(`${kept}.reason.txt`);
  expect(warn).toHaveBeenCalledWith(expect.stringContaining(`is kept as ${kept.slice(-64)}`));
  const { Body } = await moto.s3.send(new GetObjectCommand({ Bucket: one.bucket, Key: kept }));
  expect(await Body!.transformToString()).toBe("nonsense");
  warn.mockRestore();
});

test("a key that is none is told of as an error and not tried again; the event's other files go on", async () => {
  const error = vi.spyOn(logger, "error");
  await put("manual/incoming/good");
  const keys = ["manual/incoming/%ZZ", "manual/incoming/%E0%A4", "", "manual/incoming/good", "manual/incoming/gone"];
  expect((await run(eventOf(...keys))).files.map(({ outcome }) => outcome)).toEqual([
    "ignored",
    "ignored",
    "ignored",
    "accepted",
    "gone",
  ]);
  expect(error.mock.calls.map(([text]) => text)).toEqual([
    expect.stringMatching(/"manual\/incoming\/%ZZ".*Nothing was sent; put the file/),
    expect.stringContaining("%E0%A4"),
  ]);
  error.mockRestore();
});

test("an event that is none of S3 is refused, quoted, and nothing is done", async () => {
  await put("manual/incoming/good");
  const events = [undefined, {}, { Records: {} }, { Records: [{}] }, { Service: "Amazon S3", Event: "s3:TestEvent" }];
  for (const event of events) {
    await expect(run(event)).rejects.toMatchObject({ code: "config_invalid", retryable: false });
    await expect(run(event)).rejects.toThrow(/is none of S3.*No record was sent/);
  }
  await expect(run({ Event: "s3:TestEvent" })).rejects.toThrow('{"Event":"s3:TestEvent"}');
  // The example names another bucket.
  expect(await run(await eventFile("manual-s3"))).toMatchObject({ files: [{ outcome: "ignored" }] });
  expect(await files()).toEqual(["manual/incoming/good"]);
});
