import type { Probe } from "../../agent/probe.ts";
import { Slot } from "../../agent/slot.ts";
import type { Command, Metric, Output, Parsed } from "../../agent/types.ts";
import type { Limits } from "./limits.ts";
import type { Failure } from "./reading.ts";
import { conduct } from "./run.ts";

/** A probe that runs one command. */
export type SingleCommand<T, Readings> = {
  readonly name: string;
  readonly limits: Limits;
  /** the command's name in `gridmeter_command_duration_seconds` */
  readonly label: string;
  /** the command, or why there is none now */
  readonly argv: () => Promise<Command["argv"] | Failure>;
  readonly parse: (output: Output) => Parsed<T>;
  /** adds what the command does not say, within so many seconds; rejects if that cannot be read */
  readonly complete?: (value: T, secondsLeft: number) => Promise<T>;
  readonly metrics: (value: T) => readonly Metric[];
  /** what other probes' data are joined with, within so many seconds */
  readonly readings: (value: T, secondsLeft: number) => Promise<Partial<Readings>>;
  readonly unavailable: () => Promise<string | undefined>;
};

export const singleProbe = <T, Readings>(probe: SingleCommand<T, Readings>): Probe<Readings> => {
  const { name, label, limits } = probe;
  const { interval, timeout, maxBytes } = limits;
  const slot = new Slot();
  return {
    name,
    interval,
    timeout,
    unavailable: probe.unavailable,
    stuck: () => slot.stuck,
    run: () =>
      conduct(timeout, async (run) => {
        const argv = await probe.argv();
        if ("kind" in argv) return argv;
        const start = (seconds: number) => slot.run({ argv, timeout: seconds, maxBytes });
        const reading = await run.read(label, timeout, start, probe.parse);
        if (reading.kind !== "ok") return reading;
        const { value: printed, rejected, exitCode } = reading;
        const value = (await probe.complete?.(printed, run.left)) ?? printed;
        const metrics = probe.metrics(value);
        return { kind: "ok", metrics, readings: await probe.readings(value, run.left), rejected, exitCode };
      }),
  };
};
