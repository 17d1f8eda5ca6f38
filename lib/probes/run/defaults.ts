import type { Command } from "../../agent/types.ts";
import { CRICTL_STATS_COMMAND } from "../crictl-stats.ts";
import { DOCKER_DAEMON_COMMAND } from "../docker-daemon.ts";
import { DOCKER_PS_COMMAND, dockerInspectCommand } from "../docker-inspect.ts";
import { dockerLogsCommand } from "../docker-logs.ts";
import { DOCKER_STATS_COMMAND } from "../docker-stats.ts";
import { iftopCommand } from "../iftop.ts";
import { lsofCommand } from "../lsof.ts";
import { NVIDIA_SMI_COMMAND } from "../nvidia-smi.ts";
import { PS_COMMAND } from "../ps.ts";
import { ROCM_SMI_COMMAND } from "../rocm-smi.ts";
import { template } from "./placeholders.ts";
import type { ProbeName, ProbeOption, ProbeSettings } from "./settings.ts";

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

type Kinds = { readonly [Name in ProbeName]: ProbeDefaults };

const INTERVAL = 30;
const PER_CONTAINER = { concurrency: 4, commandTimeout: 5, listCommand: DOCKER_PS_COMMAND.argv } as const;
const GPUS = { requireDevice: true, expectedGpus: undefined, proc: "/proc" } as const;

/** A command with its byte cap; how long it may take is the probe's timeout or `commandTimeout`. */
const of = ({ argv, maxBytes }: Command): Pick<ProbeDefaults, "command" | "maxBytes"> => ({ command: argv, maxBytes });

/** Everything about the probes that can be set, for the configuration, for its documentation, and for the probes themselves. */
export const PROBE_DEFAULTS = {
  "docker-daemon": {
    description:
      "whether the docker daemon answers; with `systemctl is-active docker` as the command, what systemd says",
    interval: INTERVAL,
    timeout: DOCKER_DAEMON_COMMAND.timeout,
    ...of(DOCKER_DAEMON_COMMAND),
    options: {},
  },
  "docker-stats": {
    description: "CPU, memory, network and disk use of each container",
    interval: INTERVAL,
    timeout: DOCKER_STATS_COMMAND.timeout,
    ...of(DOCKER_STATS_COMMAND),
    options: {},
  },
  "docker-inspect": {
    description: "what each container is, which job it belongs to, and which GPUs it was given",
    interval: INTERVAL,
    timeout: 20,
    ...of(dockerInspectCommand("{id}")),
    options: PER_CONTAINER,
  },
  "docker-logs": {
    description: "whether a container's log says that its job has finished; off until a marker is configured",
    interval: INTERVAL,
    timeout: 20,
    command: template(dockerLogsCommand("{id}", 0).argv, "0", "{lines}"),
    maxBytes: dockerLogsCommand("{id}").maxBytes,
    options: { ...PER_CONTAINER, marker: undefined, lines: 50 },
  },
  "nvidia-smi": {
    description: "use, memory, temperature, power, errors and processes of NVIDIA's GPUs",
    interval: INTERVAL,
    timeout: NVIDIA_SMI_COMMAND.timeout,
    ...of(NVIDIA_SMI_COMMAND),
    options: GPUS,
  },
  "rocm-smi": {
    description: "use, memory, temperature, power and processes of AMD's GPUs",
    interval: INTERVAL,
    timeout: ROCM_SMI_COMMAND.timeout,
    ...of(ROCM_SMI_COMMAND),
    options: GPUS,
  },
  iftop: {
    description: "what the network interface carries, by connection",
    interval: INTERVAL,
    timeout: iftopCommand().timeout,
    ...of(iftopCommand("{interface}")),
    options: { interface: undefined, proc: "/proc" },
  },
  lsof: {
    description: "the established connections of each container",
    interval: INTERVAL,
    timeout: 20,
    command: template(lsofCommand(0).argv, "0", "{pid}"),
    maxBytes: lsofCommand(0).maxBytes,
    options: { ...PER_CONTAINER, proc: "/proc" },
  },
  ps: {
    description: "processes by state, those that hang (D) or were not reaped (Z), and the largest",
    interval: INTERVAL,
    timeout: PS_COMMAND.timeout,
    ...of(PS_COMMAND),
    options: { longStanding: 20, largeResidentBytes: 500 * 1024 * 1024, proc: "/proc" },
  },
  "crictl-stats": {
    description: "CPU, memory and disk use of each container of containerd or CRI-O",
    interval: INTERVAL,
    timeout: CRICTL_STATS_COMMAND.timeout,
    ...of(CRICTL_STATS_COMMAND),
    options: { requireDevice: true, endpoint: undefined },
  },
} as const satisfies Kinds;

/** Of a custom probe, which has no command but the configured one. */
export const CUSTOM_DEFAULTS = { interval: INTERVAL, timeout: 10, maxBytes: 1024 * 1024 } as const;
