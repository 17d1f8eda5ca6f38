import type { Metric } from "../../shared/exposition.ts";
import type { CommandFigures, ProbeFigures } from "../metrics/self.ts";
import { joinZombies } from "../probes/joins.ts";
import { withoutNoise } from "../probes/common/parse.ts";
import { psMetrics } from "../probes/ps.ts";
import type { JoinedMetrics, Readings } from "../probes/registry.ts";
import { OPENPAI_METRICS, type OpenPaiName, openPaiMetric, withSamples } from "./catalogue.ts";
import { type AmdDevice, amdMetrics, nvidiaMetrics, strangersOnGpus } from "./gpus.ts";
import { statsMetrics, taskGpuMetrics, trafficMetrics } from "./tasks.ts";

/** job-exporter's own threshold, bytes. */
const LARGE_RESIDENT = 500 * 1024 * 1024;

/**
 * The metrics of OpenPAI's job-exporter beside our own, so that its dashboards and alert rules keep working, by the probe in
 * whose group they are. OPENPAI_METRICS lists them, with what differs. What is not in `fresh` is absent, and so is whatever needs
 * it, never 0; counts of runs and durations stay. Pure.
 *
 * @param figures the account of each probe
 * @param node the value of `node_name`, where job-exporter has that label
 */
export function openPaiMetrics(
  fresh: Readings,
  figures: ReadonlyMap<string, ProbeFigures>,
  node: string,
): JoinedMetrics {
  const data: Readonly<Record<string, readonly Metric[]>> = {
    "docker-daemon": [dockerDaemonMetric(fresh.daemon?.up, figures.get("docker-daemon")?.result)],
    "docker-stats": statsMetrics(fresh),
    "docker-logs": zombieContainers(fresh),
    "nvidia-smi": nvidia(fresh, node),
    "amd-smi": amd(fresh.amdSmi, fresh),
    "rocm-smi": amd(fresh.amd?.report.gpus, fresh),
    iftop: trafficMetrics(fresh),
    ps: processes(fresh),
  };
  const groups = [...figures].map(
    ([probe, account]) => [probe, withSamples([...(data[probe] ?? []), ...accountMetrics(probe, account)])] as const,
  );
  return new Map(groups.filter(([, metrics]) => metrics.length > 0));
}

function nvidia(fresh: Readings, node: string): readonly Metric[] {
  const gpus = fresh.nvidia?.log.gpus;
  if (gpus === undefined) return [];
  return [...nvidiaMetrics(gpus, node), ...strangersOnGpus(fresh), ...taskGpuMetrics(gpus, "nvidia", fresh)];
}

function amd(gpus: readonly AmdDevice[] | undefined, fresh: Readings): readonly Metric[] {
  return gpus === undefined ? [] : [...amdMetrics(gpus), ...taskGpuMetrics(gpus, "amd", fresh)];
}

function zombieContainers({ logs, containers }: Readings): readonly Metric[] {
  const verdicts = joinZombies(logs, containers);
  const value = verdicts?.filter(({ zombie }) => zombie).length;
  return [openPaiMetric("zombie_container_count", [{ labels: { type: "job_exit_hangs" }, value }])];
}

function processes({ processes }: Readings): readonly Metric[] {
  if (processes === undefined) return [];
  const { all, longStanding } = processes;
  const own = psMetrics(all, { longStanding, largeResidentBytes: LARGE_RESIDENT });
  const renamed = (from: string, to: OpenPaiName, label: string): Metric =>
    openPaiMetric(
      to,
      (own.find(({ name }) => name === from)?.samples ?? []).map(({ labels, value }) => ({
        labels: { [label]: labels["command"] ?? "" },
        value,
      })),
    );
  return [
    renamed("gridmeter_process_uninterruptible", "zombie_process_count", "command"),
    renamed("gridmeter_process_largest_resident_bytes", "process_mem_usage_byte", "cmd"),
  ];
}

/** job-exporter's collectors, by the probes that do their work. */
const COLLECTORS: Readonly<Record<string, string>> = {
  "docker-daemon": "docker_daemon_collector",
  "docker-stats": "container_collector",
  "docker-logs": "zombie_collector",
  "nvidia-smi": "gpu_collector",
  "amd-smi": "gpu_collector",
  "rocm-smi": "gpu_collector",
  ps: "process_collector",
};

type Histogram = Extract<OpenPaiName, `cmd_${string}`>;

/** The histogram of each command, by the probe that runs it, in whose group it is; behind it, what the probe calls the command. */
const HISTOGRAMS: Readonly<Record<string, readonly [Histogram, ...(readonly string[])]>> = {
  "docker-daemon": ["cmd_docker_active_latency_seconds", "docker info", "systemctl"],
  "docker-stats": ["cmd_docker_stats_latency_seconds", "docker stats"],
  "docker-inspect": ["cmd_docker_inspect_latency_seconds", "docker inspect"],
  "docker-logs": ["cmd_docker_logs_latency_seconds", "docker logs"],
  "nvidia-smi": ["cmd_nvidia_smi_latency_seconds", "nvidia-smi"],
  "amd-smi": ["cmd_rocm_smi_latency_seconds", "amd-smi"],
  "rocm-smi": ["cmd_rocm_smi_latency_seconds", "rocm-smi"],
  iftop: ["cmd_iftop_latency_seconds", "iftop"],
  lsof: ["cmd_lsof_latency_seconds", "lsof"],
  ps: ["cmd_ps_latency_seconds", "ps"],
};

/** A histogram by its parts, which is all that Prometheus keeps of one. */
const histogram = (name: Histogram, { buckets, sum, count }: CommandFigures): readonly Metric[] => {
  const part = (suffix: string, samples: Metric["samples"]): Metric => ({
    name: `${name}_${suffix}`,
    help: OPENPAI_METRICS[name].help,
    type: "counter",
    samples,
  });
  return [
    part("bucket", [
      ...buckets.map(({ bound, count: atMost }) => ({ labels: { le: String(bound) }, value: atMost })),
      { labels: { le: "+Inf" }, value: count },
    ]),
    part("sum", [{ labels: {}, value: withoutNoise(sum) }]),
    part("count", [{ labels: {}, value: count }]),
  ];
};

/**
 * What job-exporter counts of one probe: its runs and how long its command took. It stays when data vanish; nothing while the
 * probe is disabled.
 */
const accountMetrics = (probe: string, { enabled, runs, commands }: ProbeFigures): readonly Metric[] => {
  if (!enabled) return [];
  const collector = COLLECTORS[probe];
  const settled = [...runs.values()].reduce((sum, each) => sum + each, 0);
  const [name, ...names] = HISTOGRAMS[probe] ?? [];
  const ran = commands.find(({ command, count }) => count > 0 && names.includes(command));
  return [
    ...(collector === undefined
      ? []
      : [openPaiMetric("collector_iteration_count_total", [{ labels: { name: collector }, value: settled }])]),
    ...(name === undefined || ran === undefined ? [] : histogram(name, ran)),
  ];
};

/**
 * Whether docker answers: `ok`, `daemon_down`, or what the last run came to. Absent where nobody knows: before the first run,
 * while the probe is disabled, and where systemd does not say.
 */
const dockerDaemonMetric = (up: boolean | undefined, result: ProbeFigures["result"]): Metric => {
  const error =
    result === undefined || result !== "ok" ? result : up === true ? "ok" : up === false ? "daemon_down" : undefined;
  return openPaiMetric("docker_daemon_count", error === undefined ? [] : [{ labels: { error }, value: 1 }]);
};
