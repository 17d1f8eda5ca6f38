import type { CommandFigures } from "./meta-commands.ts";
import type { ProbeFigures } from "./meta-probe.ts";
import { OPENPAI_METRICS, type OpenPaiName } from "./openpai-catalogue.ts";
import { openPaiMetric } from "./openpai-metric.ts";
import type { Metric } from "./types.ts";

/** job-exporter's collectors, by the probes that do their work. */
const COLLECTORS: Readonly<Record<string, string>> = {
  "docker-daemon": "docker_daemon_collector",
  "docker-stats": "container_collector",
  "docker-logs": "zombie_collector",
  "nvidia-smi": "gpu_collector",
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
    part("sum", [{ labels: {}, value: sum }]),
    part("count", [{ labels: {}, value: count }]),
  ];
};

/**
 * What job-exporter counts of one probe: its runs and how long its command took. It stays when data vanish; nothing while the
 * probe is disabled.
 */
export const accountMetrics = (probe: string, { enabled, runs, commands }: ProbeFigures): readonly Metric[] => {
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
export const dockerDaemonMetric = (up: boolean | undefined, result: ProbeFigures["result"]): Metric => {
  const error =
    result === undefined || result !== "ok" ? result : up === true ? "ok" : up === false ? "daemon_down" : undefined;
  return openPaiMetric("docker_daemon_count", error === undefined ? [] : [{ labels: { error }, value: 1 }]);
};
