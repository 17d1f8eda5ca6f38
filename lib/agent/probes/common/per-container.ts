import { GridmeterError } from "../../../shared/errors.ts";
import type { Metric } from "../../../shared/exposition.ts";
import { LONGEST_TIMEOUT, checkLimit } from "../../command/run.ts";
import { Slot, SlotPerKey, fanOut } from "../../command/slot.ts";
import type { Command, CommandResult, Output, Parsed } from "../../command/types.ts";
import { shortId } from "./container.ts";
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
  hasPlaceholder,
} from "./probe.ts";
import { type ProbeSettings, missingTool } from "./settings.ts";

/** A probe that runs one command a container. */
type CommandPerContainer<T, Readings> = {
  readonly name: string;
  readonly limits: Limits;
  readonly perContainer: PerContainer;
  readonly label: string;
  /** with the placeholder `{id}` */
  readonly command: Command["argv"];
  /** gives undefined for a container that has gone */
  readonly parse: (output: Output) => Parsed<T | undefined>;
  /** `listed` gives the names of a container by its id */
  readonly publish: (
    byId: ReadonlyMap<string, T>,
    listed: (id: string) => ListedContainer | undefined,
  ) => {
    readonly metrics: readonly Metric[];
    readonly readings: Readings;
    /** for people: what is wrong though the run was good */
    readonly warning?: string;
  };
};

/** @throws GridmeterError config_invalid if the command has no placeholder for the container */
export const perContainerProbe = <T, Readings>(probe: CommandPerContainer<T, Readings>): Probe<Readings> => {
  const { name, label, limits, perContainer } = probe;
  const { interval, timeout, maxBytes } = limits;
  const { commandTimeout, listCommand } = perContainer;
  const command = needPlaceholder(name, probe.command, "id");
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
        const listed = new Map<string, ListedContainer>();
        const found = await containers.readAll(run, (all) => {
          for (const one of all) listed.set(one.id, one);
          return Promise.resolve(read);
        });
        if (found.kind !== "ok") return found;
        const { byId, ...rest } = found;
        return { ...rest, ...probe.publish(byId, (id) => listed.get(id)) };
      }),
  };
};

/** @throws GridmeterError config_invalid if the command has no such placeholder: it would be the same for all containers */
export const needPlaceholder = (name: string, argv: Command["argv"], place: string): Command["argv"] => {
  if (hasPlaceholder(argv, place)) return argv;
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

export const PER_CONTAINER_DEFAULTS = {
  concurrency: 4,
  commandTimeout: 5,
  listCommand: DOCKER_PS_COMMAND.argv,
} as const;

/**
 * The limits of commands that are run once a container, and the command that lists the containers.
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

/** Reads one container; gives undefined for one that went away during the run. */
export type ReadContainer<T> = (container: ListedContainer) => Promise<Reading<T | undefined>>;

/** What was read of the containers, by full id, without those that went away during the run. */
type ContainersRead<T> = {
  readonly kind: "ok";
  readonly byId: ReadonlyMap<string, T>;
  readonly rejected: number;
  readonly exitCode: number;
  readonly detail?: string;
};

/** The result for fanOut of a container whose command has ended. What was read is kept apart, by id. */
const DONE: CommandResult = { kind: "ok", output: { stdout: "", stderr: "", exitCode: 0 }, seconds: 0 };

/**
 * The containers of the node. Each probe lists them itself, in its own slot, so that it does not depend on a command of another
 * probe that hangs.
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
   * Lists the containers and reads each, a few at a time, within the time of the run. One that cannot be read costs itself only, and
   * counts as rejected. If none can be read, the failure of most of them is the run's.
   *
   * @param prepare gets all containers, and gives the function that reads one
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
    const failure = mostFrequent(failures, found.size);
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

/** The failure of most of the failed containers, with the first of these as the example. */
const mostFrequent = (failed: readonly Failed[], of: number): Failure | undefined => {
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

/** A container whose command failed comes after those that were read up to so many runs later. */
const RUNS_BEHIND = 8;

/**
 * The order in which containers are read. A run may not have time for all, and a command that hangs takes much of it. Containers
 * that have not been read for the longest time come first, so that each is read at some time. Containers whose command failed come
 * after the others, but after `RUNS_BEHIND` runs they are read again.
 */
export class FairOrder {
  #run = 0;
  #lastRuns: ReadonlyMap<string, { readonly run: number; readonly failed: boolean }> = new Map();

  arrange(ids: readonly string[]): readonly string[] {
    const rank = (id: string): number => {
      const last = this.#lastRuns.get(id);
      return last === undefined ? 0 : last.run + (last.failed ? RUNS_BEHIND : 0);
    };
    return [...ids].sort((a, b) => rank(a) - rank(b));
  }

  /** Records which of the containers were begun in this run, and which failed. All others are forgotten, as they are gone. */
  remember(ids: readonly string[], begun: ReadonlySet<string>, failed: ReadonlySet<string>): void {
    this.#run += 1;
    const lastRuns = ids.flatMap((id) => {
      const last = begun.has(id) ? { run: this.#run, failed: failed.has(id) } : this.#lastRuns.get(id);
      return last === undefined ? [] : [[id, last] as const];
    });
    this.#lastRuns = new Map(lastRuns);
  }
}
