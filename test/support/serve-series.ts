import { post } from "../../bench/accounting/fill.ts";
import { WriteRequest } from "../../bench/accounting/remote-write.ts";
import { samples } from "../simulator/index.ts";
import type { Series } from "../simulator/index.ts";
import { startPrometheus } from "./prometheus-server.ts";
import type { PrometheusServer } from "./prometheus-server.ts";

/** Prometheus takes series in any order if no sample is older than its newest by more than half a block. */
const BLOCK_HOURS = 24 * 365;

/** The real Prometheus with a simulated cluster's series. They come by remote write, four times faster than as a text. */
export async function serveSeries(
  series: Iterable<Series>,
  extraFlags: readonly string[] = [],
): Promise<PrometheusServer> {
  const server = await startPrometheus({
    extraFlags: [
      "--web.enable-remote-write-receiver",
      `--storage.tsdb.min-block-duration=${BLOCK_HOURS}h`,
      `--storage.tsdb.max-block-duration=${BLOCK_HOURS}h`,
      ...extraFlags,
    ],
  });
  try {
    await write(series, server.url);
    return server;
  } catch (thrown) {
    await server.stop();
    throw thrown;
  }
}

async function write(series: Iterable<Series>, url: string): Promise<void> {
  const request = new WriteRequest();
  const send = async (): Promise<void> => {
    const body = request.take();
    if (body !== undefined) await post(url, body);
  };
  for (const one of series) {
    for (const part of parts(one)) {
      request.add(labelsOf(one), (sample) => part.forEach(([time, value]) => sample(time, value)));
      if (request.full) await send();
    }
  }
  await send();
}

const labelsOf = ({ name, labels }: Series): [string, string][] =>
  Object.entries({ __name__: name, ...labels }).sort(([a], [b]) => (a < b ? -1 : 1));

/** A series' samples in parts of which one fits into what is left of a body. */
function* parts(series: Series): Generator<(readonly [number, number])[]> {
  let part: (readonly [number, number])[] = [];
  for (const sample of samples(series)) {
    part.push(sample);
    if (part.length < 2000) continue;
    yield part;
    part = [];
  }
  if (part.length > 0) yield part;
}
