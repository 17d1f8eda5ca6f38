import { GridmeterError } from "../../../shared/errors.ts";
import type { Metric } from "../../../shared/exposition.ts";
import { LONGEST_TIMEOUT, checkLimit } from "../../command/run.ts";
import { Slot, SlotPerKey, fanOut } from "../../command/slot.ts";
import type { Command, CommandResult, Output, Parsed } from "../../command/types.ts";
import { type ContainerNames, shortId } from "./container.ts";
import { DOCKER_PS_COMMAND, type ListedContainer, parseDockerList } from "./docker.ts";
import {
  type Failure,
  LEAST_TIME,
  type Limits,
  type Probe,
  type Reading,
  type Run,
  conduct,
  fillIn,
  hasPlace,
} from "./probe.ts";
import { type ProbeSettings, missingTool } from "./settings.ts";

/** A probe that runs one command a container. */
type CommandPerContainer<T, Readings> = {
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

type PerContainer = {
  readonly concurrency: number;
  /** seconds for each command */
  readonly commandTimeout: number;
  readonly listCommand: Command["argv"];
};

/**
 * How commands are run once a container.
 *
 * @throws GridmeterError config_invalid if a number is not finite or not above 0
 */
export const perContainer = (name: string, settings: ProbeSettings, defaults: PerContainer): PerContainer => {
  const {
    concurrency = defaults.concurrency,
    commandTimeout = defaults.commandTimeout,
    listCommand = defaults.listCommand,
  } = settings;
  checkLimit(`the probe ${name}`, "concurrency", concurrency, 1000, "commands at a time");
  checkLimit(`the probe ${name}`, "commandTimeout", commandTimeout, LONGEST_TIMEOUT, "seconds");
  return { concurrency: Math.ceil(concurrency), commandTimeout, listCommand };
};

/** What was read of the containers, by full id; those that have gone meanwhile are missing. */
type ContainersRead<T> = {
  readonly kind: "ok";
  readonly byId: ReadonlyMap<string, T>;
  readonly rejected: number;
  readonly exitCode: number;
  readonly detail?: string;
};

/** What fanOut gets for each container, read or not; which of the two is kept beside. */
const DONE: CommandResult = { kind: "ok", output: { stdout: "", stderr: "", exitCode: 0 }, seconds: 0 };

/** Reads one container; gives undefined for one that has gone meanwhile. */
export type ReadContainer<T> = (container: ListedContainer) => Promise<Reading<T | undefined>>;

/**
 * The containers of the node as one probe sees them. Each probe lists them itself, in a slot of its own, so that no other's
 * command that hangs keeps it from its work.
 */
export class Containers {
  readonly #list = new Slot();
  readonly #order = new FairOrder();
  readonly #settings: PerContainer;

  constructor(settings: PerContainer) {
    this.#settings = settings;
  }

  get stuck(): number {
    return this.#list.stuck;
  }

  /**
   * Lists the containers and reads each, a few at a time, within the time of the run. One that cannot be read costs itself only,
   * and counts as rejected; if nothing is read but failures, the one that most of them met is that of the run.
   *
   * @param prepare gets all of them, and gives what reads one
   */
  async readAll<T>(
    run: Run,
    prepare: (containers: readonly ListedContainer[]) => Promise<ReadContainer<T> | Failure>,
  ): Promise<ContainersRead<T> | Failure> {
    const { maxBytes, timeout } = DOCKER_PS_COMMAND;
    const start = (seconds: number) => this.#list.run({ argv: this.#settings.listCommand, timeout: seconds, maxBytes });
    const list = await run.read("docker ps", timeout, start, parseDockerList);
    if (list.kind !== "ok") return list;
    const read = await prepare(list.value);
    if ("kind" in read) return read;
    const found = await this.#readEach(run, list.value, read);
    const failures = [...found].flatMap(([id, one]) => (one.kind === "ok" ? [] : [{ id, failure: one }]));
    const byId = new Map<string, T>();
    let rejected = list.rejected + failures.length;
    for (const [id, one] of found) {
      if (one.kind !== "ok") continue;
      rejected += one.rejected;
      if (one.value !== undefined) byId.set(id, one.value);
    }
    const failure = failureOf(failures, found.size);
    if (failure !== undefined && byId.size === 0) return failure;
    const detail = failure === undefined ? {} : { detail: failure.detail };
    return { kind: "ok", byId, rejected, exitCode: list.exitCode, ...detail };
  }

  async #readEach<T>(
    run: Run,
    containers: readonly ListedContainer[],
    read: (container: ListedContainer) => Promise<Reading<T>>,
  ): Promise<ReadonlyMap<string, Reading<T>>> {
    const byId = new Map(containers.map((one) => [one.id, one]));
    const ids = this.#order.arrange([...byId.keys()]);
    const deadline = run.left;
    const late: Failure = { kind: "timeout", detail: "no time was left for it" };
    if (deadline < LEAST_TIME) return new Map(ids.map((id) => [id, late]));
    const readings = new Map<string, Reading<T>>();
    const begun = new Set<string>();
    const work = async (id: string): Promise<CommandResult> => {
      const container = byId.get(id);
      begun.add(id);
      if (container !== undefined) readings.set(id, await read(container));
      return DONE;
    };
    const entries = await fanOut(ids, work, { concurrency: this.#settings.concurrency, deadline });
    const inOrder = entries.map(({ item, result }): [string, Reading<T>] => {
      if (result === DONE) return [item, readings.get(item) ?? late];
      return [item, { kind: "timeout", detail: "detail" in result ? result.detail : late.detail }];
    });
    const failed = new Set(inOrder.filter(([, { kind }]) => kind !== "ok").map(([id]) => id));
    this.#order.remember(ids, begun, failed);
    return new Map(inOrder);
  }
}

type Failed = { readonly id: string; readonly failure: Failure };

/** What most of the failed containers met, the first of them as the example. */
const failureOf = (failed: readonly Failed[], of: number): Failure | undefined => {
  const counts = new Map<Failure["kind"], number>();
  for (const { failure } of failed) counts.set(failure.kind, (counts.get(failure.kind) ?? 0) + 1);
  const [most] = [...counts].sort(([, a], [, b]) => b - a);
  const first = failed.find(({ failure }) => failure.kind === most?.[0]);
  if (first === undefined) return undefined;
  const { id, failure } = first;
  return {
    ...failure,
    detail: `${failed.length} of ${of} containers could not be read; ${shortId(id)}: ${failure.detail}`,
  };
};

export const PER_CONTAINER_DEFAULTS = {
  concurrency: 4,
  commandTimeout: 5,
  listCommand: DOCKER_PS_COMMAND.argv,
} as const;

/** For so many runs, containers that failed give way to those that did not. */
const RUNS_APART = 8;

/**
 * The order in which containers are read. The time of a run may not do for all, and a container whose command hangs takes much of
 * it: those that have waited longest come first, so that all are read now and then, and those that failed come behind those that
 * did not, so that they take only what time is left. They do come before containers that had a turn `RUNS_APART` runs later.
 */
export class FairOrder {
  #run = 0;
  #lastReads: ReadonlyMap<string, { readonly run: number; readonly failed: boolean }> = new Map();

  arrange(ids: readonly string[]): readonly string[] {
    const rank = (id: string): number => {
      const last = this.#lastReads.get(id);
      return last === undefined ? 0 : last.run + (last.failed ? RUNS_APART : 0);
    };
    return [...ids].sort((a, b) => rank(a) - rank(b));
  }

  /** Remembers which of the containers had a turn, and which failed; others than these are forgotten, as they have gone. */
  remember(ids: readonly string[], begun: ReadonlySet<string>, failed: ReadonlySet<string>): void {
    this.#run += 1;
    const turns = ids.flatMap((id) => {
      const last = begun.has(id) ? { run: this.#run, failed: failed.has(id) } : this.#lastReads.get(id);
      return last === undefined ? [] : [[id, last] as const];
    });
    this.#lastReads = new Map(turns);
  }
}

/** What is known of a container of which only the id was printed, or not even that. */
export const namesById = (id: string | undefined): ContainerNames => ({
  id,
  name: undefined,
  namespace: undefined,
  pod: undefined,
  container: undefined,
});
