import { knownMetric, knownWithOpenPai } from "../agent/exposition-catalogue.ts";
import { openPaiMetrics } from "../agent/openpai.ts";
import { PushAccount } from "../agent/meta-pushes.ts";
import { Meta } from "../agent/meta.ts";
import type { ProcessFigures } from "../agent/meta.ts";
import type { Probe } from "../agent/probe.ts";
import type { Outcome } from "../agent/publish-gateway.ts";
import { Publisher } from "../agent/publish.ts";
import { killAll } from "../agent/runner-live.ts";
import { machineClock } from "../agent/schedule-clock.ts";
import type { AgentLog } from "../agent/schedule-log.ts";
import { Schedule } from "../agent/schedule.ts";
import { startServer } from "../agent/server.ts";
import { Board } from "../agent/snapshot-board.ts";
import type { Extra } from "../agent/snapshot.ts";
import type { AgentConfig } from "../config/agent.ts";
import { joinedMetrics } from "../probes/joined.ts";
import { authorization } from "./agent-gateway.ts";
import { configuredProbes } from "./agent-probes.ts";
import { ResultLog } from "./agent-results.ts";

export type AgentParts = {
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
  /** Ends all of it within 10 seconds: no run, no child, no port, and the own groups are removed. Never rejects. */
  stop(why: string): Promise<void>;
  /** Runs each probe that can run once, and pushes all groups, if there is a Pushgateway. Never rejects. */
  once(): Promise<{ readonly text: string; readonly pushes: ReadonlyMap<string, Outcome> }>;
};

/** So long commands may take to end, seconds, when the agent ends: TERM, grace and KILL. */
const KILL_LIMIT = 3;

/** @throws GridmeterError `config_invalid` if probes' settings do not go together, or a file cannot be read */
export function buildAgent({ config, version, log, probes = configuredProbes(config) }: AgentParts): Agent {
  const pushes = config.pushgateway === undefined ? undefined : new PushAccount();
  const meta = new Meta({
    probes,
    version,
    wallClock,
    process: processFigures,
    ...(pushes === undefined ? {} : { pushes }),
  });
  const openPai: Extra = (fresh, figures) => openPaiMetrics(fresh, figures, config.instance);
  const fault = (error: string): void => log.error({ error }, "data could not be joined: this is a fault of the agent");
  const board = new Board({
    probes,
    meta,
    joins: [joinedMetrics],
    extras: config.openpaiNames ? [openPai] : [],
    catalogue: config.openpaiNames ? knownWithOpenPai : knownMetric,
    clock: machineClock,
    fault,
  });
  const publisher = pushes === undefined ? undefined : publisherOf(config, board, pushes, log);
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
  let port: Awaited<ReturnType<typeof startServer>> | undefined;
  return {
    start: async () => {
      if (config.listen !== undefined) {
        port = await startServer({
          listen: config.listen,
          exposition: () => board.exposition(),
          health: () => schedule.health(),
          readiness: () => schedule.readiness(),
          log,
        });
      }
      schedule.start();
      publisher?.start();
      return port?.url;
    },
    stop: async (why) => {
      schedule.stop();
      await Promise.all([killAll(why, KILL_LIMIT), publisher?.stop()]);
      // Last, so that whoever asks meanwhile learns that the agent is not ready any more.
      await port?.stop();
    },
    once: async () => {
      await schedule.once();
      const outcomes = (await publisher?.publishOnce()) ?? new Map<string, Outcome>();
      const text = board.exposition();
      // Commands that timed out are still being ended.
      await killAll("all probes have run once", KILL_LIMIT);
      return { text, pushes: outcomes };
    },
  };
}

function publisherOf(config: AgentConfig, board: Board, account: PushAccount, log: AgentLog): Publisher | undefined {
  const { pushgateway: gateway, job, instance } = config;
  if (gateway === undefined) return undefined;
  const { url, interval, caFile } = gateway;
  return new Publisher({
    url,
    job,
    instance,
    board,
    account,
    log,
    interval,
    authorization: authorization(gateway),
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
