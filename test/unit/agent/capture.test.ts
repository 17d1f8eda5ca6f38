import { PassThrough } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { Capture } from "../../../lib/agent/command/start.ts";

async function taken(chunks: readonly Buffer[], maxBytes: number) {
  const stream = new PassThrough();
  let tooLarge = 0;
  const capture = new Capture(stream, maxBytes, () => tooLarge++);
  for (const chunk of chunks) {
    if (!stream.destroyed) stream.write(chunk);
    await nextTurn();
  }
  return { text: capture.text(), tooLarge, closed: stream.destroyed };
}

test("keeps all up to the cap, whatever pieces it comes in, and nothing beyond", async () => {
  const pieces = fc.array(fc.uint8Array({ maxLength: 20_000 }), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(pieces, fc.integer({ min: 1, max: 100_000 }), async (arrays, maxBytes) => {
      const chunks = arrays.map((array) => Buffer.from(array));
      const all = Buffer.concat(chunks);
      const fits = all.length <= maxBytes;
      expect(await taken(chunks, maxBytes)).toStrictEqual({
        text: fits ? all.toString("utf8") : "",
        tooLarge: fits ? 0 : 1,
        closed: !fits,
      });
    }),
    { numRuns: 200 },
  );
});

test("a character cut in two by the pipe is whole again", async () => {
  const euro = Buffer.from("€");
  expect((await taken([euro.subarray(0, 1), euro.subarray(1)], 10)).text).toBe("€");
});

test("goes on reading after a drop, so that the child is not blocked", async () => {
  const stream = new PassThrough({ highWaterMark: 10 });
  const capture = new Capture(stream, 5, () => expect.fail("nothing is counted any more"));
  capture.drop();
  for (let write = 0; write < 100; write++) stream.write("0123456789");
  await nextTurn();
  expect(stream.readableLength).toBe(0);
  expect(stream.destroyed).toBe(false);
  expect(capture.text()).toBe("");
});
