import type { Family } from "./exposition.ts";
import { CommandCounts } from "./meta-commands.ts";
import type { CommandFigures } from "./meta-commands.ts";
import { family, single } from "./meta-family.ts";
import type { Probe, ProbeRun } from "./probe.ts";
import { RESULT_KINDS } from "./types.ts";
import type { ResultKind } from "./types.ts";

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
export class ProbeAccount {
  readonly #probe: Pick<Probe, "interval" | "timeout" | "stuck">;
  readonly #commands: CommandCounts;
  readonly #runs = new Map<ResultKind, number>(RESULT_KINDS.map((kind) => [kind, 0]));
  #enabled = true;
  #last: { readonly run: Pick<ProbeRun, "kind" | "seconds" | "exitCode">; readonly at: number } | undefined;
  #lastSuccess: number | undefined;
  #rejected = 0;
  #dropped = 0;
  /** what `families` gave last, for as long as it is true */
  #shown: { readonly stuck: number; readonly families: readonly Family[] } | undefined;

  constructor(probe: Pick<Probe, "interval" | "timeout" | "stuck">, bounds: readonly number[]) {
    this.#probe = probe;
    this.#commands = new CommandCounts(bounds);
  }

  enable(enabled: boolean): void {
    this.#enabled = enabled;
    this.#shown = undefined;
  }

  /** `at`: epoch seconds. Only what is counted is kept of the run, not its data. */
  settled({ kind, seconds, exitCode, rejected, commands }: ProbeRun, at: number): void {
    this.#shown = undefined;
    this.#last = { run: { kind, seconds, ...(exitCode === undefined ? {} : { exitCode }) }, at };
    if (kind === "ok") this.#lastSuccess = at;
    this.#runs.set(kind, (this.#runs.get(kind) ?? 0) + 1);
    this.#rejected += rejected;
    for (const command of commands) this.#commands.add(command);
  }

  /** `series` were left out of what a run gave. */
  dropped(series: number): void {
    this.#dropped += series;
    this.#shown = undefined;
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

  /** The same objects as before while nothing has changed, so that they need not be laid out again. */
  families(): readonly Family[] {
    const stuck = this.#probe.stuck();
    if (this.#shown?.stuck !== stuck) this.#shown = { stuck, families: this.#families(stuck) };
    return this.#shown.families;
  }

  #families(stuck: number): readonly Family[] {
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
      single("gridmeter_probe_stuck_children", stuck),
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
