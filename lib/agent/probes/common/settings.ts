import { access } from "node:fs/promises";
import { locateExecutable } from "../../command/executable.ts";
import { commandEnvironment, lackOfDescriptors } from "../../command/start.ts";
import type { Command } from "../../command/types.ts";
import { within } from "../../../shared/time-limit.ts";

/** The probes that are there without being configured. Any other name is that of a custom one. */
export const PROBE_NAMES = [
  "docker-daemon",
  "docker-stats",
  "docker-inspect",
  "docker-logs",
  "nvidia-smi",
  "rocm-smi",
  "iftop",
  "lsof",
  "ps",
  "crictl-stats",
] as const;
export type ProbeName = (typeof PROBE_NAMES)[number];

export const isProbeName = (name: string): name is ProbeName => PROBE_NAMES.some((known) => known === name);

/**
 * What can be set about a probe. All is optional: what is not set is as PROBE_DEFAULTS has it. Settings that are not the
 * probe's (see `options` there) are not read.
 */
export type ProbeSettings = {
  /**
   * instead of the probe's own; never run by a shell. `{id}`, `{pid}`, `{lines}` and `{interface}` stand for what the probe
   * fills in
   */
  readonly command?: Command["argv"] | undefined;
  /** seconds from the start of a run to the start of the next */
  readonly interval?: number | undefined;
  /** seconds for one run in all */
  readonly timeout?: number | undefined;
  /** bytes of stdout, and of stderr, that one command may print */
  readonly maxBytes?: number | undefined;

  /** false: the probe runs although the device or the socket that it is known by is not there */
  readonly requireDevice?: boolean | undefined;
  /** GPUs that the node should have */
  readonly expectedGpus?: number | undefined;
  /** the network interface to watch; that of the default route if it is not set */
  readonly interface?: string | undefined;
  /** the text in a container's log that says that its job has finished */
  readonly marker?: string | undefined;
  /** how many lines at the end of a container's log are read */
  readonly lines?: number | undefined;
  /** seconds for which a process must have been D or Z to be counted */
  readonly longStanding?: number | undefined;
  /** bytes from which on a process's resident memory is published */
  readonly largeResidentBytes?: number | undefined;
  /** how many commands that are run once a container are at work at a time */
  readonly concurrency?: number | undefined;
  /** seconds for each of them */
  readonly commandTimeout?: number | undefined;
  /** lists the containers, an id a line */
  readonly listCommand?: Command["argv"] | undefined;
  /** the address of the container runtime */
  readonly endpoint?: string | undefined;
  /** where the host's /proc is */
  readonly proc?: string | undefined;
};

/** A setting that only some probes have. */
export type ProbeOption = Exclude<keyof ProbeSettings, "command" | "interval" | "timeout" | "maxBytes">;

/** What a probe is if nothing else is set, and what can be set about it. */
export type ProbeDefaults = {
  /** what it reads, in one line */
  readonly description: string;
  /** seconds */
  readonly interval: number;
  /** seconds for one run in all */
  readonly timeout: number;
  readonly command: Command["argv"];
  readonly maxBytes: number;
  /** the settings that it has besides those of every probe, with their defaults; undefined where there is none */
  readonly options: { readonly [Option in ProbeOption]?: ProbeSettings[Option] };
};

/** Seconds between two runs of a probe. */
export const USUAL_INTERVAL = 30;

/** A command with its byte cap; how long it may take is the probe's timeout or `commandTimeout`. */
export const commandDefaults = ({ argv, maxBytes }: Command): Pick<ProbeDefaults, "command" | "maxBytes"> => ({
  command: argv,
  maxBytes,
});

/** Seconds after which a file system that hangs is left alone: the probe's own run will show. */
const LONGEST_LOOK = 5;

/** Why one of these tools cannot be started, or undefined if all can. Nothing is run; a name is looked for in PATH. */
export const missingTool = (names: readonly string[]): Promise<string | undefined> =>
  orUnknown(async () => {
    const { PATH } = commandEnvironment("none", process.env);
    for (const name of names) {
      const located = await locateExecutable(name, PATH);
      // Without file descriptors nobody knows: the probe's own run will.
      if (located.kind !== "found") return lackOfDescriptors() === undefined ? located.detail : undefined;
    }
    return undefined;
  });

/** Says that none of these files is there, or undefined if one is. */
export const missingFile = (what: string, paths: readonly string[]): Promise<string | undefined> =>
  orUnknown(async () => {
    const there = await Promise.all(paths.map((path) => exists(path)));
    return there.includes(true) ? undefined : `there is no ${what} (${paths.join(", ")})`;
  });

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

const orUnknown = (look: () => Promise<string | undefined>): Promise<string | undefined> =>
  within(LONGEST_LOOK, look(), undefined);
