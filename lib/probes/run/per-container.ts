import type { Probe } from "../../agent/probe.ts";
import { SlotPerKey } from "../../agent/slot-per-key.ts";
import type { Command, Metric, Output, Parsed } from "../../agent/types.ts";
import { GridmeterError } from "../../errors.ts";
import { missingTool } from "../availability.ts";
import { Containers, type PerContainer, type ReadContainer } from "./containers.ts";
import type { Limits } from "./limits.ts";
import { fillIn, hasPlace } from "./placeholders.ts";
import { conduct } from "./run.ts";

/** A probe that runs one command a container. */
export type CommandPerContainer<T, Readings> = {
  readonly name: string;
  readonly limits: Limits;
  readonly perContainer: PerContainer;
  readonly label: string;
  /** with the place `{id}` */
  readonly command: Command["argv"];
  /** gives undefined for a container that has gone */
  readonly parse: (output: Output) => Parsed<T | undefined>;
  readonly publish: (byId: ReadonlyMap<string, T>) => {
    readonly metrics: readonly Metric[];
    readonly readings: Readings;
  };
};

/** @throws GridmeterError config_invalid if the command does not say which container it is for */
export const perContainerProbe = <T, Readings>(probe: CommandPerContainer<T, Readings>): Probe<Readings> => {
  const { name, label, limits, perContainer } = probe;
  const { interval, timeout, maxBytes } = limits;
  const { commandTimeout, listCommand } = perContainer;
  const command = needPlace(name, probe.command, "id");
  const containers = new Containers(perContainer);
  const slots = new SlotPerKey();
  return {
    name,
    interval,
    timeout,
    unavailable: () => missingTool([listCommand[0], command[0]]),
    stuck: () => containers.stuck + slots.stuck,
    run: () =>
      conduct(timeout, async (run) => {
        const read: ReadContainer<T> = ({ id }) => {
          const argv = fillIn(command, { id });
          const start = (seconds: number) => slots.run(id, { argv, timeout: seconds, maxBytes });
          return run.read(label, commandTimeout, start, probe.parse);
        };
        const found = await containers.readAll(run, () => Promise.resolve(read));
        if (found.kind !== "ok") return found;
        const { byId, ...rest } = found;
        return { ...rest, ...probe.publish(byId) };
      }),
  };
};

/** @throws GridmeterError config_invalid if the command has no such place: it would be the same for all containers */
export const needPlace = (name: string, argv: Command["argv"], place: string): Command["argv"] => {
  if (hasPlace(argv, place)) return argv;
  throw new GridmeterError(
    "config_invalid",
    `The command of the probe ${name} is ${JSON.stringify(argv)}, without {${place}}. The probe was not started. ` +
      `Write {${place}} where the container's ${place} belongs.`,
  );
};
