import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { post } from "../../bench/accounting/fill.ts";
import { WriteRequest } from "../../bench/accounting/remote-write.ts";
import { samples, writeOpenMetrics } from "../simulator/index.ts";
import type { Series } from "../simulator/index.ts";
import { startPrometheus } from "./prometheus-server.ts";
import type { PrometheusServer } from "./prometheus-server.ts";

/** The real Prometheus with a simulated cluster's series. */
export async function serveSeries(
  series: readonly Series[],
  extraFlags: readonly string[] = [],
  blockHours?: number,
): Promise<PrometheusServer> {
  const folder = await mkdtemp(join(tmpdir(), "gridmeter-series-"));
  try {
    const file = join(folder, "series.om");
    await writeOpenMetrics(series, file);
    return await startPrometheus({
      openmetrics: file,
      extraFlags,
      ...(blockHours === undefined ? {} : { blockHours }),
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** More than all that is written reaches over: nothing is too old for the database while it takes it, in whatever order. */
const ONE_BLOCK_HOURS = 24 * 365;

/** The same over remote write, several times faster where there are many long series. Labels and values of less than 128 letters. */
export async function serveManySeries(all: Iterable<Series>): Promise<PrometheusServer> {
  const server = await startPrometheus({
    extraFlags: [
      "--web.enable-remote-write-receiver",
      `--storage.tsdb.min-block-duration=${ONE_BLOCK_HOURS}h`,
      `--storage.tsdb.max-block-duration=${ONE_BLOCK_HOURS}h`,
    ],
  });
  try {
    const request = new WriteRequest();
    const send = async (): Promise<void> => {
      const body = request.take();
      if (body !== undefined) await post(server.url, body);
    };
    for (const one of all) {
      for (const part of parts(one)) {
        request.add(labelsOf(one), (sample) => part.forEach(([time, value]) => sample(time, value)));
        if (request.full) await send();
      }
    }
    await send();
    return server;
  } catch (thrown) {
    await server.stop();
    throw thrown;
  }
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
