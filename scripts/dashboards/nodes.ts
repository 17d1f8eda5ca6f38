import type { Dashboard } from "./panels.ts";

const OWN = 'instance=~"$instance"';
/** A node's port and the Pushgateway have the same series: they count once. */
const gpu = (name: string, more = ""): string => `max by (instance, uuid) (gridmeter_gpu_${name}{${OWN}${more}})`;
const SENSOR = ',sensor=~"gpu|edge|junction"';
const SEEN = `max by (instance, probe) (gridmeter_gpu_seen{${OWN}})`;
const ALLOCATED = `max by (instance, uuid) (gridmeter_container_gpu_assigned{${OWN}})`;
const HANGS = 'result=~"timeout|killed|skipped_in_flight"';
const LEGEND = "{{instance}}";

/** All nodes at once: GPUs, what of them is given out and used, and where commands hang. */
export const NODES: Dashboard = {
  uid: "gridmeter-nodes",
  title: "gridmeter: all nodes",
  about: "GPUs of all nodes: how many, given to containers, use, power, the hottest, and nodes on which commands hang.",
  from: "now-3h",
  variables: [
    { name: "instance", label: "Node", query: "label_values(gridmeter_probe_enabled, instance)", several: true },
  ],
  rows: [
    {
      title: "All nodes",
      panels: [
        {
          kind: "stat",
          title: "Nodes",
          about: "Agents with a sign of life in the last 5 minutes.",
          unit: "short",
          width: 4,
          height: 4,
          targets: [
            {
              expr: `count(max by (instance) (gridmeter_probe_agent_heartbeat_timestamp_seconds{${OWN}}) > time() - 300)`,
              legend: "nodes",
            },
          ],
        },
        {
          kind: "stat",
          title: "GPUs",
          about: "GPUs that the tools report on.",
          unit: "short",
          width: 4,
          height: 4,
          targets: [{ expr: `sum(${SEEN})`, legend: "GPUs" }],
        },
        {
          kind: "stat",
          title: "Given to containers",
          about: "GPUs that were given to a container, whether it uses them or not.",
          unit: "short",
          width: 4,
          height: 4,
          targets: [{ expr: `count(${ALLOCATED} > 0)`, legend: "allocated" }],
        },
        {
          kind: "stat",
          title: "Use",
          about: "Mean of all GPUs that report it.",
          unit: "percentunit",
          width: 4,
          height: 4,
          targets: [{ expr: `avg(${gpu("utilization_ratio")})`, legend: "use" }],
        },
        {
          kind: "stat",
          title: "Power",
          about: "All GPUs together.",
          unit: "watt",
          width: 4,
          height: 4,
          targets: [{ expr: `sum(${gpu("power_watts")})`, legend: "power" }],
        },
        {
          kind: "stat",
          title: "Hottest GPU",
          about: "The highest temperature of any GPU.",
          unit: "celsius",
          width: 4,
          height: 4,
          limits: [80, 88],
          targets: [{ expr: `max(${gpu("temperature_celsius", SENSOR)})`, legend: "hottest" }],
        },
        {
          kind: "table",
          title: "By node",
          about: "GPUs, given to containers, mean use, memory in use, power, the hottest, probes that do not work.",
          unit: "short",
          width: 24,
          height: 8,
          columns: { use: "percentunit", memory: "percentunit", power: "watt", hottest: "celsius" },
          targets: [
            { expr: `sum by (instance) (${SEEN})`, legend: "GPUs" },
            { expr: `count by (instance) (${ALLOCATED} > 0)`, legend: "allocated" },
            { expr: `avg by (instance) (${gpu("utilization_ratio")})`, legend: "use" },
            {
              expr: `sum by (instance) (${gpu("memory_used_bytes")}) / sum by (instance) (${gpu("memory_total_bytes")})`,
              legend: "memory",
            },
            { expr: `sum by (instance) (${gpu("power_watts")})`, legend: "power" },
            { expr: `max by (instance) (${gpu("temperature_celsius", SENSOR)})`, legend: "hottest" },
            {
              expr: `count by (instance) (min by (instance, probe) (gridmeter_probe_success{${OWN}}) == 0) or sum by (instance) (${SEEN}) * 0`,
              legend: "failing",
            },
          ],
        },
      ],
    },
    {
      title: "Hanging commands",
      panels: [
        {
          kind: "state-timeline",
          title: "Commands that hang, by node",
          about: "Runs that ended at their timeout, or were not begun as the one before still runs.",
          unit: "short",
          width: 12,
          height: 8,
          targets: [
            {
              expr: `max by (instance, probe) (gridmeter_probe_result{${OWN},${HANGS}})`,
              legend: "{{instance}} {{probe}}",
            },
          ],
        },
        {
          kind: "timeseries",
          title: "Hangs an hour, by node",
          about: "Commands that ran into their timeout or had to be killed.",
          unit: "short",
          width: 6,
          height: 8,
          stacked: true,
          targets: [
            {
              expr: `sum by (instance, command) (increase(gridmeter_command_runs_total{${OWN},result=~"timeout|killed"}[1h])) > 0`,
              legend: "{{instance}} {{command}}",
            },
          ],
        },
        {
          kind: "timeseries",
          title: "Killed and still there, by node",
          about:
            "Commands in the kernel that not even KILL ends: mostly a driver or a file system that is lost until the node restarts.",
          unit: "short",
          width: 6,
          height: 8,
          targets: [
            {
              expr: `sum by (instance) (max by (instance, probe) (gridmeter_probe_stuck_children{${OWN}}))`,
              legend: LEGEND,
            },
          ],
        },
      ],
    },
    {
      title: "GPUs by node",
      panels: [
        {
          kind: "timeseries",
          title: "Use",
          about: "Mean of the node's GPUs; GPUs that are split (MIG) do not report it.",
          unit: "percentunit",
          width: 12,
          height: 8,
          targets: [{ expr: `avg by (instance) (${gpu("utilization_ratio")})`, legend: LEGEND }],
        },
        {
          kind: "timeseries",
          title: "Power",
          about: "The node's GPUs together.",
          unit: "watt",
          width: 12,
          height: 8,
          stacked: true,
          targets: [{ expr: `sum by (instance) (${gpu("power_watts")})`, legend: LEGEND }],
        },
        {
          kind: "timeseries",
          title: "Hottest GPU",
          about: "The highest temperature on the node.",
          unit: "celsius",
          width: 12,
          height: 8,
          targets: [{ expr: `max by (instance) (${gpu("temperature_celsius", SENSOR)})`, legend: LEGEND }],
        },
        {
          kind: "timeseries",
          title: "Given to containers, and missing",
          about: "GPUs that were given to a container; GPUs that the node should have and the tool does not report.",
          unit: "short",
          width: 12,
          height: 8,
          targets: [
            { expr: `count by (instance) (${ALLOCATED} > 0)`, legend: "{{instance}} allocated" },
            {
              expr: `max by (instance) (gridmeter_gpu_expected{${OWN}}) - on (instance) sum by (instance) (${SEEN})`,
              legend: "{{instance}} missing",
            },
          ],
        },
      ],
    },
  ],
};
