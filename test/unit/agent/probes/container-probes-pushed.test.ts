import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Metric } from "../../../../lib/shared/exposition.ts";
import { parseCustom } from "../../../../lib/agent/probes/custom.ts";
import { dockerStatsMetrics, parseDockerStats } from "../../../../lib/agent/probes/docker-stats.ts";
import { ParseError } from "../../../../lib/agent/probes/common/parse.ts";
import { exposition } from "../../../support/exposition.ts";
import { mutated } from "../../../support/mutated.ts";
import { fixture, printed } from "../../../support/probe-fixtures.ts";
import { startPushgateway, type PushgatewayServer } from "../../../support/pushgateway-server.ts";

const RUNS = 150;

let gateway: PushgatewayServer;
beforeAll(async () => {
  gateway = await startPushgateway();
});
afterAll(() => gateway.stop());

const push = async (probe: string, metrics: readonly Metric[]): Promise<string> => {
  const url = `${gateway.url}/metrics/job/gridmeter/instance/node/probe/${probe}`;
  const reply = await fetch(url, { method: "PUT", body: exposition(metrics) });
  return reply.ok ? "" : `${reply.status} ${await reply.text()}`;
};

/** The metrics of an output; undefined where it is refused. */
const metricsOf = (read: () => readonly Metric[]): readonly Metric[] | undefined => {
  try {
    return read();
  } catch (error) {
    if (error instanceof ParseError) return undefined;
    throw error;
  }
};

describe("the real Pushgateway takes all that was read, whatever was printed", () => {
  it.each([
    ["custom", fixture("custom.prom"), (text: string) => parseCustom(printed(text)).value],
    [
      "docker-stats",
      fixture("docker-stats.jsonl"),
      (text: string) => dockerStatsMetrics(parseDockerStats(printed(text)).value),
    ],
  ])("%s", async (probe, seed, read) => {
    expect(await push(probe, read(seed))).toBe("");
    let pushed = 0;
    await fc.assert(
      fc.asyncProperty(mutated([seed]), async (text) => {
        const metrics = metricsOf(() => read(text));
        if (metrics === undefined) return;
        pushed += 1;
        expect(await push(probe, metrics)).toBe("");
      }),
      { numRuns: RUNS },
    );
    expect(pushed).toBeGreaterThan(RUNS / 2);
  });

  it("would not take what a custom command may not print", async () => {
    const body = (text: string) =>
      fetch(`${gateway.url}/metrics/job/raw`, { method: "PUT", body: text }).then(({ status }) => status);
    expect(await body('go_goroutines{x="1"} 1\n')).toBe(400);
    expect(await body("a 1 1700000000000\n")).toBe(400);
    expect(await body("a 1\na 2\n")).toBe(400);
  });
});
