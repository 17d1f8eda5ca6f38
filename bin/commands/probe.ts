import { readFile } from "node:fs/promises";
import { text as streamText } from "node:stream/consumers";
import { killAll } from "../../lib/agent/command/run.ts";
import { type AgentConfig, loadAgentConfig } from "../../lib/agent/config.ts";
import { didYouMean } from "../../lib/shared/config-values.ts";
import { GridmeterError, errorText } from "../../lib/shared/errors.ts";
import { ParseError } from "../../lib/agent/probes/common/parse.ts";
import { parseSaved } from "../../lib/agent/probes/registry.ts";
import { configuredProbe, describeProbe, probeNames } from "../../lib/agent/agent.ts";
import { asJson, commandLine, expositionOf, probesTable, toldOf } from "../show/agent-probes.ts";
import { endOnSignal } from "./agent-signals.ts";
import { say } from "./options.ts";

export type ProbeOptions = {
  readonly config?: string | undefined;
  readonly input?: string | undefined;
  readonly list?: boolean | undefined;
  readonly json?: boolean | undefined;
};

/**
 * `gridmeter probe NAME`: runs one probe once and prints its metrics, or what it has read as JSON; with --input it reads a saved
 * output instead and runs nothing. Exit code 4 if the run was not ok, 2 for an unknown name.
 */
export async function probe(name: string | undefined, options: ProbeOptions): Promise<number> {
  const config = loadAgentConfig(process.env, options);
  if (options.list === true) return list(config, options.json === true);
  const known = probeNames(config);
  if (name === undefined || !known.includes(name)) {
    const what =
      name === undefined ? "Which probe?" : `There is no probe ${JSON.stringify(name)}${didYouMean(name, known)}`;
    throw new GridmeterError("usage", `${what} Nothing was run. Give one of ${known.join(", ")}.`);
  }
  return options.input === undefined ? runOnce(name, config, options) : parseFile(name, config, options.input, options);
}

async function runOnce(name: string, config: AgentConfig, { json }: ProbeOptions): Promise<number> {
  // Its commands are in groups of their own, which the terminal's Ctrl-C does not reach.
  endOnSignal();
  const probe = configuredProbe(name, config);
  const why = await probe.unavailable();
  if (why !== undefined) throw failed(name, config, `${name} cannot run on this node: ${why}.`);
  const run = await probe.run();
  // A command that timed out is still being ended.
  await killAll();
  const { readings, ...rest } = run;
  if (json === true) process.stdout.write(asJson({ probe: name, ...rest, parsed: readings }));
  if (run.kind !== "ok") throw failed(name, config, toldOf(name, run));
  if (json !== true) process.stdout.write(expositionOf(name, run.metrics));
  if (run.rejected > 0) say(`${run.rejected} rows or values of ${name} were broken and left out`);
  return 0;
}

async function parseFile(name: string, config: AgentConfig, input: string, { json }: ProbeOptions): Promise<number> {
  const { enabled: _enabled, ...settings } = config.probes[name] ?? {};
  const stdout = await contents(input);
  let saved: ReturnType<typeof parseSaved>;
  try {
    saved = parseSaved(name, { stdout, stderr: "", exitCode: 0 }, settings);
  } catch (thrown) {
    if (!(thrown instanceof ParseError)) throw thrown;
    const file = JSON.stringify(input);
    const text = `${file} is no output of ${name}: ${thrown.message}. Nothing was published. Save what \`${commandOf(name, config)}\` prints.`;
    throw new GridmeterError("probe_failed", text, { cause: thrown });
  }
  const { metrics, parsed, rejected } = saved;
  process.stdout.write(
    json === true ? asJson({ probe: name, rejected, parsed, metrics }) : expositionOf(name, metrics),
  );
  if (rejected > 0) say(`${rejected} rows or values were broken and left out`);
  return 0;
}

async function list(config: AgentConfig, json: boolean): Promise<number> {
  const lines = await Promise.all(
    probeNames(config).map(async (name) => {
      const probe = configuredProbe(name, config);
      const { interval, timeout } = probe;
      return { name, why: shortened(await probe.unavailable()), interval, timeout, ...describeProbe(name, config) };
    }),
  );
  process.stdout.write(json ? asJson({ probes: lines }) : `${probesTable(lines)}\n`);
  return 0;
}

async function contents(input: string): Promise<string> {
  try {
    // Bytes that are no UTF-8 are replaced, as in a command's output.
    return input === "-" ? await streamText(process.stdin) : await readFile(input, "utf8");
  } catch (thrown) {
    const text = `--input ${JSON.stringify(input)} cannot be read (${errorText(thrown)}). Nothing was parsed. Give a readable file, or - for stdin.`;
    throw new GridmeterError("usage", text);
  }
}

function failed(name: string, config: AgentConfig, what: string): GridmeterError {
  return new GridmeterError(
    "probe_failed",
    `${what} Nothing was published. The command is \`${commandOf(name, config)}\`: run it by hand, or change probes.${name} of the configuration.`,
  );
}

function commandOf(name: string, config: AgentConfig): string {
  return commandLine(describeProbe(name, config).command);
}

/** The search path is the same for all, and longer than a line. */
function shortened(why: string | undefined): string | undefined {
  const path = process.env["PATH"] ?? "";
  return path === "" ? why : why?.replaceAll(path, "PATH");
}
