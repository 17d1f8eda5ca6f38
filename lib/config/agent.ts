import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { dirname, resolve } from "node:path";
import type { z } from "zod";
import { errorText } from "../errors.ts";
import { parseAgentDocument } from "./agent-document.ts";
import { gatewayProblems, rootedGateway } from "./agent-gateway.ts";
import { probeKeys, probes } from "./agent-probes.ts";
import { agentConfigurationError, problemsOf, type AgentProblem } from "./agent-problems.ts";
import { gatewayUrl, isMapping, listen, mapping, seconds, text, word, yesOrNo } from "./agent-values.ts";
import type { Raw } from "./read.ts";

/** The agent's job on the Pushgateway, if nothing else is said; what reaps dead groups goes by it too. */
export const AGENT_JOB = "gridmeter_agent";
/** job-exporter's port, so that what scrapes it goes on. */
const DEFAULT_LISTEN = ":9102";

const Gateway = {
  url: gatewayUrl.optional(),
  username: text("agent").optional(),
  passwordFile: text("/etc/gridmeter/password").optional(),
  bearerTokenFile: text("/var/run/secrets/token").optional(),
  caFile: text("/etc/gridmeter/ca.pem").optional(),
  // The alert rules take a group that is older than 5 minutes for a dead agent's.
  interval: seconds(1, 120).default(30),
};

const Agent = {
  listen: listen.default(DEFAULT_LISTEN),
  instance: text("gpu-node-1").optional(),
  job: text(AGENT_JOB).default(AGENT_JOB),
  pushgateway: mapping(Gateway).optional(),
  probes: probes.default({}),
  openpaiNames: yesOrNo.default(false),
  logLevel: word("debug", "info", "warn", "error").default("info"),
};
const schema = mapping(Agent);
type Written = z.infer<typeof schema>;

/** A Pushgateway; the files' paths are absolute and the files were readable. `interval`: seconds between pushes without news. */
export type AgentGateway = Omit<NonNullable<Written["pushgateway"]>, "url"> & { readonly url: string };

/** The agent's configuration, whole and checked. Without `listen` there is no port, without `pushgateway` no push. */
export type AgentConfig = Omit<Written, "listen" | "instance" | "pushgateway"> & {
  readonly listen: string | undefined;
  readonly instance: string;
  readonly pushgateway: AgentGateway | undefined;
  /** where it was read, for the log */
  readonly file: string | undefined;
};

/** What the command line says; each wins over the environment, which wins over the file. */
export type AgentOverrides = {
  readonly config?: string | undefined;
  readonly listen?: string | undefined;
  readonly pushgateway?: string | undefined;
  readonly instance?: string | undefined;
  readonly openpaiNames?: boolean | undefined;
};

/**
 * Reads the agent's configuration: the YAML or JSON file of --config or GRIDMETER_AGENT_CONFIG (none is needed), with
 * PUSHGATEWAY_URL, NODE_NAME and the options in place of what it says. Relative paths in the file start beside it.
 *
 * @throws GridmeterError `config_invalid` that lists all that is wrong, files that cannot be read included; secrets are masked
 */
export function loadAgentConfig(env: Raw, overrides: AgentOverrides = {}): AgentConfig {
  const file = overrides.config ?? filled(env["GRIDMETER_AGENT_CONFIG"]);
  const document = file === undefined ? { ok: true as const, value: {} } : documentOf(file);
  if (!document.ok) throw agentConfigurationError(document.problems, file);
  const { raw, sources } = overlay(document.value ?? {}, env, overrides);
  const parsed = schema.safeParse(raw);
  const directory = file === undefined ? process.cwd() : dirname(resolve(file));
  const problems = [
    ...(parsed.success ? [] : problemsOf(parsed.error, raw, sources, keysOf)),
    ...gatewayProblems(
      isMapping(raw) ? raw["pushgateway"] : undefined,
      directory,
      isMapping(document.value) ? document.value["pushgateway"] : undefined,
    ),
  ];
  if (!parsed.success || problems.length > 0) throw agentConfigurationError(problems, file);
  const { instance, listen: address, pushgateway, ...rest } = parsed.data;
  return {
    ...rest,
    file,
    listen: address === "off" ? undefined : address,
    instance: instance ?? hostname(),
    pushgateway: rootedGateway(pushgateway, directory),
  };
}

function documentOf(file: string): ReturnType<typeof parseAgentDocument> {
  let contents: string;
  try {
    contents = readFileSync(file, "utf8");
  } catch (error) {
    const problem: AgentProblem = {
      setting: "the configuration",
      text: `cannot be read (${errorText(error)}). Write the path of a readable file`,
    };
    return { ok: false, problems: [problem] };
  }
  return parseAgentDocument(contents);
}

/** Puts options and variables in the places of the file's settings, and remembers where they came from. */
function overlay(written: unknown, env: Raw, overrides: AgentOverrides) {
  const sources = new Map<string, string>();
  const choose = (path: string, ...candidates: readonly (readonly [string, unknown])[]): Record<string, unknown> => {
    const found = candidates.find(([, value]) => value !== undefined);
    if (found === undefined) return {};
    sources.set(path, found[0]);
    return { [path.split(".").at(-1) ?? path]: found[1] };
  };
  const url = choose(
    "pushgateway.url",
    ["--pushgateway", overrides.pushgateway],
    ["PUSHGATEWAY_URL", filled(env["PUSHGATEWAY_URL"])],
  );
  const top = {
    ...choose("listen", ["--listen", overrides.listen]),
    ...choose("instance", ["--instance", overrides.instance], ["NODE_NAME", filled(env["NODE_NAME"])]),
    ...choose("openpaiNames", ["--openpai-names", overrides.openpaiNames === true ? true : undefined]),
  };
  if (!isMapping(written)) return { raw: written, sources };
  const gateway = written["pushgateway"] ?? {};
  const raw = {
    ...written,
    ...top,
    // A section of another shape stays as it is, to be refused.
    ...(sources.has("pushgateway.url") && isMapping(gateway) ? { pushgateway: { ...gateway, ...url } } : {}),
  };
  return { raw, sources };
}

function keysOf(path: readonly PropertyKey[]): readonly string[] {
  const [section, name] = path.map(String);
  if (section === undefined) return Object.keys(Agent);
  return section === "probes" && name !== undefined ? probeKeys(name) : Object.keys(Gateway);
}

function filled(text: string | undefined): string | undefined {
  return text === undefined || text.trim() === "" ? undefined : text.trim();
}
