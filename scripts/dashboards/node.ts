import type { Dashboard } from "./panels.ts";

const OWN = 'instance="$instance"';
const gpu = (name: string, more = ""): string => `max by (gpu, uuid) (gridmeter_gpu_${name}{${OWN}${more}})`;
const SENSOR = ',sensor=~"gpu|edge|junction"';
const container = (name: string): string =>
  `topk(10, max by (container_id, name) (gridmeter_container_${name}{${OWN}}))`;
const GPU = "GPU {{gpu}}";

/** One node: its probes, GPUs, containers and processes. */
export const NODE: Dashboard = {
  uid: "gridmeter-node",
  title: "gridmeter: one node",
  about: "One node: do its probes work, its GPUs, containers, processes and network.",
  from: "now-3h",
  variables: [
    { name: "instance", label: "Node", query: "label_values(gridmeter_probe_enabled, instance)", several: false },
  ],
  rows: [
    {
      title: "The node",
      panels: [
        {
          kind: "stat",
          title: "Last sign of life",
          about: "How long ago the agent made its values.",
          unit: "s",
          width: 4,
          height: 4,
          limits: [120, 300],
          targets: [{ expr: `time() - max(gridmeter_probe_agent_heartbeat_timestamp_seconds{${OWN}})`, legend: "ago" }],
        },
        {
          kind: "stat",
          title: "Probes that do not work",
          about: "Their data are absent until they work again.",
          unit: "short",
          width: 4,
          height: 4,
          limits: [1, 1],
          targets: [
            { expr: `count(min by (probe) (gridmeter_probe_success{${OWN}}) == 0) or vector(0)`, legend: "failing" },
          ],
        },
        {
          kind: "stat",
          title: "docker",
          about: "1 if the daemon answers.",
          unit: "short",
          width: 4,
          height: 4,
          limits: [1, 0.5],
          targets: [{ expr: `max(gridmeter_docker_up{${OWN}})`, legend: "up" }],
        },
        {
          kind: "stat",
          title: "Containers",
          about: "Containers that run.",
          unit: "short",
          width: 4,
          height: 4,
          targets: [{ expr: `max(gridmeter_docker_containers{${OWN},state="running"})`, legend: "running" }],
        },
        {
          kind: "stat",
          title: "GPUs",
          about: "GPUs that the tool reports on.",
          unit: "short",
          width: 4,
          height: 4,
          targets: [{ expr: `sum(max by (probe) (gridmeter_gpu_seen{${OWN}}))`, legend: "GPUs" }],
        },
        {
          kind: "stat",
          title: "Containers that outlived their job",
          about: "Their log says that the job has finished, and they run on.",
          unit: "short",
          width: 4,
          height: 4,
          limits: [1, 1],
          targets: [
            { expr: `sum(max by (container_id) (gridmeter_container_zombie{${OWN}})) or vector(0)`, legend: "zombies" },
          ],
        },
        {
          kind: "state-timeline",
          title: "Success by probe",
          about: "1 while the probe works.",
          unit: "short",
          width: 12,
          height: 8,
          limits: [1, 0.5],
          targets: [{ expr: `min by (probe) (gridmeter_probe_success{${OWN}})`, legend: "{{probe}}" }],
        },
        {
          kind: "timeseries",
          title: "Last duration as a share of the timeout",
          about: "What comes close to 1 hangs soon.",
          unit: "percentunit",
          width: 12,
          height: 8,
          targets: [
            {
              expr: `max by (probe) (gridmeter_probe_last_duration_seconds{${OWN}}) / max by (probe) (gridmeter_probe_timeout_seconds{${OWN}})`,
              legend: "{{probe}}",
            },
          ],
        },
      ],
    },
    {
      title: "GPUs",
      panels: [
        {
          kind: "table",
          title: "GPUs",
          about: "Each GPU now.",
          unit: "short",
          width: 24,
          height: 8,
          columns: { use: "percentunit", memory: "percentunit", power: "watt", temperature: "celsius" },
          targets: [
            { expr: gpu("utilization_ratio"), legend: "use" },
            { expr: `${gpu("memory_used_bytes")} / ${gpu("memory_total_bytes")}`, legend: "memory" },
            { expr: gpu("power_watts"), legend: "power" },
            { expr: gpu("temperature_celsius", SENSOR), legend: "temperature" },
            { expr: gpu("processes"), legend: "processes" },
            { expr: gpu("ecc_errors_total", ',kind="uncorrected",scope="aggregate"'), legend: "uncorrected errors" },
          ],
        },
        {
          kind: "timeseries",
          title: "Use",
          about: "Absent for GPUs that are split (MIG).",
          unit: "percentunit",
          width: 12,
          height: 8,
          targets: [{ expr: gpu("utilization_ratio"), legend: GPU }],
        },
        {
          kind: "timeseries",
          title: "Memory in use",
          about: "Share of the GPU's memory.",
          unit: "percentunit",
          width: 12,
          height: 8,
          targets: [{ expr: `${gpu("memory_used_bytes")} / ${gpu("memory_total_bytes")}`, legend: GPU }],
        },
        {
          kind: "timeseries",
          title: "Power",
          about: "What each GPU draws.",
          unit: "watt",
          width: 12,
          height: 8,
          stacked: true,
          targets: [{ expr: gpu("power_watts"), legend: GPU }],
        },
        {
          kind: "timeseries",
          title: "Temperature",
          about: "The GPU's own sensor.",
          unit: "celsius",
          width: 12,
          height: 8,
          targets: [{ expr: gpu("temperature_celsius", SENSOR), legend: GPU }],
        },
        {
          kind: "state-timeline",
          title: "Throttled",
          about: "1 while a limit of power or temperature holds the clocks down.",
          unit: "short",
          width: 12,
          height: 8,
          limits: [1, 1],
          targets: [
            {
              expr: `max by (gpu, reason) (gridmeter_gpu_clocks_event_reason{${OWN},reason=~".*(cap|slowdown)"})`,
              legend: "GPU {{gpu}} {{reason}}",
            },
          ],
        },
        {
          kind: "timeseries",
          title: "Processes on GPUs that belong to no running job",
          about: "Outside any container, or in one that outlived its job.",
          unit: "short",
          width: 12,
          height: 8,
          targets: [
            { expr: gpu("external_processes"), legend: "GPU {{gpu}} outside containers" },
            { expr: gpu("zombie_container_processes"), legend: "GPU {{gpu}} of finished jobs" },
          ],
        },
      ],
    },
    {
      title: "Containers, processes, network",
      panels: [
        {
          kind: "table",
          title: "GPUs of containers",
          about: "Which container was given which GPU.",
          unit: "short",
          width: 12,
          height: 8,
          targets: [
            {
              expr: `max by (name, container_id, gpu, uuid) (gridmeter_container_gpu_assigned{${OWN}})`,
              legend: "assigned",
            },
          ],
        },
        {
          kind: "timeseries",
          title: "GPU memory by container",
          about: "What the container's processes hold.",
          unit: "bytes",
          width: 12,
          height: 8,
          stacked: true,
          targets: [
            {
              expr: `max by (name, gpu) (gridmeter_container_gpu_memory_used_bytes{${OWN}})`,
              legend: "{{name}} GPU {{gpu}}",
            },
          ],
        },
        {
          kind: "timeseries",
          title: "CPU of the largest containers",
          about: "1 is one core.",
          unit: "short",
          width: 12,
          height: 8,
          targets: [{ expr: container("cpu_usage_ratio"), legend: "{{name}}" }],
        },
        {
          kind: "timeseries",
          title: "Memory of the largest containers",
          about: "Memory in use.",
          unit: "bytes",
          width: 12,
          height: 8,
          targets: [{ expr: container("memory_used_bytes"), legend: "{{name}}" }],
        },
        {
          kind: "timeseries",
          title: "Processes that hang in the kernel or were not reaped",
          about: "State D or Z whenever looked at for a while.",
          unit: "short",
          width: 12,
          height: 8,
          targets: [
            { expr: `max by (command) (gridmeter_process_uninterruptible{${OWN}})`, legend: "D {{command}}" },
            { expr: `max by (command) (gridmeter_process_zombies{${OWN}})`, legend: "Z {{command}}" },
          ],
        },
        {
          kind: "timeseries",
          title: "Network",
          about: "What the watched interface carries.",
          unit: "Bps",
          width: 12,
          height: 8,
          targets: [
            {
              expr: `max by (interface) (gridmeter_network_receive_bytes_per_second{${OWN}})`,
              legend: "{{interface}} received",
            },
            {
              expr: `max by (interface) (gridmeter_network_transmit_bytes_per_second{${OWN}})`,
              legend: "{{interface}} sent",
            },
          ],
        },
      ],
    },
  ],
};
