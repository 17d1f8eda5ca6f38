import { GridmeterError } from "../../shared/errors.ts";
import type { Family, Sample } from "../../shared/exposition.ts";
import { RESULT_KINDS, type ResultKind } from "../command/types.ts";
import { type FamilyEntry, counter, gauge, histogram } from "../probes/common/metric-families.ts";
import type { CommandRun, Probe, ProbeRun } from "../probes/common/probe.ts";

/** What the agent's process costs, its children apart. Its memory is not known while it has no file descriptors left. */
export type ProcessFigures = { readonly residentBytes: number | undefined; readonly cpuSeconds: number };

export type SelfMetricsOptions = {
  readonly probes: readonly Pick<Probe, "name" | "interval" | "timeout" | "stuck">[];
  readonly version: string;
  /** epoch seconds */
  readonly wallClock: () => number;
  readonly process: () => ProcessFigures;
  /** without a Pushgateway there is nothing to say about pushes */
  readonly pushes?: PushAccount;
};

/** The account of all probes' runs and of the agent itself: the metrics that stay when data vanish. */
export class SelfMetrics {
  readonly #options: SelfMetricsOptions;
  readonly #started: number;
  readonly #accounts: ReadonlyMap<string, ProbeAccount>;

  /** @throws GridmeterError config_invalid if two probes have one name, or one that of the agent's own group */
  constructor(options: SelfMetricsOptions) {
    this.#options = options;
    this.#started = options.wallClock();
    const { probes } = options;
    const names = probes.map(({ name }) => name);
    const wrong = names.find((name, index) => name === AGENT_PROBE || names.indexOf(name) !== index);
    if (wrong !== undefined) {
      const why = wrong === AGENT_PROBE ? "is what the agent calls its own metrics" : "is the name of two probes";
      throw new GridmeterError(
        "config_invalid",
        `"${wrong}" ${why}. Nothing was run or published. Give the probe another name.`,
      );
    }
    const bounds = durationBounds(Math.max(0, ...probes.map(({ timeout }) => timeout)));
    this.#accounts = new Map(probes.map((probe) => [probe.name, new ProbeAccount(probe, bounds)]));
  }

  /** All groups: the probes' and, last, the agent's own. */
  get groups(): readonly string[] {
    return [...this.#accounts.keys(), AGENT_PROBE];
  }

  enable(probe: string, enabled: boolean): void {
    this.#accounts.get(probe)?.enable(enabled);
  }

  settled(probe: string, run: ProbeRun): void {
    this.#accounts.get(probe)?.settled(run, this.#options.wallClock());
  }

  /** Series that were left out of what the probe's last run gave. */
  dropped(probe: string, series: number): void {
    this.#accounts.get(probe)?.dropped(series);
  }

  figures(): ReadonlyMap<string, ProbeFigures> {
    return new Map([...this.#accounts].map(([name, account]) => [name, account.figures()]));
  }

  /** The metrics of one group, as they are now. */
  families(group: string): readonly Family[] {
    return group === AGENT_PROBE ? this.#agent() : (this.#accounts.get(group)?.families() ?? []);
  }

  #agent(): readonly Family[] {
    const { version, wallClock, process, pushes } = this.#options;
    const { residentBytes, cpuSeconds } = process();
    return [
      family("gridmeter_probe_agent_info", [{ labels: { version }, value: 1 }]),
      single("gridmeter_probe_agent_start_time_seconds", this.#started),
      single("gridmeter_probe_agent_heartbeat_timestamp_seconds", wallClock()),
      single("gridmeter_probe_agent_resident_memory_bytes", residentBytes),
      single("gridmeter_probe_agent_cpu_seconds_total", cpuSeconds),
      ...(pushes?.families() ?? []),
    ];
  }
}

/** What is known of a probe beside its data. */
export type ProbeFigures = {
  readonly enabled: boolean;
  /** of the last run; absent before the first one and while disabled */
  readonly result?: ResultKind;
  /** when the last run settled, and the last one that was ok; epoch seconds */
  readonly lastRun?: number;
  readonly lastSuccess?: number;
  readonly runs: ReadonlyMap<ResultKind, number>;
  readonly commands: readonly CommandFigures[];
};

/** Keeps the account of one probe's runs. Nothing of it ever vanishes, so that an alert can say what hangs. */
class ProbeAccount {
  readonly #probe: Pick<Probe, "interval" | "timeout" | "stuck">;
  readonly #commands: CommandCounts;
  readonly #runs = new Map<ResultKind, number>(RESULT_KINDS.map((kind) => [kind, 0]));
  #enabled = true;
  #last: { readonly run: Pick<ProbeRun, "kind" | "seconds" | "exitCode">; readonly at: number } | undefined;
  #lastSuccess: number | undefined;
  #rejected = 0;
  #dropped = 0;

  constructor(probe: Pick<Probe, "interval" | "timeout" | "stuck">, bounds: readonly number[]) {
    this.#probe = probe;
    this.#commands = new CommandCounts(bounds);
  }

  enable(enabled: boolean): void {
    this.#enabled = enabled;
  }

  /** `at`: epoch seconds. Only what is counted is kept of the run, not its data. */
  settled({ kind, seconds, exitCode, rejected, commands }: ProbeRun, at: number): void {
    this.#last = { run: { kind, seconds, ...(exitCode === undefined ? {} : { exitCode }) }, at };
    if (kind === "ok") this.#lastSuccess = at;
    this.#runs.set(kind, (this.#runs.get(kind) ?? 0) + 1);
    this.#rejected += rejected;
    for (const command of commands) this.#commands.add(command);
  }

  /** `series` were left out of what a run gave. */
  dropped(series: number): void {
    this.#dropped += series;
  }

  figures(): ProbeFigures {
    const result = this.#result();
    return {
      enabled: this.#enabled,
      ...(result === undefined || result === "disabled" ? {} : { result }),
      ...(this.#last === undefined ? {} : { lastRun: this.#last.at }),
      ...(this.#lastSuccess === undefined ? {} : { lastSuccess: this.#lastSuccess }),
      runs: new Map(this.#runs),
      commands: this.#commands.figures(),
    };
  }

  families(): readonly Family[] {
    const result = this.#result();
    const success = !this.#enabled || result === undefined ? undefined : result === "ok" ? 1 : 0;
    return [
      single("gridmeter_probe_enabled", this.#enabled ? 1 : 0),
      single("gridmeter_probe_success", success),
      single("gridmeter_probe_last_duration_seconds", this.#last?.run.seconds),
      single("gridmeter_probe_last_run_timestamp_seconds", this.#last?.at),
      single("gridmeter_probe_last_success_timestamp_seconds", this.#lastSuccess),
      single("gridmeter_probe_interval_seconds", this.#probe.interval),
      single("gridmeter_probe_timeout_seconds", this.#probe.timeout),
      single("gridmeter_probe_stuck_children", this.#probe.stuck()),
      single("gridmeter_probe_exit_code", this.#last?.run.exitCode),
      family("gridmeter_probe_result", result === undefined ? [] : [{ labels: { result }, value: 1 }]),
      family(
        "gridmeter_probe_runs_total",
        [...this.#runs].map(([result, value]) => ({ labels: { result }, value })),
      ),
      single("gridmeter_probe_rejected_rows_total", this.#rejected),
      single("gridmeter_probe_dropped_series_total", this.#dropped),
      ...this.#commands.families(),
    ];
  }

  #result(): ResultKind | undefined {
    return this.#enabled ? this.#last?.run.kind : "disabled";
  }
}

/** How often one command ran, and for how long. */
export type CommandFigures = {
  readonly command: string;
  /** how many runs took at most as long as each bound, seconds; the bounds of `durationBounds` */
  readonly buckets: readonly { readonly bound: number; readonly count: number }[];
  /** seconds of all runs together */
  readonly sum: number;
  readonly count: number;
  readonly results: ReadonlyMap<ResultKind, number>;
};

/**
 * The histogram's upper bounds, seconds: the catalogue's, doubled on until one is beyond the longest timeout, so that a command
 * that always hangs is seen above every quantile's bound but that last one.
 */
export function durationBounds(longestTimeout: number): readonly number[] {
  const bounds: number[] = [...DURATION_BUCKETS];
  for (let last = bounds.at(-1) ?? 1; last <= longestTimeout; last *= 2) bounds.push(last * 2);
  return bounds;
}

type Counts = { readonly atMost: number[]; sum: number; count: number; readonly results: Map<ResultKind, number> };

/** What was skipped or could not be started took no time: as durations of 0 they would make the command look quick. */
const NEVER_RAN: ReadonlySet<ResultKind> = new Set(["skipped_in_flight", "disabled", "not_found", "not_executable"]);

/** Counts the commands of one probe; runs that timed out or failed are counted as all others. */
export class CommandCounts {
  readonly #bounds: readonly number[];
  readonly #commands = new Map<string, Counts>();

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
  }

  add({ command, kind, seconds }: CommandRun): void {
    const fresh = { atMost: this.#bounds.map(() => 0), sum: 0, count: 0, results: new Map<ResultKind, number>() };
    const counts = this.#commands.get(command) ?? fresh;
    this.#commands.set(command, counts);
    counts.results.set(kind, (counts.results.get(kind) ?? 0) + 1);
    if (NEVER_RAN.has(kind)) return;
    counts.sum += seconds;
    counts.count += 1;
    for (const [index, bound] of this.#bounds.entries()) {
      if (seconds <= bound) counts.atMost[index] = (counts.atMost[index] ?? 0) + 1;
    }
  }

  figures(): readonly CommandFigures[] {
    return [...this.#commands].map(([command, { atMost, sum, count, results }]) => ({
      command,
      buckets: this.#bounds.map((bound, index) => ({ bound, count: atMost[index] ?? 0 })),
      sum,
      count,
      results: new Map(results),
    }));
  }

  families(): readonly Family[] {
    const figures = this.figures();
    const runs = figures.flatMap(({ command, results }) =>
      [...results].map(([result, value]) => ({ labels: { command, result }, value })),
    );
    const durations = figures.filter(({ count }) => count > 0).flatMap(histogramSamples);
    return [family("gridmeter_command_duration_seconds", durations), family("gridmeter_command_runs_total", runs)];
  }
}

function histogramSamples({ command, buckets, sum, count }: CommandFigures): readonly Sample[] {
  const bucket = (le: string, value: number): Sample => ({ labels: { command, le }, value, suffix: "_bucket" });
  return [
    ...buckets.map(({ bound, count: atMost }) => bucket(String(bound), atMost)),
    bucket("+Inf", count),
    { labels: { command }, value: sum, suffix: "_sum" },
    { labels: { command }, value: count, suffix: "_count" },
  ];
}

/** Keeps the account of what was sent to the Pushgateway. */
export class PushAccount {
  readonly #results = new Map<PushResult, number>(PUSH_RESULTS.map((result) => [result, 0]));
  #lastSuccess: number | undefined;
  #lastSeconds: number | undefined;
  #pending: () => number = () => 0;

  /** One push has ended. `at`: epoch seconds. */
  ended(result: PushResult, seconds: number, at: number): void {
    this.#results.set(result, (this.#results.get(result) ?? 0) + 1);
    this.#lastSeconds = seconds;
    if (result === "ok") this.#lastSuccess = at;
  }

  /** Says who knows how many groups wait. */
  pendingFrom(count: () => number): void {
    this.#pending = count;
  }

  families(): readonly Family[] {
    return [
      family(
        "gridmeter_push_total",
        [...this.#results].map(([result, value]) => ({ labels: { result }, value })),
      ),
      single("gridmeter_push_last_success_timestamp_seconds", this.#lastSuccess),
      single("gridmeter_push_last_duration_seconds", this.#lastSeconds),
      single("gridmeter_push_groups_pending", this.#pending()),
    ];
  }
}

/** A family of the catalogue with its samples. Times are counted to the microsecond: what clocks have beyond it is noise. */
function family(name: SelfMetricName, samples: readonly Sample[]): Family {
  const { help, type } = SELF_METRICS[name];
  const rounded = ({ value, ...rest }: Sample): Sample => ({
    ...rest,
    value: Number.isInteger(value) ? value : Number(value.toFixed(6)),
  });
  return { name, help, type, samples: samples.map(rounded) };
}

/** A family with one sample and no labels of its own, or none if there is no value: what is not known is absent. */
function single(name: SelfMetricName, value: number | undefined): Family {
  return family(name, value === undefined ? [] : [{ labels: {}, value }]);
}

/** The `probe` of what the agent says about itself. */
const AGENT_PROBE = "agent";

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

/** In the group of every probe. They stay when data vanish, so that an alert can say which command hangs. */
export const PROBE_METRICS = {
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
} as const satisfies Record<`gridmeter_${"probe" | "command"}_${string}`, FamilyEntry>;

/** Only in the agent's own group, probe="agent". */
export const AGENT_METRICS = {
  gridmeter_push_total: counter("Pushes to the Pushgateway by what they came to.", ["result"]),
  gridmeter_push_last_success_timestamp_seconds: gauge("When a push last succeeded, in seconds since 1970."),
  gridmeter_push_last_duration_seconds: gauge("How long the last push took."),
  gridmeter_push_groups_pending: gauge("Groups whose newest values the Pushgateway does not have yet."),
  gridmeter_probe_agent_info: gauge("Always 1; the agent's version.", ["version"]),
  gridmeter_probe_agent_start_time_seconds: gauge("When the agent started, in seconds since 1970."),
  gridmeter_probe_agent_heartbeat_timestamp_seconds: gauge(
    "When these values were made, in seconds since 1970: old on the Pushgateway when the agent is gone.",
  ),
  gridmeter_probe_agent_resident_memory_bytes: gauge("Memory of the agent, without its children."),
  gridmeter_probe_agent_cpu_seconds_total: counter("CPU time of the agent, without its children."),
} as const satisfies Record<`gridmeter_${"probe" | "push"}_${string}`, FamilyEntry>;

/**
 * Every metric about the agent and its probes, beside those of GPUs (GPU_METRICS) and of the node (NODE_METRICS). A name has one
 * type and one help text everywhere.
 */
export const SELF_METRICS = { ...PROBE_METRICS, ...AGENT_METRICS } as const;

type SelfMetricName = keyof typeof SELF_METRICS;
