import { describe, expect, test } from "vitest";
import { parseSaved } from "../../../../lib/agent/probes/registry.ts";
import type { ProbeSettings } from "../../../../lib/agent/probes/common/settings.ts";
import { ParseError } from "../../../../lib/agent/probes/common/parse.ts";
import { fixture, printed } from "../../../support/probe-fixtures.ts";

const CASES: readonly (readonly [name: string, file: string, metric: string, samples: number, rejected: number])[] = [
  ["docker-daemon", "docker-info.json", "gridmeter_docker_up", 1, 0],
  ["docker-daemon", "podman-info.json", "gridmeter_docker_containers", 3, 0],
  ["docker-stats", "podman-stats.json", "gridmeter_container_cpu_usage_ratio", 3, 0],
  ["docker-inspect", "podman-inspect.json", "gridmeter_container_info", 2, 0],
  ["docker-stats", "docker-stats.jsonl", "gridmeter_container_cpu_usage_ratio", 2, 2],
  ["docker-inspect", "docker-inspect.json", "gridmeter_container_info", 2, 0],
  ["nvidia-smi", "nvidia-smi-v13-lost.xml", "gridmeter_gpu_info", 2, 2],
  ["amd-smi", "amd-smi-7-metric.json", "gridmeter_gpu_info", 2, 1],
  ["rocm-smi", "rocm-smi-3-keys.json", "gridmeter_gpu_info", 2, 1],
  ["iftop", "iftop.txt", "gridmeter_network_flows", 1, 1],
  ["lsof", "lsof.txt", "gridmeter_network_container_sockets", 1, 1],
  ["ps", "ps.txt", "gridmeter_process_states", 9, 1],
  ["crictl-stats", "crictl-stats.json", "gridmeter_container_memory_used_bytes", 1, 1],
  ["rooms", "custom.prom", "lab_rooms", 2, 17],
];

describe("a saved output", () => {
  test.each(CASES)("of %s is read", (name, file, metric, samples, rejected) => {
    const saved = parseSaved(name, printed(fixture(file)));
    expect(saved.metrics.find((one) => one.name === metric)?.samples).toHaveLength(samples);
    expect(saved.rejected).toBe(rejected);
    expect(JSON.parse(JSON.stringify(saved.parsed))).toBeTruthy();
  });

  test.each(CASES)("of %s that is something else is an error", (name) => {
    expect(() => parseSaved(name, printed("{[ 12 -- %%\nnot it\n"))).toThrow(ParseError);
    expect(() => parseSaved(name, printed("", 9, "it failed"))).toThrow(/exited with 9/);
  });

  test("of docker logs needs a marker", () => {
    const log = printed("epoch 9\nUSER COMMAND END\n");
    const read = (settings: ProbeSettings) => parseSaved("docker-logs", log, settings);
    expect(read({ marker: "USER COMMAND END" })).toMatchObject({ parsed: { finished: true }, rejected: 0 });
    expect(read({ marker: "BYE" }).metrics[0]?.samples.map(({ value }) => value)).toStrictEqual([0]);
    expect(() => read({})).toThrow("docker-logs has no marker. The log was not read");
    expect(() => read({ marker: "" })).toThrow('marker of the probe docker-logs is ""');
  });

  test("of nvidia-smi comes with the GPUs that are expected", () => {
    const { metrics } = parseSaved("nvidia-smi", printed(fixture("nvidia-smi-v12-mig.xml")), { expectedGpus: 0 });
    expect(metrics.find(({ name }) => name === "gridmeter_gpu_expected")?.samples).toStrictEqual([
      { labels: {}, value: 0 },
    ]);
  });
});
