import type { Iftop } from "../iftop.ts";
import { USUAL_INTERVAL, commandDefaults, type ProbeDefaults } from "./settings.ts";
import { iftopCommand } from "../iftop.ts";
import { readFile } from "node:fs/promises";
import { orIfMissing } from "../../store/fs-error.ts";
import { missingTool } from "../availability.ts";
import { defaultInterface, iftopMetrics, parseIftop } from "../iftop.ts";
import type { ProbeKind } from "./kind.ts";
import { limitsOf } from "./limits.ts";
import { fillIn, hasPlace } from "./placeholders.ts";
import { singleProbe } from "./single.ts";
import type { ProbeSettings } from "./settings.ts";

export type TrafficReadings = { readonly traffic: Iftop };

export const IFTOP_DEFAULTS = {
  description: "what the network interface carries, by connection",
  interval: USUAL_INTERVAL,
  timeout: iftopCommand().timeout,
  ...commandDefaults(iftopCommand("{interface}")),
  options: { interface: undefined, proc: "/proc" },
} as const satisfies ProbeDefaults;
const NO_INTERFACE = "no network interface is configured, and none has the default route";

/** Routes change while the agent runs, so that this is asked at each run. Rejects if they cannot be read although they are there. */
const interfaceOf = async (settings: ProbeSettings): Promise<string | undefined> => {
  const { proc = IFTOP_DEFAULTS.options.proc } = settings;
  if (settings.interface !== undefined) return settings.interface;
  const routes = await orIfMissing(readFile(`${proc}/net/route`, "utf8"), undefined);
  return routes === undefined ? undefined : defaultInterface(routes);
};

/** iftop needs no docker: what the interface carries is known without the containers. */
export const iftop: ProbeKind<TrafficReadings> = {
  create: (settings) => {
    const { command = IFTOP_DEFAULTS.command } = settings;
    const argv = async () => {
      if (!hasPlace(command, "interface")) return command;
      const name = await interfaceOf(settings);
      return name === undefined ? undefined : fillIn(command, { interface: name });
    };
    return singleProbe({
      name: "iftop",
      limits: limitsOf("iftop", settings, IFTOP_DEFAULTS),
      label: "iftop",
      argv: async () => (await argv()) ?? { kind: "disabled", detail: NO_INTERFACE },
      parse: parseIftop,
      metrics: iftopMetrics,
      readings: (traffic) => Promise.resolve({ traffic }),
      unavailable: async () =>
        (await missingTool([command[0]])) ??
        ((await argv().catch(() => command)) === undefined ? NO_INTERFACE : undefined),
    });
  },
  parseSaved: (output) => {
    const { value, rejected } = parseIftop(output);
    return { metrics: iftopMetrics(value), parsed: value, rejected };
  },
};
