import { psMetrics } from "../probes/ps-metrics.ts";
import { joinZombies } from "../probes/join.ts";
import type { JoinedMetrics, Readings } from "../probes/readings.ts";
import type { ProbeFigures } from "./meta-probe.ts";
import { accountMetrics, dockerDaemonMetric } from "./openpai-account.ts";
import type { OpenPaiName } from "./openpai-catalogue.ts";
import { amdMetrics, nvidiaMetrics, strangersOnGpus } from "./openpai-gpus.ts";
import { openPaiMetric, withSamples } from "./openpai-metric.ts";
import { statsMetrics, taskGpuMetrics, trafficMetrics } from "./openpai-tasks.ts";
import type { Metric } from "./types.ts";

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
    "rocm-smi": amd(fresh),
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

function amd(fresh: Readings): readonly Metric[] {
  const gpus = fresh.amd?.report.gpus;
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
