import { z } from "zod";
import { boolean, didYouMean, duration, oneOf, wholeNumber } from "../shared/config-values.ts";
import { command, isMapping, mapping, read, text } from "./config-values.ts";
import { PROBE_NAMES, type ProbeOption, type ProbeSettings, isProbeName } from "./probes/common/settings.ts";
import { PROBE_DEFAULTS } from "./probes/registry.ts";

const HOUR = 3600;
const DAY = 86_400;

/** Asked more often, some GPUs' drivers hang: https://github.com/utkuozdemir/nvidia_gpu_exporter/issues/89. Seconds. */
const SHORTEST_NVIDIA_INTERVAL = 5;

// What hangs for an hour hangs. There is no way to write a probe without a finite timeout.
const timeout = read(duration(0.1, HOUR)).optional();

const EVERY = {
  enabled: read(boolean).optional(),
  command: command.optional(),
  interval: read(duration(0.5, DAY)).optional(),
  timeout,
  maxBytes: read(wholeNumber(1000, 100_000_000)).optional(),
};

const OPTIONS = {
  requireDevice: read(boolean).optional(),
  expectedGpus: read(wholeNumber(0, 1000)).optional(),
  interface: text("eth0").optional(),
  marker: text('"USER COMMAND END"').optional(),
  lines: read(wholeNumber(1, 10_000)).optional(),
  longStanding: read(duration(1, DAY)).optional(),
  largeResidentBytes: read(wholeNumber(0, Number.MAX_SAFE_INTEGER)).optional(),
  concurrency: read(wholeNumber(1, 64)).optional(),
  commandTimeout: timeout,
  listCommand: command.optional(),
  endpoint: text("unix:///run/containerd/containerd.sock").optional(),
  proc: text("/host/proc").optional(),
} as const satisfies Record<ProbeOption, z.ZodType>;

const Any = mapping({ ...EVERY, ...OPTIONS, type: read(oneOf("custom")).optional() });

/** What the configuration says about one probe. What it does not say is as PROBE_DEFAULTS has it. */
type ConfiguredProbe = ProbeSettings & {
  /** false: it is not there for schedule and readiness; true or undefined: it runs where its tool and device are */
  readonly enabled?: boolean | undefined;
};

/** The settings that a probe of this name may have. */
export function probeKeys(name: string): readonly string[] {
  const own = isProbeName(name) ? Object.keys(PROBE_DEFAULTS[name].options) : ["type"];
  return [...Object.keys(EVERY), ...own];
}

/** The section `probes`: built-in ones by their names, and custom ones. All that is wrong becomes an issue of its own. */
export const probes = z.record(z.string(), z.unknown()).transform((written, context) => {
  const read: Record<string, ConfiguredProbe> = {};
  for (const [name, value] of Object.entries(written)) {
    const report = (path: readonly PropertyKey[], message: string, params = {}): void => {
      context.addIssue({ code: "custom", path: [name, ...path], message, params });
    };
    const problem = isProbeName(name) ? undefined : nameProblem(name, value);
    if (problem !== undefined) {
      report([], problem, UNQUOTED);
      continue;
    }
    const known = probeKeys(name);
    const section = isMapping(value) ? value : {};
    const extra = Object.keys(section).filter((key) => !known.includes(key));
    if (extra.length > 0)
      context.addIssue({ code: "unrecognized_keys", keys: extra, path: [name], input: { ...section } });
    const parsed = Any.safeParse(isMapping(value) ? without(value, extra) : value);
    for (const issue of parsed.error?.issues ?? []) context.addIssue({ ...issue, path: [name, ...issue.path] });
    if (!parsed.success) continue;
    const { type: _custom, ...settings } = parsed.data;
    if (name === "nvidia-smi" && settings.interval !== undefined && settings.interval < SHORTEST_NVIDIA_INTERVAL) {
      report(
        ["interval"],
        `is less than ${SHORTEST_NVIDIA_INTERVAL}s, and drivers hang when they are asked more often`,
      );
    }
    read[name] = settings;
  }
  return read;
});

function without(value: Readonly<Record<string, unknown>>, keys: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([key]) => !keys.includes(key)));
}

/** The name is a label, a segment of a path of the gateway, and an argument of the command line. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/;

/** A misspelt name must not become a probe of its own: such a one says what it is. */
function nameProblem(name: string, value: unknown): string | undefined {
  if (!NAME.test(name) || name === "agent") {
    return 'is no name for a probe. Write letters, digits, "_", "." and "-", and not "agent", which is the agent itself';
  }
  if (isMapping(value) && value["type"] !== undefined && value["command"] !== undefined) return undefined;
  const guess = didYouMean(name, PROBE_NAMES) || `, which are ${PROBE_NAMES.join(", ")}.`;
  return `is none of the agent's probes${guess} A probe of your own needs type: custom and a command that prints Prometheus text`;
}

/** Parameters of an issue that is about a key and not about what is there. */
const UNQUOTED = { unquoted: true };
