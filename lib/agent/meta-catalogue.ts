/** One metric about the agent itself. The label `probe` is on every series and is not repeated in `labels`. */
export type MetaEntry = {
  readonly type: "gauge" | "counter" | "histogram";
  readonly help: string;
  readonly labels: readonly string[];
  /** `each`: in the group of every probe; `agent`: only in the agent's own group, probe="agent" */
  readonly group: "each" | "agent";
};

const of =
  (group: MetaEntry["group"], type: MetaEntry["type"]) =>
  (help: string, labels: readonly string[] = []): MetaEntry => ({ type, help, labels, group });

const gauge = of("each", "gauge");
const counter = of("each", "counter");
const histogram = of("each", "histogram");
const agentGauge = of("agent", "gauge");
const agentCounter = of("agent", "counter");

/** The `probe` of what the agent says about itself. */
export const AGENT_PROBE = "agent";

/** How a push ended: a closed set, so that it can be a label. */
export const PUSH_RESULTS = ["ok", "refused", "failed", "timeout", "redirected"] as const;
export type PushResult = (typeof PUSH_RESULTS)[number];

/**
 * Upper bounds of gridmeter_command_duration_seconds, in seconds. They go beyond any timeout that is likely, and a longer one
 * gets further bounds: the predecessor's ended at 10 s, and no quantile could ever be above that.
 */
export const DURATION_BUCKETS = [
  0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024,
] as const satisfies readonly number[];

/**
 * Every metric about the agent and its probes, beside those of GPUs (GPU_METRICS) and of the node (NODE_METRICS). They stay when
 * data vanish, so that an alert can say which command hangs. A name has one type and one help text everywhere.
 */
export const META_METRICS = {
  gridmeter_probe_enabled: gauge("1 if the probe runs; 0 if it is disabled or its tool or device is missing."),
  gridmeter_probe_success: gauge("1 if the last run was ok, 0 if not; absent before the first run and while disabled."),
  gridmeter_probe_last_duration_seconds: gauge("How long the last run took, whatever it came to."),
  gridmeter_probe_last_run_timestamp_seconds: gauge("When the last run settled, in seconds since 1970."),
  gridmeter_probe_last_success_timestamp_seconds: gauge(
    "When the last run that was ok settled, in seconds since 1970.",
  ),
  gridmeter_probe_interval_seconds: gauge("Time from the start of a run to the start of the next."),
  gridmeter_probe_timeout_seconds: gauge("Time after which a run is given up."),
  gridmeter_probe_stuck_children: gauge("Commands that were killed and are still there."),
  gridmeter_probe_exit_code: gauge("Exit code of the command that decided the last run; absent where nothing exited."),
  gridmeter_probe_result: gauge("1 for what the last run came to; only that result has a series.", ["result"]),
  gridmeter_probe_runs_total: counter("Runs by what they came to; all results are there from 0 on.", ["result"]),
  gridmeter_probe_rejected_rows_total: counter("Rows that were broken and left out."),
  gridmeter_probe_dropped_series_total: counter(
    "Series left out, at each run: another had the same name and labels, the name had another type, a name of a metric or label was none, or the value was no finite number.",
  ),
  gridmeter_command_duration_seconds: histogram(
    "How long commands ran; those that timed out or failed are in it, and its buckets go beyond the longest timeout.",
    ["command"],
  ),
  gridmeter_command_runs_total: counter("Runs of a command by what they came to.", ["command", "result"]),

  gridmeter_push_total: agentCounter("Pushes to the Pushgateway by what they came to.", ["result"]),
  gridmeter_push_last_success_timestamp_seconds: agentGauge("When a push last succeeded, in seconds since 1970."),
  gridmeter_push_last_duration_seconds: agentGauge("How long the last push took."),
  gridmeter_push_groups_pending: agentGauge("Groups whose newest values the Pushgateway does not have yet."),
  gridmeter_probe_agent_info: agentGauge("Always 1; the agent's version.", ["version"]),
  gridmeter_probe_agent_start_time_seconds: agentGauge("When the agent started, in seconds since 1970."),
  gridmeter_probe_agent_heartbeat_timestamp_seconds: agentGauge(
    "When these values were made, in seconds since 1970: old on the Pushgateway when the agent is gone.",
  ),
  gridmeter_probe_agent_resident_memory_bytes: agentGauge("Memory of the agent, without its children."),
  gridmeter_probe_agent_cpu_seconds_total: agentCounter("CPU time of the agent, without its children."),
} as const satisfies Record<`gridmeter_${"probe" | "command" | "push"}_${string}`, MetaEntry>;

export type MetaMetricName = keyof typeof META_METRICS;
