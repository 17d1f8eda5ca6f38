import type { DockerContainer } from "../docker-inspect.ts";
import { USUAL_INTERVAL, commandDefaults, type ProbeDefaults } from "./settings.ts";
import { PER_CONTAINER_DEFAULTS } from "./containers.ts";
import { dockerInspectCommand } from "../docker-inspect.ts";
import { dockerInspectMetrics, parseDockerInspect } from "../docker-inspect.ts";
import { perContainer } from "./containers.ts";
import type { ProbeKind } from "./kind.ts";
import { limitsOf } from "./limits.ts";
import { perContainerProbe } from "./per-container.ts";

export type InspectReadings = { readonly containers: readonly DockerContainer[] };

export const DOCKER_INSPECT_DEFAULTS = {
  description: "what each container is, which job it belongs to, and which GPUs it was given",
  interval: USUAL_INTERVAL,
  timeout: 20,
  ...commandDefaults(dockerInspectCommand("{id}")),
  options: PER_CONTAINER_DEFAULTS,
} as const satisfies ProbeDefaults;

/** Inspects containers one by one: in one command for all, the one that hangs would cost all others. */
export const dockerInspect: ProbeKind<InspectReadings> = {
  create: (settings) =>
    perContainerProbe({
      name: "docker-inspect",
      limits: limitsOf("docker-inspect", settings, DOCKER_INSPECT_DEFAULTS),
      perContainer: perContainer("docker-inspect", settings, DOCKER_INSPECT_DEFAULTS.options),
      label: "docker inspect",
      command: settings.command ?? DOCKER_INSPECT_DEFAULTS.command,
      parse: (output) => {
        const { value, rejected } = parseDockerInspect(output);
        return { value: value[0], rejected };
      },
      publish: (byId) => {
        const containers = [...byId.values()];
        return { metrics: dockerInspectMetrics(containers), readings: { containers } };
      },
    }),
  parseSaved: (output) => {
    const { value, rejected } = parseDockerInspect(output);
    return { metrics: dockerInspectMetrics(value), parsed: value, rejected };
  },
};
