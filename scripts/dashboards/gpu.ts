import type { Dashboard } from "./panels.ts";

const OWN = 'instance="$instance",uuid="$uuid"';
const of = (name: string, by = "uuid", more = ""): string => `max by (${by}) (gridmeter_gpu_${name}{${OWN}${more}})`;
const MIG = "mig_index, gpu_instance, compute_instance";

/** One GPU: all that the driver says of it. */
export const GPU: Dashboard = {
  uid: "gridmeter-gpu",
  title: "gridmeter: one GPU",
  about:
    "One GPU: use, memory, clocks, power against its limit, temperature, why it is throttled, memory errors, processes, MIG devices.",
  from: "now-3h",
  variables: [
    { name: "instance", label: "Node", query: "label_values(gridmeter_gpu_info, instance)", several: false },
    {
      name: "uuid",
      label: "GPU",
      query: 'label_values(gridmeter_gpu_info{instance="$instance"}, uuid)',
      several: false,
    },
  ],
  rows: [
    {
      title: "The GPU",
      panels: [
        {
          kind: "table",
          title: "What it is",
          about: "Model, place and driver.",
          unit: "short",
          width: 24,
          height: 4,
          targets: [
            { expr: of("info", "name, gpu, minor_number, pci_bus_id, driver_version, cuda_version"), legend: "there" },
          ],
        },
        {
          kind: "timeseries",
          title: "Use",
          about:
            "Share of time in which a kernel ran, memory was accessed, and the video engines worked. Absent under MIG.",
          unit: "percentunit",
          width: 12,
          height: 8,
          targets: [
            { expr: of("utilization_ratio"), legend: "GPU" },
            { expr: of("memory_controller_utilization_ratio"), legend: "memory access" },
            { expr: of("engine_utilization_ratio", "engine"), legend: "{{engine}}" },
          ],
        },
        {
          kind: "timeseries",
          title: "Memory",
          about: "In use, kept by the driver, and all there is.",
          unit: "bytes",
          width: 12,
          height: 8,
          targets: [
            { expr: of("memory_used_bytes"), legend: "used" },
            { expr: of("memory_reserved_bytes"), legend: "reserved" },
            { expr: of("memory_total_bytes"), legend: "total" },
          ],
        },
        {
          kind: "timeseries",
          title: "Power against its limit",
          about: "At the limit the driver lowers the clocks.",
          unit: "watt",
          width: 12,
          height: 8,
          targets: [
            { expr: of("power_watts"), legend: "power" },
            { expr: of("power_limit_watts"), legend: "limit" },
          ],
        },
        {
          kind: "timeseries",
          title: "Temperature",
          about: "By sensor.",
          unit: "celsius",
          width: 12,
          height: 8,
          targets: [{ expr: of("temperature_celsius", "sensor"), legend: "{{sensor}}" }],
        },
        {
          kind: "timeseries",
          title: "Clocks",
          about: "By domain, and the highest of each.",
          unit: "hertz",
          width: 12,
          height: 8,
          targets: [
            { expr: of("clock_hertz", "domain"), legend: "{{domain}}" },
            { expr: of("clock_max_hertz", "domain"), legend: "{{domain}}, highest" },
          ],
        },
        {
          kind: "state-timeline",
          title: "Why the clocks are held down",
          about: "1 while the reason holds. gpu_idle is no fault.",
          unit: "short",
          width: 12,
          height: 8,
          limits: [1, 1],
          targets: [{ expr: of("clocks_event_reason", "reason"), legend: "{{reason}}" }],
        },
        {
          kind: "timeseries",
          title: "Time held down, by reason",
          about: "Share of the time, of the counters of newer drivers.",
          unit: "percentunit",
          width: 12,
          height: 8,
          targets: [
            {
              expr: `max by (reason) (rate(gridmeter_gpu_clocks_event_seconds_total{${OWN}}[$__rate_interval]))`,
              legend: "{{reason}}",
            },
          ],
        },
        {
          kind: "timeseries",
          title: "PCIe",
          about: "Throughput, seen from the GPU.",
          unit: "Bps",
          width: 12,
          height: 8,
          targets: [{ expr: of("pcie_throughput_bytes_per_second", "direction"), legend: "{{direction}}" }],
        },
      ],
    },
    {
      title: "Health",
      panels: [
        {
          kind: "timeseries",
          title: "Memory errors (ECC)",
          about: "Corrected ones are ordinary; uncorrected ones end the jobs that meet them.",
          unit: "short",
          width: 12,
          height: 8,
          targets: [{ expr: of("ecc_errors_total", "kind, scope"), legend: "{{kind}}, {{scope}}" }],
        },
        {
          kind: "table",
          title: "What the driver advises",
          about: "1 for what is to be done, and for repairs that wait.",
          unit: "short",
          width: 12,
          height: 8,
          targets: [{ expr: of("recovery_action", "action"), legend: "advised" }],
        },
        {
          kind: "timeseries",
          title: "Memory rows replaced",
          about: "By the kind of error, and whether some wait for a reset.",
          unit: "short",
          width: 12,
          height: 8,
          targets: [
            { expr: of("remapped_rows", "kind"), legend: "{{kind}}" },
            { expr: of("remapped_rows_pending"), legend: "pending" },
            { expr: of("remapped_rows_failed"), legend: "failed" },
          ],
        },
        {
          kind: "timeseries",
          title: "PCIe link",
          about: "Lanes in use and packets that were sent again. Fewer lanes than the slot has are a bad contact.",
          unit: "short",
          width: 12,
          height: 8,
          targets: [
            { expr: of("pcie_link_width"), legend: "lanes" },
            { expr: of("pcie_link_width_max"), legend: "lanes, most" },
            { expr: of("pcie_replays_total"), legend: "sent again" },
          ],
        },
      ],
    },
    {
      title: "Who uses it",
      panels: [
        {
          kind: "table",
          title: "Containers",
          about: "Containers that the GPU was given to.",
          unit: "short",
          width: 12,
          height: 8,
          targets: [
            { expr: `max by (name, container_id) (gridmeter_container_gpu_assigned{${OWN}})`, legend: "assigned" },
          ],
        },
        {
          kind: "timeseries",
          title: "Processes",
          about:
            "All, those outside any container, those of containers that outlived their job, and those that hang in the kernel.",
          unit: "short",
          width: 12,
          height: 8,
          targets: [
            { expr: of("processes"), legend: "all" },
            { expr: of("external_processes"), legend: "outside containers" },
            { expr: of("zombie_container_processes"), legend: "of finished jobs" },
            { expr: of("uninterruptible_processes"), legend: "hanging" },
          ],
        },
        {
          kind: "timeseries",
          title: "Memory by container",
          about: "What the processes of each container hold.",
          unit: "bytes",
          width: 12,
          height: 8,
          stacked: true,
          targets: [{ expr: `max by (name) (gridmeter_container_gpu_memory_used_bytes{${OWN}})`, legend: "{{name}}" }],
        },
        {
          kind: "timeseries",
          title: "MIG devices",
          about: "Memory in use of each device of a GPU that is split, and what it has.",
          unit: "bytes",
          width: 12,
          height: 8,
          targets: [
            { expr: of("mig_memory_used_bytes", MIG), legend: "device {{mig_index}} used" },
            { expr: of("mig_memory_total_bytes", MIG), legend: "device {{mig_index}} total" },
          ],
        },
      ],
    },
  ],
};
