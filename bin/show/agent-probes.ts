import type { ProbeRun } from "../../lib/agent/probes/common/probe.ts";
import { type Metric, agree, render } from "../../lib/shared/exposition.ts";
import { knownMetric } from "../../lib/agent/agent.ts";
import { visible } from "../../lib/shared/text.ts";
import { forReader } from "./terminal.ts";
import { textTable } from "./table.ts";

/** One line of `gridmeter probe --list`. */
export type ProbeLine = {
  readonly name: string;
  /** why it cannot run here, or undefined */
  readonly why: string | undefined;
  readonly interval: number;
  readonly timeout: number;
  readonly command: readonly string[];
  readonly description: string;
};

/** The probes as a table: whether each can run on this node, and what it reads with which command. */
export function probesTable(lines: readonly ProbeLine[]): string {
  return textTable(
    ["probe", "here", "every", "timeout", "what it reads, and how"],
    lines.map(({ name, why, interval, timeout, command, description }) => [
      name,
      why ?? "yes",
      `${interval} s`,
      `${timeout} s`,
      [description, `$ ${commandLine(command)}`],
    ]),
    { most: [null, 28, null, null, 64] },
  );
}

/** The metrics of one probe in Prometheus' text format, as the agent would publish them. */
export function expositionOf(probe: string, metrics: readonly Metric[]): string {
  return forReader(render(agree([[probe, metrics]], knownMetric).blocks.get(probe) ?? []), process.stdout.isTTY);
}

/** A line of JSON of anything a probe has read: maps become objects, since JSON has none. */
export function asJson(value: unknown): string {
  const text = JSON.stringify(value, (_key, one: unknown) =>
    one instanceof Map ? Object.fromEntries(one) : one instanceof Set ? [...one] : one,
  );
  return `${visible(text)}\n`;
}

/** For a person: what became of a run, and of each of its commands. */
export function toldOf(probe: string, { kind, seconds, detail, exitCode, commands }: ProbeRun): string {
  const how = detail === undefined ? "" : `: ${detail}`;
  const code = exitCode === undefined ? "" : ` (exit code ${exitCode})`;
  const parts = commands.map((one) => `${one.command} ${one.kind} after ${one.seconds.toFixed(2)} s`);
  const several = parts.length === 0 ? "" : ` Of its commands: ${parts.slice(0, 20).join(", ")}.`;
  return `${probe} ended in ${kind} after ${seconds.toFixed(2)} s${code}${how}.${several}`;
}

/** The command as it could be typed. */
export function commandLine(argv: readonly string[]): string {
  return argv.map((one) => (/^[\w./:@%+=,{}-]+$/.test(one) ? one : `'${one.replaceAll("'", `'\\''`)}'`)).join(" ");
}
