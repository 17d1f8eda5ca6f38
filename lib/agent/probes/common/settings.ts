import { access } from "node:fs/promises";
import { within } from "../../../shared/time-limit.ts";
import { locateExecutable } from "../../command/executable.ts";
import { commandEnvironment, lackOfDescriptors } from "../../command/start.ts";
import type { Command } from "../../command/types.ts";

/** gridmeter's own probes. Any other name is that of a custom probe. */
export const PROBE_NAMES = [
  "docker-daemon",
  "docker-stats",
  "docker-inspect",
  "docker-logs",
  "nvidia-smi",
  "amd-smi",
  "rocm-smi",
  "iftop",
  "lsof",
  "ps",
  "crictl-stats",
] as const;
export type ProbeName = (typeof PROBE_NAMES)[number];

export const isProbeName = (name: string): name is ProbeName => PROBE_NAMES.some((known) => known === name);

/**
 * The settings of a probe. Each is optional and has its default in PROBE_DEFAULTS (registry.ts). A probe reads only the options that
 * it has there.
 */
export type ProbeSettings = {
  /**
   * replaces the probe's own; never run by a shell. The probe replaces the placeholders `{id}`, `{pid}`, `{lines}` and
   * `{interface}`
   */
  readonly command?: Command["argv"] | undefined;
  /** seconds from the start of a run to the start of the next */
  readonly interval?: number | undefined;
  /** seconds for one run in all */
  readonly timeout?: number | undefined;
  /** bytes of stdout, and of stderr, that one command may print */
  readonly maxBytes?: number | undefined;

  /** false: the probe runs even if its device or socket is not there */
  readonly requireDevice?: boolean | undefined;
  /** GPUs that the node should have */
  readonly expectedGpus?: number | undefined;
  /** the network interface to watch; that of the default route if it is not set */
  readonly interface?: string | undefined;
  /** the text in a container's log that means that its job has finished */
  readonly marker?: string | undefined;
  /** how many lines at the end of a container's log are read */
  readonly lines?: number | undefined;
  /** seconds for which a process must have been in state D or Z to be counted */
  readonly longStanding?: number | undefined;
  /** bytes of resident memory above which a process is published */
  readonly largeResidentBytes?: number | undefined;
  /** how many of the commands that are run once a container run at a time */
  readonly concurrency?: number | undefined;
  /** seconds for each of them */
  readonly commandTimeout?: number | undefined;
  /** the command that lists the containers, an id a line */
  readonly listCommand?: Command["argv"] | undefined;
  /** the address of the container runtime */
  readonly endpoint?: string | undefined;
  /** where the host's /proc is */
  readonly proc?: string | undefined;
};

/** A setting that only some probes have. */
export type ProbeOption = Exclude<keyof ProbeSettings, "command" | "interval" | "timeout" | "maxBytes">;

/** The defaults of a probe's settings. */
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

/** Seconds for looking for tools and files: their file system may hang. */
const LONGEST_LOOK = 5;

/** Why one of these tools cannot be started; undefined if all can, or if that is not known. Names are looked up in PATH. */
export const missingTool = (names: readonly string[]): Promise<string | undefined> =>
  orUnknown(async () => {
    const { PATH } = commandEnvironment("none", process.env);
    for (const name of names) {
      const located = await locateExecutable(name, PATH);
      // If no file descriptor is free, the tool may still be there.
      if (located.kind !== "found") return lackOfDescriptors() === undefined ? located.detail : undefined;
    }
    return undefined;
  });

/** A message that none of these files is there; undefined if one is, or if that is not known. */
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

/** Undefined if the look takes too long. The run that follows then fails with its own reason. */
const orUnknown = (look: () => Promise<string | undefined>): Promise<string | undefined> =>
  within(LONGEST_LOOK, look(), undefined);
