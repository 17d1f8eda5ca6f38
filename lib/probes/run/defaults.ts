import { DOCKER_DAEMON_DEFAULTS } from "./docker-daemon.ts";
import { DOCKER_STATS_DEFAULTS } from "./docker-stats.ts";
import { DOCKER_INSPECT_DEFAULTS } from "./docker-inspect.ts";
import { DOCKER_LOGS_DEFAULTS } from "./docker-logs.ts";
import { NVIDIA_SMI_DEFAULTS } from "./nvidia-smi.ts";
import { ROCM_SMI_DEFAULTS } from "./rocm-smi.ts";
import { IFTOP_DEFAULTS } from "./iftop.ts";
import { LSOF_DEFAULTS } from "./lsof.ts";
import { PS_DEFAULTS } from "./ps.ts";
import { CRICTL_STATS_DEFAULTS } from "./crictl-stats.ts";
import type { ProbeDefaults, ProbeName } from "./settings.ts";

/** Everything about the probes that can be set, for the configuration, for its documentation, and for the probes themselves. */
export const PROBE_DEFAULTS = {
  "docker-daemon": DOCKER_DAEMON_DEFAULTS,
  "docker-stats": DOCKER_STATS_DEFAULTS,
  "docker-inspect": DOCKER_INSPECT_DEFAULTS,
  "docker-logs": DOCKER_LOGS_DEFAULTS,
  "nvidia-smi": NVIDIA_SMI_DEFAULTS,
  "rocm-smi": ROCM_SMI_DEFAULTS,
  iftop: IFTOP_DEFAULTS,
  lsof: LSOF_DEFAULTS,
  ps: PS_DEFAULTS,
  "crictl-stats": CRICTL_STATS_DEFAULTS,
} as const satisfies { readonly [Name in ProbeName]: ProbeDefaults };
