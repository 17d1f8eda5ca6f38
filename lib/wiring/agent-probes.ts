import type { Probe } from "../agent/probe.ts";
import type { AgentConfig } from "../config/agent.ts";
import { createProbe } from "../probes/run/create.ts";
import { CUSTOM_DEFAULTS, PROBE_DEFAULTS } from "../probes/run/defaults.ts";
import { PROBE_NAMES, isProbeName } from "../probes/run/settings.ts";

/** The names of all probes that there are: the built-in ones, and those that the configuration adds. */
export function probeNames(config: Pick<AgentConfig, "probes">): readonly string[] {
  return [...PROBE_NAMES, ...Object.keys(config.probes).filter((name) => !isProbeName(name))];
}

/** A probe as it is configured. One that the configuration disables is there, and says so when it is asked whether it can run. */
export function configuredProbe(name: string, config: Pick<AgentConfig, "probes">): Probe {
  const { enabled, ...settings } = config.probes[name] ?? {};
  const probe = createProbe(name, settings);
  if (enabled !== false) return probe;
  return { ...probe, unavailable: () => Promise.resolve("the configuration disables it") };
}

/** What a probe runs and reads, for people. */
export function describeProbe(
  name: string,
  config: Pick<AgentConfig, "probes">,
): { readonly command: readonly string[]; readonly description: string } {
  const command = config.probes[name]?.command;
  if (isProbeName(name)) {
    const { description, command: usual } = PROBE_DEFAULTS[name];
    return { command: command ?? usual, description };
  }
  const seconds = `its own ${CUSTOM_DEFAULTS.timeout} s`;
  return {
    command: command ?? [],
    description: `a probe of your own: what its command prints (timeout ${seconds} by default)`,
  };
}
