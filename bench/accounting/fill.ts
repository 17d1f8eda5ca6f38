import pLimit from "p-limit";
import { WriteRequest } from "./remote-write.ts";
import { eachSample, seriesIn } from "./series.ts";
import { HOUR, type Layout } from "./shape.ts";

/** Samples are written slice by slice: Prometheus takes none that are older than its newest by half a block's length. */
const SLICE = 6 * HOUR;
const IN_FLIGHT = 2;

/** Writes all samples of a layout to a Prometheus that takes remote writes. Gives their number. */
export async function fill(url: string, layout: Layout, tell: (hours: number, of: number) => void): Promise<number> {
  const { from, to } = layout;
  const limit = pLimit(IN_FLIGHT);
  const request = new WriteRequest();
  let samples = 0;
  for (let slice = from; slice < to; slice += SLICE) {
    const sent: Promise<void>[] = [];
    const send = async (): Promise<void> => {
      samples += request.samples;
      const body = request.take();
      if (body === undefined) return;
      sent.push(limit(() => post(url, body)));
      // Not far ahead of the server, or the bodies would pile up in memory.
      if (limit.pendingCount > 0) await sent.at(-2);
    };
    const stretch = { from: slice, to: slice + SLICE };
    for (const series of seriesIn(layout, stretch.from, stretch.to)) {
      request.add(series.labels, (sample) => eachSample(series, layout, stretch, sample));
      if (request.full) await send();
    }
    await send();
    // Within a series samples must come in order, so the next slice waits for this one.
    await Promise.all(sent);
    tell(Math.round((Math.min(to, slice + SLICE) - from) / HOUR), Math.round((to - from) / HOUR));
  }
  return samples;
}

/** Writes one body. */
export async function post(url: string, body: Uint8Array<ArrayBuffer>): Promise<void> {
  const answer = await fetch(`${url}/api/v1/write`, {
    method: "POST",
    headers: { "content-type": "application/x-protobuf", "content-encoding": "snappy" },
    body,
  });
  if (!answer.ok) throw new Error(`Prometheus refused samples (${answer.status}): ${await answer.text()}`);
  await answer.body?.cancel();
}
