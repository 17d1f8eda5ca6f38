import { dockerInspectMetrics, parseDockerInspect } from "../docker-inspect.ts";
import { perContainer } from "./containers.ts";
import { PROBE_DEFAULTS } from "./defaults.ts";
import type { ProbeKind } from "./kind.ts";
import { limitsOf } from "./limits.ts";
import { perContainerProbe } from "./per-container.ts";

const DEFAULTS = PROBE_DEFAULTS["docker-inspect"];

/** Inspects containers one by one: in one command for all, the one that hangs would cost all others. */
export const dockerInspect: ProbeKind = {
  create: (settings) =>
    perContainerProbe({
      name: "docker-inspect",
      limits: limitsOf("docker-inspect", settings, DEFAULTS),
      perContainer: perContainer("docker-inspect", settings, DEFAULTS.options),
      label: "docker inspect",
      command: settings.command ?? DEFAULTS.command,
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
