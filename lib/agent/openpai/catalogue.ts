import type { Labels, Metric } from "../../shared/exposition.ts";
import { type FamilyEntry, counter, gauge, histogram } from "../probes/common/metric-families.ts";
import { withoutNoise } from "../probes/common/parse.ts";

/** A metric of OpenPAI's job-exporter as this agent publishes it. A histogram is published as its three parts, each with a header. */
export type OpenPaiEntry = FamilyEntry & {
  /** the probes that publish it */
  readonly probes: readonly string[];
  /** our own metrics that say the same */
  readonly ours: readonly string[];
  /** what differs from job-exporter, in words for operators */
  readonly difference?: string;
};

const TASK = ["username", "job_name", "role_name", "task_index", "job_instance_id", "virtual_cluster"] as const;
const SERVICE = ["name"] as const;
const CARD = ["minor_number"] as const;

const nvidia = (help: string, labels: readonly string[], ours: readonly string[], difference?: string) => ({
  ...gauge(help, labels),
  probes: ["nvidia-smi"],
  ours,
  ...(difference === undefined ? {} : { difference }),
});
const amd = (help: string, labels: readonly string[], ours: readonly string[], difference?: string) => ({
  ...nvidia(help, labels, ours, difference),
  probes: ["amd-smi", "rocm-smi"],
});
const anyGpu = (help: string, labels: readonly string[], ours: readonly string[], difference?: string) => ({
  ...nvidia(help, labels, ours, difference),
  probes: ["nvidia-smi", "amd-smi", "rocm-smi"],
});
const stats = (help: string, labels: readonly string[], ours: string) => ({
  ...gauge(help, labels),
  probes: ["docker-stats"],
  ours: [ours],
});
const traffic = (help: string, labels: readonly string[], ours: string) => ({
  ...gauge(help, labels),
  probes: ["iftop"],
  ours: [ours],
  difference: "bytes a second in spite of the name, as there; absent where iftop or lsof failed, and not 0",
});
const latency = (command: string, ...probes: readonly string[]): OpenPaiEntry => ({
  ...histogram(`How long ${command} ran, in seconds.`),
  probes,
  ours: ["gridmeter_command_duration_seconds"],
  difference: "its buckets go beyond the timeout, and not to 10 s",
});

const USED = ["gridmeter_gpu_memory_used_bytes", "gridmeter_gpu_memory_total_bytes"] as const;

/**
 * Every metric of job-exporter that this agent can publish beside its own (`--openpai-names`), under the same name and with the
 * same labels but for what `difference` says. A name has one type and one help text everywhere.
 */
export const OPENPAI_METRICS = {
  gpu_utilization: anyGpu(
    "Use of the GPU in percent; vender is nvidia or amd.",
    [...CARD, "vender"],
    ["gridmeter_gpu_utilization_ratio"],
    "absent under MIG, where the driver does not know it",
  ),
  gpu_mem_utilization: anyGpu("GPU memory in use in percent; vender is nvidia or amd.", [...CARD, "vender"], USED),
  nvidiasmi_utilization_gpu: nvidia("Use of the GPU in percent.", CARD, ["gridmeter_gpu_utilization_ratio"]),
  nvidiasmi_utilization_memory: nvidia("GPU memory in use in percent.", CARD, USED),
  nvidiasmi_temperature: nvidia("Temperature of the GPU in degrees Celsius.", CARD, [
    "gridmeter_gpu_temperature_celsius",
  ]),
  nvidiasmi_ecc_error_count: nvidia(
    "Memory errors since the driver was loaded: type single is corrected, double uncorrected.",
    ["node_name", ...CARD, "type"],
    ["gridmeter_gpu_ecc_errors_total"],
    "counts on GPUs since Turing too, where job-exporter always said 0",
  ),
  nvidiasmi_memory_leak_count: nvidia(
    "1 for a GPU whose memory is in use by no process.",
    CARD,
    [...USED, "gridmeter_gpu_processes"],
    "compares bytes with bytes (20 MiB), so that it can be there at all; never where the processes could not be read, nor under MIG",
  ),
  nvidiasmi_performance_state: nvidia(
    "Performance state, with the reasons that hold clocks down.",
    ["node_name", ...CARD, "clocks_throttle_reasons"],
    ["gridmeter_gpu_performance_state", "gridmeter_gpu_clocks_event_reason"],
    "reads the reasons of drivers since 535 too; absent where the driver gives none, as an empty label means that there is none",
  ),
  rocmsmi_utilization_gpu: amd("Use of the GPU in percent.", CARD, ["gridmeter_gpu_utilization_ratio"]),
  rocmsmi_utilization_memory: amd("GPU memory in use in percent.", CARD, USED),
  rocmsmi_temperature: amd(
    "Temperature of the GPU in degrees Celsius.",
    CARD,
    ["gridmeter_gpu_temperature_celsius"],
    "the junction's where there is no sensor at the edge",
  ),
  gpu_used_by_external_process_count: nvidia(
    "Processes outside any container that hold the GPU.",
    CARD,
    ["gridmeter_gpu_external_processes"],
    "without the label pid, and with the count as the value: a series for each process has no bound",
  ),
  gpu_used_by_zombie_container_count: nvidia(
    "1 for a container that outlived its job and holds the GPU.",
    [...CARD, "container_id"],
    ["gridmeter_gpu_zombie_container_processes"],
    "container_id has 12 digits",
  ),

  task_cpu_percent: stats("CPU that the task uses; 100 is one core.", TASK, "gridmeter_container_cpu_usage_ratio"),
  task_mem_usage_byte: stats("Memory that the task uses.", TASK, "gridmeter_container_memory_used_bytes"),
  task_mem_usage_percent: stats("The same in percent of the limit.", TASK, "gridmeter_container_memory_usage_ratio"),
  task_mem_limit_byte: stats("Memory that the task may use.", TASK, "gridmeter_container_memory_limit_bytes"),
  task_block_in_byte: stats("Bytes that the task read from disks.", TASK, "gridmeter_container_block_read_bytes_total"),
  task_block_out_byte: stats(
    "Bytes that the task wrote to disks.",
    TASK,
    "gridmeter_container_block_write_bytes_total",
  ),
  task_net_in_byte: traffic("Received.", TASK, "gridmeter_network_container_receive_bytes_per_second"),
  task_net_out_byte: traffic("Sent.", TASK, "gridmeter_network_container_transmit_bytes_per_second"),
  task_gpu_percent: anyGpu(
    "Use of a GPU that the task was given, in percent.",
    [...TASK, ...CARD],
    ["gridmeter_gpu_utilization_ratio", "gridmeter_container_gpu_assigned"],
  ),
  task_gpu_mem_percent: anyGpu(
    "Memory in use of a GPU that the task was given, in percent.",
    [...TASK, ...CARD],
    [...USED, "gridmeter_container_gpu_assigned"],
  ),
  service_cpu_percent: stats("CPU in use; 100 is one core.", SERVICE, "gridmeter_container_cpu_usage_ratio"),
  service_mem_usage_byte: stats("Memory in use.", SERVICE, "gridmeter_container_memory_used_bytes"),
  service_mem_usage_percent: stats("The same in percent.", SERVICE, "gridmeter_container_memory_usage_ratio"),
  service_mem_limit_byte: stats("Memory it may use.", SERVICE, "gridmeter_container_memory_limit_bytes"),
  service_block_in_byte: stats("Bytes read.", SERVICE, "gridmeter_container_block_read_bytes_total"),
  service_block_out_byte: stats("Bytes written.", SERVICE, "gridmeter_container_block_write_bytes_total"),
  service_net_in_byte: traffic("Received.", SERVICE, "gridmeter_network_container_receive_bytes_per_second"),
  service_net_out_byte: traffic("Sent.", SERVICE, "gridmeter_network_container_transmit_bytes_per_second"),

  docker_daemon_count: {
    ...gauge("Always 1; error is ok or why the docker daemon did not answer.", ["error"]),
    probes: ["docker-daemon"],
    ours: ["gridmeter_docker_up", "gridmeter_probe_result"],
    difference:
      "error is one of a few words (ok, daemon_down, timeout, exit_nonzero ...) and not the text of an exception",
  },
  zombie_container_count: {
    ...gauge("Containers that outlived their jobs, by their logs.", ["type"]),
    probes: ["docker-logs"],
    ours: ["gridmeter_container_zombie"],
    difference:
      "type is job_exit_hangs; residual_job was about YARN. At once and not after 5 minutes: alerts wait by `for`",
  },
  zombie_process_count: {
    ...gauge("Processes that hang in the kernel (state D, and not Z), by command.", ["command"]),
    probes: ["ps"],
    ours: ["gridmeter_process_uninterruptible"],
    difference:
      "command is the kernel's name (15 bytes); at most 20 of them and `other`, which also has what only is called like a tool of the node; only what hung twice",
  },
  process_mem_usage_byte: {
    ...gauge("Memory of a command's largest process, if it is large.", ["cmd"]),
    probes: ["ps"],
    ours: ["gridmeter_process_largest_resident_bytes"],
    difference: "without the label pid; cmd is the file's name",
  },

  collector_iteration_count_total: {
    ...counter("Runs of the probes that stand for job-exporter's collectors.", ["name"]),
    probes: ["docker-daemon", "docker-stats", "docker-logs", "nvidia-smi", "amd-smi", "rocm-smi", "ps"],
    ours: ["gridmeter_probe_runs_total"],
    difference: "goes on when a command hangs, since nothing here waits for it",
  },
  cmd_docker_active_latency_seconds: latency("docker info or systemctl", "docker-daemon"),
  cmd_docker_stats_latency_seconds: latency("docker stats", "docker-stats"),
  cmd_docker_inspect_latency_seconds: latency("docker inspect", "docker-inspect"),
  cmd_docker_logs_latency_seconds: latency("docker logs", "docker-logs"),
  cmd_nvidia_smi_latency_seconds: latency("nvidia-smi", "nvidia-smi"),
  cmd_rocm_smi_latency_seconds: latency("amd-smi or rocm-smi", "amd-smi", "rocm-smi"),
  cmd_iftop_latency_seconds: latency("iftop", "iftop"),
  cmd_lsof_latency_seconds: latency("lsof", "lsof"),
  cmd_ps_latency_seconds: latency("ps", "ps"),
} as const satisfies Record<string, OpenPaiEntry>;

export type OpenPaiName = keyof typeof OPENPAI_METRICS;

/** One series; undefined is what was not read, and is left out. */
export type OpenPaiSample = { readonly labels: Labels; readonly value: number | undefined };

/** A metric of the catalogue, without what was not read; a histogram comes as its parts, by metrics.ts. */
export const openPaiMetric = (name: OpenPaiName, samples: readonly OpenPaiSample[]): Metric => {
  const { type, help } = OPENPAI_METRICS[name];
  return {
    name,
    help,
    type: type === "counter" ? "counter" : "gauge",
    samples: samples.flatMap(({ labels, value }) =>
      value === undefined || !Number.isFinite(value) ? [] : [{ labels, value: withoutNoise(value) }],
    ),
  };
};

/** Metrics that have a sample. */
export const withSamples = (metrics: readonly Metric[]): readonly Metric[] =>
  metrics.filter(({ samples }) => samples.length > 0);

/** 0 to 1 as percent. */
export const percent = (share: number | undefined): number | undefined =>
  share === undefined ? undefined : share * 100;
