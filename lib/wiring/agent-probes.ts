import type { Probe } from "../agent/probe.ts";
import type { AgentConfig } from "../config/agent.ts";
import { GridmeterError } from "../errors.ts";
import { createProbe } from "../probes/run/create.ts";
import { PROBE_DEFAULTS } from "../probes/run/defaults.ts";
import { PROBE_NAMES, isProbeName } from "../probes/run/settings.ts";

type Configured = Pick<AgentConfig, "probes">;

/** The names of all probes that there are: the built-in ones, and those that the configuration adds. */
export function probeNames({ probes }: Configured): readonly string[] {
  return [...PROBE_NAMES, ...Object.keys(probes).filter((name) => !isProbeName(name))];
}

/**
 * A probe as it is configured. One that the configuration disables is there, and says so when it is asked whether it can run.
 * @throws GridmeterError `config_invalid` if its settings do not go together
 */
export function configuredProbe(name: string, { probes }: Configured): Probe {
  const { enabled, ...settings } = probes[name] ?? {};
  const probe = createProbe(name, settings);
  if (enabled !== false) return probe;
  return { ...probe, unavailable: () => Promise.resolve("the configuration disables it") };
}

/** All probes. @throws GridmeterError `config_invalid` that tells of all whose settings do not go together */
export function configuredProbes(config: Configured): readonly Probe[] {
  const problems: string[] = [];
  const probes = probeNames(config).flatMap((name) => {
    try {
      return [configuredProbe(name, config)];
    } catch (thrown) {
      if (!(thrown instanceof GridmeterError)) throw thrown;
      problems.push(thrown.message);
      return [];
    }
  });
  const [first, ...lines] = problems;
  if (first === undefined) return probes;
  throw new GridmeterError("config_invalid", first, { lines });
}

/** What a probe runs and reads, for people. */
export function describeProbe(
  name: string,
  { probes }: Configured,
): { readonly command: readonly string[]; readonly description: string } {
  const command = probes[name]?.command;
  if (!isProbeName(name))
    return { command: command ?? [], description: "a probe of your own: what its command prints" };
  const { description, command: usual } = PROBE_DEFAULTS[name];
  return { command: command ?? usual, description };
}
