import { describe, expect, it } from "vitest";
import { dockerFailure } from "../../lib/agent/probes/common/docker.ts";
import { dockerDaemonMetrics, parseDockerDaemon } from "../../lib/agent/probes/docker-daemon.ts";
import {
  type DockerContainer,
  dockerInspectMetrics,
  parseDockerInspect,
} from "../../lib/agent/probes/docker-inspect.ts";
import { parseDockerLogs } from "../../lib/agent/probes/docker-logs.ts";
import { type DockerStatsRow, dockerStatsMetrics, parseDockerStats } from "../../lib/agent/probes/docker-stats.ts";
import { ParseError } from "../../lib/agent/probes/common/parse.ts";
import { sameLabelsThroughout } from "../support/metrics.ts";
import { expectedOf, haveSamples, orNull, printed, readSample, rounded } from "../support/samples.ts";

type Row = Record<string, unknown>;

/** A row in the words of expected.json. */
const statsRow = (row: DockerStatsRow): Row => ({
  blk_in_b: rounded(row.readBytes),
  blk_out_b: rounded(row.writtenBytes),
  cpu_pct: rounded(row.cpu, 100),
  id: orNull(row.id),
  mem_limit_b: rounded(row.memoryLimitBytes),
  mem_pct: rounded(row.memoryUsage, 100),
  mem_used_b: rounded(row.memoryUsedBytes),
  name: orNull(row.name),
  net_in_b: rounded(row.receivedBytes),
  net_out_b: rounded(row.sentBytes),
  pids: orNull(row.processes),
  publish: row.measured,
});

const inspectRow = (one: DockerContainer, array: boolean): Row => ({
  GPU_ID_label: orNull(one.gpus.gpuIdLabel),
  NVIDIA_VISIBLE_DEVICES: orNull(one.gpus.nvidiaVisibleDevices),
  PAI_AMD_VISIBLE_DEVICES: orNull(one.gpus.paiAmdVisibleDevices),
  PAI_JOB_NAME: orNull(one.job.job),
  PAI_USER_NAME: orNull(one.job.user),
  array,
  container: orNull(one.container),
  env_count: one.environmentCount,
  id: (one.id ?? "").slice(0, 12),
  instance: orNull(one.job.instance),
  kubelet_managed: one.kubeletManaged,
  label_count: one.labelCount,
  // docker puts a slash in front, which is no part of the name
  name: one.name === undefined ? "" : `/${one.name}`,
  namespace: orNull(one.namespace),
  oom_killed: orNull(one.oomKilled),
  pid: orNull(one.pid),
  pod: orNull(one.pod),
  probe: "docker-inspect",
  restart_count: orNull(one.restartCount),
  role: orNull(one.job.role),
  started_at: orNull(one.startedAt),
  status: orNull(one.status),
  task_index: orNull(one.job.taskIndex),
  virtual_cluster: orNull(one.job.virtualCluster),
});

/** Which GPUs the samples' containers were given. expected.json has the settings only. */
const GPUS: Record<string, unknown> = {
  "docker_inspect_sample_pai.json": [0, 1],
  "inspect_result_bug_fix_pai.json": [3, 2, 1, 0],
  "docker_inspect_kube_launcher_task_pai.json": ["GPU-dc0671b0-61a4-443e-f456-f8fa6359b788"],
  "dlts_docker_inspect_pai.json": ["GPU-7c583998-b3ff-a885-8979-2d32d334cde4"],
  "docker_inspect_amd_pai.json": [0, 1],
  "docker_inspect_running_telegraf.json": null,
};

if (haveSamples) {
  const stats = expectedOf<{ publish_count: number; row_count: number; rows: Row[] }>(/^(docker|podman)_stats_/);
  const inspects = expectedOf<Row>(/inspect/);

  describe("real outputs of docker", () => {
    it("are all looked at", () => {
      const others = expectedOf(/docker|podman|inspect/).filter(
        ([file]) => !/^(docker|podman)_stats_|inspect/.test(file),
      );
      expect([stats.length, inspects.length]).toEqual([7, 6]);
      expect(others.map(([file]) => file).sort()).toEqual([
        // the daemon's API, which no probe asks
        "docker_api_stats_telegraf.json",
        "docker_error_daemon_down.txt",
        "docker_error_permission_denied.txt",
        "docker_info_telegraf.json",
      ]);
    });

    it.each(stats)("%s: every expected value, and no other", (file, expected) => {
      const { value, rejected } = parseDockerStats(printed(readSample(file)));
      expect(value).toHaveLength(expected.row_count);
      expect(rejected).toBe(0);
      expect(value.filter(({ measured }) => measured)).toHaveLength(expected.publish_count);
      for (const [index, row] of value.entries()) {
        // podman's and old docker's rows lack some columns, and only say why one is not published
        const { why, ...wanted } = expected.rows[index]!;
        const own = statsRow(row);
        expect(own).toMatchObject(wanted);
        const extra = Object.keys(own).filter((key) => !(key in wanted) && own[key] !== null);
        expect(extra.filter((key) => !["publish", "net_out_b", "blk_out_b"].includes(key))).toEqual([]);
        expect(why === undefined || !row.measured).toBe(true);
      }
    });

    it.each(stats)("%s: as many published containers as expected", (file, expected) => {
      const metrics = dockerStatsMetrics(parseDockerStats(printed(readSample(file))).value);
      sameLabelsThroughout(metrics);
      const cpu = metrics.find(({ name }) => name === "gridmeter_container_cpu_usage_ratio");
      expect(cpu?.samples.length ?? 0).toBe(expected.publish_count);
    });

    it.each(inspects)("%s: every expected value, and no other", (file, expected) => {
      const text = readSample(file);
      const { value, rejected } = parseDockerInspect(printed(text));
      expect(rejected).toBe(0);
      expect(value.map((one) => inspectRow(one, Array.isArray(JSON.parse(text))))).toEqual([expected]);
      sameLabelsThroughout(dockerInspectMetrics(value));
    });

    it.each(inspects)("%s: the GPUs it was given", (file) => {
      const [one] = parseDockerInspect(printed(readSample(file))).value;
      const { nvidia } = one!.gpus;
      expect(nvidia === "all" ? nvidia : orNull(nvidia?.map(({ value }) => value))).toEqual(GPUS[file]);
      const amd = file === "docker_inspect_amd_pai.json" ? [0, 1] : undefined;
      expect(one!.gpus.amd === "all" ? "all" : one!.gpus.amd?.map(({ value }) => value)).toEqual(amd);
    });

    it("docker info: every expected value", () => {
      const [[file, expected]] = expectedOf<Row>(/docker_info/) as [[string, Row]];
      const { value } = parseDockerDaemon(printed(readSample(file)));
      expect({
        Containers: value.info?.containers,
        ContainersRunning: value.info?.running,
        Driver: value.info?.storageDriver,
        ServerVersion: value.info?.serverVersion,
        probe: "docker-info",
      }).toEqual(expected);
      expect(value.up).toBe(true);
      sameLabelsThroughout(dockerDaemonMetrics(value));
    });

    it.each([
      ["docker_error_daemon_down.txt", "daemon_down"],
      ["docker_error_permission_denied.txt", "permission_denied"],
    ])("%s: no data, and the reason %s", (file, reason) => {
      const output = printed("", 1, readSample(file));
      expect(dockerFailure(output)).toBe(reason);
      expect(() => parseDockerStats(output)).toThrow(ParseError);
      expect(() => parseDockerInspect(output)).toThrow(ParseError);
      expect(() => parseDockerLogs(output, "END")).toThrow(reason);
    });
  });
} else {
  it("has no shared samples here: the fixtures of test/unit/probes cover the same shapes", () => {
    expect(haveSamples).toBe(false);
  });
}
