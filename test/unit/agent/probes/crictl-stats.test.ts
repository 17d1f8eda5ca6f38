import { describe, expect, it } from "vitest";
import { crictlStatsMetrics, parseCrictlStats } from "../../../../lib/agent/probes/crictl-stats.ts";
import { ParseError } from "../../../../lib/agent/probes/common/parse.ts";
import { sameLabelsThroughout, valuesBy } from "../../../support/metrics.ts";
import { fixture, printed } from "../../../support/probe-fixtures.ts";

const ID = `0a1b2c3d4e5f${"a".repeat(52)}`;

describe("crictl stats", () => {
  const { value, rejected } = parseCrictlStats(printed(fixture("crictl-stats.json")));

  it("reads values and the kubelet's names; a container without values is there, with none", () => {
    expect(rejected).toBe(1);
    expect(value).toEqual([
      {
        id: ID,
        name: "app",
        namespace: "lab",
        pod: "job-worker-0",
        container: "app",
        cpuSeconds: 2.65625,
        cpu: 1.5,
        memoryUsedBytes: 25_317_376,
        residentBytes: 1024,
        writableLayerBytes: 0,
      },
      expect.objectContaining({ name: "new", pod: undefined, cpuSeconds: undefined, memoryUsedBytes: undefined }),
    ]);
  });

  it("publishes under docker's names, with the same short id", () => {
    const metrics = crictlStatsMetrics(value);
    sameLabelsThroughout(metrics);
    expect(valuesBy(metrics, "gridmeter_container_memory_used_bytes", "container_id")).toEqual({
      "0a1b2c3d4e5f": 25_317_376,
    });
    expect(valuesBy(metrics, "gridmeter_container_writable_layer_used_bytes", "pod")).toEqual({ "job-worker-0": 0 });
  });

  it("is empty without containers, and no data when it fails", () => {
    expect(parseCrictlStats(printed('{"stats":[]}'))).toEqual({ value: [], rejected: 0 });
    expect(parseCrictlStats(printed('{"stats":null}'))).toEqual({ value: [], rejected: 0 });
    expect(() => parseCrictlStats(printed("", 1, "connect: no such file"))).toThrow("no such file");
    for (const text of ["", "{}", "CONTAINER CPU %", '{"stats":[1]}', '{"stats":{}}']) {
      expect(() => parseCrictlStats(printed(text))).toThrow(ParseError);
    }
  });
});
