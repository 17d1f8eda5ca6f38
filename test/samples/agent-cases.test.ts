// What the agent met in the field, as ../shared/cases/agent has it; right.txt there says in words what is right.
import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it, test } from "vitest";
import type { Labels } from "../../lib/shared/exposition.ts";
import { parseDockerInspect } from "../../lib/agent/probes/docker-inspect.ts";
import { parseSaved } from "../../lib/agent/probes/registry.ts";
import { printed } from "../support/probe-fixtures.ts";

const folder = new URL("../../../shared/cases/agent/", import.meta.url);
const read = (file: string) => printed(readFileSync(new URL(file, folder), "utf8"));

/** Every sample of a saved output: its name without `gridmeter_`, what its labels hold, and its value. */
const samplesOf = (probe: string, file: string): readonly string[] =>
  parseSaved(probe, read(file)).metrics.flatMap(({ name, samples }) =>
    samples.map(({ labels, value }) => [name.replace("gridmeter_", ""), ...texts(labels), value].join(" ")),
  );
const texts = (labels: Labels): readonly string[] => Object.values(labels).filter((text) => text !== "");

if (existsSync(folder)) {
  describe("an output of the field is read right", () => {
    it.each<[string, string, readonly string[]]>([
      ["nvidia-smi", "nvsmi-handle-unknown-error/stdout.txt", ["gpu_lost 0000:CF:00.0 1"]],
      [
        "docker-daemon",
        "podman-docker-info/stdout.json",
        [
          "docker_up 1",
          "docker_info 5.8.4 overlay 1",
          "docker_containers running 4",
          "docker_containers paused 0",
          "docker_containers stopped 34",
          "docker_images 3",
        ],
      ],
      [
        "docker-stats",
        "docker-stats-unmeasured-cpu/stdout.txt",
        [
          "container_network_receive_bytes_total 2c77a952ceae one 176000",
          "container_network_transmit_bytes_total 2c77a952ceae one 146000",
        ],
      ],
      [
        "amd-smi",
        "amd-smi-json/metric_array.json",
        [
          "gpu_seen 1",
          "gpu_info 0 1",
          "gpu_utilization_ratio 0 0.42",
          "gpu_memory_controller_utilization_ratio 0 0.01",
        ],
      ],
      [
        "amd-smi",
        "amd-smi-json/metric_gpu_data.json",
        [
          "gpu_seen 1",
          "gpu_info 0 1",
          "gpu_utilization_ratio 0 0.07",
          "gpu_memory_controller_utilization_ratio 0 0.01",
          "gpu_temperature_celsius 0 junction 45",
          "gpu_temperature_celsius 0 memory 38",
          "gpu_power_watts 0 158",
        ],
      ],
    ])("%s: %s", (probe, file, right) => expect(samplesOf(probe, file)).toEqual(right));

    it("docker-inspect: CDI names of docker and podman", () => {
      const gpusOf = (file: string) => parseDockerInspect(read(`docker-inspect-cdi/${file}`)).value[0]?.gpus.nvidia;
      expect(gpusOf("docker.json")).toEqual([
        { by: "index", value: 0 },
        { by: "index", value: 1 },
      ]);
      expect(gpusOf("podman.json")).toBe("all");
    });
  });
} else {
  test("no cases are beside this checkout", () => expect(existsSync(folder)).toBe(false));
}
