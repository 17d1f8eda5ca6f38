import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeOpenMetrics } from "../simulator/index.ts";
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
