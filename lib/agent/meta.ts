import { GridmeterError } from "../errors.ts";
import type { Family } from "./exposition.ts";
import { AGENT_PROBE } from "./meta-catalogue.ts";
import { durationBounds } from "./meta-commands.ts";
import { single, family } from "./meta-family.ts";
import { ProbeAccount } from "./meta-probe.ts";
import type { ProbeFigures } from "./meta-probe.ts";
import type { PushAccount } from "./meta-pushes.ts";
import type { Probe, ProbeRun } from "./probe.ts";

/** What the agent's process costs, its children apart. Its memory is not known while it has no file descriptors left. */
export type ProcessFigures = { readonly residentBytes: number | undefined; readonly cpuSeconds: number };

export type MetaOptions = {
  readonly probes: readonly Pick<Probe, "name" | "interval" | "timeout" | "stuck">[];
  readonly version: string;
  /** epoch seconds */
  readonly wallClock: () => number;
  readonly process: () => ProcessFigures;
  /** without a Pushgateway there is nothing to say about pushes */
  readonly pushes?: PushAccount;
};

/** The account of all probes' runs and of the agent itself: the metrics that stay when data vanish. */
export class Meta {
  readonly #options: MetaOptions;
  readonly #started: number;
  readonly #accounts: ReadonlyMap<string, ProbeAccount>;

  /** @throws GridmeterError config_invalid if two probes have one name, or one that of the agent's own group */
  constructor(options: MetaOptions) {
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
