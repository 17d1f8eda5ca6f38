import type { ProbeRun } from "../agent/probe.ts";
import type { AgentLog } from "../agent/schedule-log.ts";
import type { ResultKind } from "../agent/types.ts";

/** Tells of a probe's results when they change, and not at each run: what fails for a day is one line. */
export class ResultLog {
  readonly #log: AgentLog;
  readonly #last = new Map<string, ResultKind>();

  constructor(log: AgentLog) {
    this.#log = log;
  }

  settled(probe: string, { kind, seconds, detail, exitCode, commands }: ProbeRun): void {
    const before = this.#last.get(probe);
    // While a child that hangs is there, no other is started: that is the same fault, and so is the timeout after it.
    if (before === kind || (before === "timeout" && kind === "skipped_in_flight")) return;
    this.#last.set(probe, kind);
    const fields = { probe, result: kind, seconds: Number(seconds.toFixed(3)) };
    if (kind !== "ok") {
      const failed = commands.filter((one) => one.kind !== "ok").map((one) => `${one.command}: ${one.kind}`);
      const why = { detail, exitCode, commands: [...new Set(failed)].slice(0, 10) };
      this.#log.warn({ ...fields, ...why }, "the probe failed: its data are not published");
    } else if (before !== undefined) this.#log.info(fields, "the probe works again");
  }

  /** A probe that was disabled begins anew. */
  enabled(probe: string): void {
    this.#last.delete(probe);
  }
}
