import { GridmeterError } from "../shared/errors.ts";
import type { Known } from "../shared/exposition.ts";
import { endLeftovers } from "./command/leftovers.ts";
import { killAll, liveRuns } from "./command/run.ts";
import type { ResultKind } from "./command/types.ts";
import type { AgentConfig } from "./config.ts";
import { SELF_METRICS, SelfMetrics, type ProcessFigures, PushAccount } from "./metrics/self.ts";
import { MetricStore, type Extra } from "./metrics/store.ts";
import { OPENPAI_METRICS } from "./openpai/catalogue.ts";
import { openPaiMetrics } from "./openpai/metrics.ts";
import { authorizationOf } from "./gateway-secrets.ts";
import type { Outcome } from "./own-groups.ts";
import { GPU_METRICS, NODE_METRICS } from "./probes/common/metric-families.ts";
import type { Probe, ProbeRun } from "./probes/common/probe.ts";
import { PROBE_NAMES, isProbeName } from "./probes/common/settings.ts";
import { joinedMetrics } from "./probes/joins.ts";
import { PROBE_DEFAULTS, createProbe } from "./probes/registry.ts";
import type { Publisher } from "./publisher.ts";
import { type AgentLog, Schedule, machineClock } from "./schedule.ts";
import { startServer } from "./server.ts";

type AgentParts = {
  readonly config: AgentConfig;
  readonly version: string;
  readonly log: AgentLog;
  /** instead of those of the configuration */
  readonly probes?: readonly Probe[];
};

/** The agent, put together. Use either `start` and `stop`, or `once`. */
export type Agent = {
  /** Opens the port, then starts probes and pushes. Gives the port's URL, or undefined without one. Rejects if it is taken. */
  start(): Promise<string | undefined>;
  /**
   * Ends all of it within 10 seconds: no run, no child, no port, and the own groups are removed. Gives how many commands are still
   * there, as not even KILL ends them (state D). Never rejects.
   */
  stop(why: string): Promise<number>;
  /** Runs each probe that can run once, and pushes all groups, if there is a Pushgateway. Never rejects. */
  once(): Promise<{ readonly text: string; readonly pushes: ReadonlyMap<string, Outcome> }>;
};

/** So long commands may take to end, seconds, when the agent ends: TERM, grace and KILL. */
const KILL_LIMIT = 3;

/** @throws GridmeterError `config_invalid` if probes' settings do not go together, or a file cannot be read */
export async function buildAgent({
  config,
  version,
  log,
  probes = configuredProbes(config),
}: AgentParts): Promise<Agent> {
  const pushes = config.pushgateway === undefined ? undefined : new PushAccount();
  const meta = new SelfMetrics({
    probes,
    version,
    wallClock,
    process: processFigures,
    ...(pushes === undefined ? {} : { pushes }),
  });
  const openPai: Extra = (fresh, figures) => openPaiMetrics(fresh, figures, config.instance);
  const fault = (error: string): void => log.error({ error }, "data could not be joined: this is a fault of the agent");
  const board = new MetricStore({
    probes,
    meta,
    joins: [joinedMetrics],
    extras: config.openpaiNames ? [openPai] : [],
    catalogue: config.openpaiNames ? knownWithOpenPai : knownMetric,
    clock: machineClock,
    fault,
  });
  const publisher = pushes === undefined ? undefined : await publisherOf(config, board, pushes, log);
  const results = new ResultLog(log);
  const schedule = new Schedule({
    probes,
    log,
    settled: (probe, run) => {
      const groups = board.settled(probe, run);
      publisher?.mark(groups);
      results.settled(probe, run);
    },
    enabled: (probe, enabled) => {
      const groups = board.enabled(probe, enabled);
      publisher?.mark(groups);
      results.enabled(probe);
    },
  });
  return agentOf({ listen: config.listen, board, publisher, schedule, log });
}

type Made = Pick<AgentConfig, "listen"> & {
  readonly board: MetricStore;
  readonly publisher: Publisher | undefined;
  readonly schedule: Schedule;
  readonly log: AgentLog;
};

/** Starts and ends what an agent is made of, in the order in which nothing is lost. */
function agentOf({ listen, board, publisher, schedule, log }: Made): Agent {
  let port: Awaited<ReturnType<typeof startServer>> | undefined;
  let ending = false;
  return {
    start: async () => {
      if (listen !== undefined) {
        port = await startServer({
          listen,
          exposition: () => board.exposition(),
          health: () => schedule.health(),
          readiness: () => schedule.readiness(),
          log,
        });
      }
      await endCommandsOfTheDead(log);
      if (ending) return port?.url;
      schedule.start();
      publisher?.start();
      return port?.url;
    },
    stop: async (why) => {
      ending = true;
      schedule.stop();
      await Promise.all([killAll(why, KILL_LIMIT), publisher?.stop()]);
      // Last, so that anyone who asks meanwhile learns that the agent is not ready any more.
      await port?.stop();
      return liveRuns();
    },
    once: async () => {
      await endCommandsOfTheDead(log);
      await schedule.once();
      const outcomes = (await publisher?.publishOnce()) ?? new Map<string, Outcome>();
      const text = board.exposition();
      // Commands that timed out are still being ended.
      await killAll("all probes have run once", KILL_LIMIT);
      return { text, pushes: outcomes };
    },
  };
}

/** Before anything is started: a tool that was left hanging must not get a second one beside it. */
async function endCommandsOfTheDead(log: AgentLog): Promise<void> {
  const { found, left } = await endLeftovers(KILL_LIMIT);
  if (found > 0) log.info({ processes: found, left }, "commands that a dead agent left behind were ended");
  if (left > 0) log.warn({ left }, "of a dead agent's commands some are still there: not even KILL ends them");
}

/** The HTTP client is loaded only where it is needed: with TLS it takes 8 MB. */
async function publisherOf(
  config: AgentConfig,
  board: MetricStore,
  account: PushAccount,
  log: AgentLog,
): Promise<Publisher | undefined> {
  const { pushgateway: gateway, job, instance } = config;
  if (gateway === undefined) return undefined;
  const { url, interval, caFile } = gateway;
  const { Publisher } = await import("./publisher.ts");
  return new Publisher({
    url,
    job,
    instance,
    board,
    account,
    log,
    interval,
    authorization: authorizationOf(gateway),
    ...(caFile === undefined ? {} : { caFile }),
  });
}

function wallClock(): number {
  return Date.now() / 1000;
}

function processFigures(): ProcessFigures {
  const { user, system } = process.cpuUsage();
  return { residentBytes: residentBytes(), cpuSeconds: (user + system) / 1e6 };
}

/** Node reads it from a file, and a scrape must be answered although none can be opened. */
function residentBytes(): number | undefined {
  try {
    return process.memoryUsage.rss();
  } catch {
    return undefined;
  }
}

/** Logs a probe's results when they change, and not at each run: what fails for a day is one line. */
export class ResultLog {
  readonly #log: AgentLog;
  readonly #last = new Map<string, ResultKind>();
  readonly #warnings = new Map<string, string>();

  constructor(log: AgentLog) {
    this.#log = log;
  }

  settled(probe: string, { kind, seconds, detail, exitCode, commands, warning }: ProbeRun): void {
    if (kind === "ok") this.#warned(probe, exitCode, warning);
    const before = this.#last.get(probe);
    // While a child that hangs is there, no other is started: that is the same fault, and so is the timeout after it.
    if (before === kind || (before === "timeout" && kind === "skipped_in_flight")) return;
    this.#last.set(probe, kind);
    const fields = { probe, result: kind, seconds: Number(seconds.toFixed(3)) };
    if (kind !== "ok") {
      const failed = commands.filter((one) => one.kind !== "ok").map((one) => `${one.command}: ${one.kind}`);
      const why = { detail, exitCode, commands: [...new Set(failed)].slice(0, 10) };
      this.#log.warn({ ...fields, ...why }, "the probe failed: its data are not published");
    } else if (before !== undefined) this.#log.info(fields, "the probe works again");
  }

  /** Says what is wrong though the probe works, each thing once until it is over. */
  #warned(probe: string, exitCode: number | undefined, warning: string | undefined): void {
    if (this.#warnings.get(probe) === warning) return;
    if (warning !== undefined)
      this.#log.warn({ probe, exitCode, reason: warning }, "the probe works, and found a fault");
    else this.#log.info({ probe }, "the fault that the probe found is over");
    if (warning === undefined) this.#warnings.delete(probe);
    else this.#warnings.set(probe, warning);
  }

  /** A probe that was disabled begins again. */
  enabled(probe: string): void {
    this.#last.delete(probe);
    this.#warnings.delete(probe);
  }
}

type Configured = Pick<AgentConfig, "probes">;

/** The names of all probes that there are: the built-in ones, and those that the configuration adds. */
export function probeNames({ probes }: Configured): readonly string[] {
  return [...PROBE_NAMES, ...Object.keys(probes).filter((name) => !isProbeName(name))];
}

/**
 * A probe as it is configured. One that the configuration disables is there, and says so when it is asked whether it can run.
 * @throws GridmeterError `config_invalid` if its settings do not go together
 */
export function configuredProbe(name: string, { probes }: Configured): Probe {
  const { enabled, ...own } = probes[name] ?? {};
  // rocm-smi leaves its GPUs to amd-smi, unless that is disabled.
  const isNeeded = name === "rocm-smi" && probes["amd-smi"]?.enabled === false;
  const settings = isNeeded ? { command: PROBE_DEFAULTS["rocm-smi"].command, ...own } : own;
  const probe = createProbe(name, settings);
  if (enabled !== false) return probe;
  return { ...probe, unavailable: () => Promise.resolve("the configuration disables it") };
}

/** All probes. @throws GridmeterError `config_invalid` that names all whose settings do not go together */
export function configuredProbes(config: Configured): readonly Probe[] {
  const problems: string[] = [];
  const probes = probeNames(config).flatMap((name) => {
    try {
      return [configuredProbe(name, config)];
    } catch (thrown) {
      if (!(thrown instanceof GridmeterError)) throw thrown;
      problems.push(thrown.message);
      return [];
    }
  });
  const [first, ...lines] = problems;
  if (first === undefined) return probes;
  throw new GridmeterError("config_invalid", first, { lines });
}

/** What a probe runs and reads, for people. */
export function describeProbe(
  name: string,
  { probes }: Configured,
): { readonly command: readonly string[]; readonly description: string } {
  const command = probes[name]?.command;
  if (!isProbeName(name))
    return { command: command ?? [], description: "a probe of your own: what its command prints" };
  const { description, command: usual } = PROBE_DEFAULTS[name];
  return { command: command ?? usual, description };
}

type Entry = { readonly type: Known["type"] | "histogram"; readonly help: string };

/** Histograms are not data of a probe, and are laid out apart. */
const simple = (metrics: Readonly<Record<string, Entry>>): readonly (readonly [string, Known])[] =>
  Object.entries(metrics).flatMap(([name, { type, help }]) => (type === "histogram" ? [] : [[name, { type, help }]]));

const KNOWN: ReadonlyMap<string, Known> = new Map([
  ...simple(GPU_METRICS),
  ...simple(NODE_METRICS),
  ...simple(SELF_METRICS),
]);
const OPENPAI: ReadonlyMap<string, Known> = new Map(simple(OPENPAI_METRICS));

/** What the catalogues of GPU, node and agent metrics say of a name; undefined for a custom command's. */
export const knownMetric = (name: string): Known | undefined => KNOWN.get(name);

/** The same where OpenPAI's names are published too: a custom command does not decide what type they have. */
export const knownWithOpenPai = (name: string): Known | undefined => KNOWN.get(name) ?? OPENPAI.get(name);
