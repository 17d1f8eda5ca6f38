import pino from "pino";
import { type AgentConfig, type AgentOverrides, gatewayWarning, loadAgentConfig } from "../../lib/agent/config.ts";
import type { DemoNode } from "../../lib/agent/demo/node.ts";
import { GridmeterError, errorText } from "../../lib/shared/errors.ts";
import { type Agent, buildAgent } from "../../lib/agent/agent.ts";
import { plainLog } from "../show/log.ts";
import { forReader } from "../show/terminal.ts";
import { endOnSignal, firstSignal } from "./agent-signals.ts";

export type AgentOptions = AgentOverrides & {
  readonly once?: boolean | undefined;
  readonly demo?: boolean | undefined;
};

/** Bytes of log that wait while nobody reads it; more is dropped. The agent must not wait for its log. */
const LOG_BUFFER = 1024 * 1024;
const DEMO = "demonstration: this node, its GPUs and its containers are made up, and commands hang on purpose";
/** The log of a program that ends is waited for so long, milliseconds. */
const LAST_WORDS = 500;
/** The kernel gives process 1 all that lost its parent, and Node reaps only what it has started itself. */
const NO_INIT =
  "the agent is process 1: what commands leave behind stays as zombies, until no process can be started any more; " +
  "let an init be process 1, as in gridmeter's own image: tini, docker run --init, or shareProcessNamespace in Kubernetes";
/** So long after a fault the agent tries to take its groups and commands along, milliseconds. */
const CRASH_LIMIT = 10_000;

/**
 * `gridmeter agent`: runs probes and publishes what they read until SIGTERM, SIGINT, SIGHUP or SIGQUIT; a second signal ends it at once.
 * With --once each probe runs once, and exit code 4 says that a push failed; without a Pushgateway the metrics go to stdout.
 */
export async function agent(options: AgentOptions, version: string): Promise<number> {
  const node = options.demo === true ? await demoNode(options) : undefined;
  const config = node?.config ?? loadAgentConfig(process.env, options);
  const destination = pino.destination({ fd: 2, sync: false, maxLength: LOG_BUFFER });
  // The reader is gone: there is nobody to say it to.
  destination.on("error", () => undefined);
  // On a disk that is full, its own exit hook would try to write for ever.
  process.prependListener("exit", () => destination.destroy());
  const log = pino(
    { name: "gridmeter-agent", base: { pid: process.pid }, level: config.logLevel, hooks: plainLog },
    destination,
  );
  const flushed = (): Promise<void> =>
    new Promise((resolve) => {
      setTimeout(resolve, LAST_WORDS).unref();
      log.flush(() => resolve());
    });
  try {
    const warning = gatewayWarning(config.pushgateway);
    if (warning !== undefined) log.warn({}, warning);
    if (node !== undefined) log.warn({ instance: config.instance, job: config.job }, DEMO);
    const built = await buildAgent({ config, version, log });
    return await (options.once === true ? runOnce(built, config, log) : run(built, config, version, log, flushed));
  } finally {
    await node?.stop();
    await flushed();
    // Nothing that is left over may keep a program alive that was asked to end.
    setTimeout(() => process.exit(), LAST_WORDS).unref();
  }
}

type Demo = Pick<DemoNode, "stop"> & { readonly config: AgentConfig };

/** The configuration's file belongs to a real node, so it is not read. */
async function demoNode(options: AgentOptions): Promise<Demo> {
  if (options.config !== undefined)
    throw new GridmeterError(
      "usage",
      `--demo makes up its own configuration, so --config ${JSON.stringify(options.config)} does not go with it. Nothing was started. Leave one of them out.`,
    );
  const { DEMO_INSTANCE, madeUpNode } = await import("../../lib/agent/demo/node.ts");
  const { PUSHGATEWAY_URL } = process.env;
  const { instance = DEMO_INSTANCE, ...rest } = options;
  const config = loadAgentConfig(PUSHGATEWAY_URL === undefined ? {} : { PUSHGATEWAY_URL }, { ...rest, instance });
  const { job, probes, stop } = await madeUpNode();
  return { config: { ...config, job, probes }, stop };
}

async function runOnce(agent: Agent, { pushgateway }: AgentConfig, log: pino.Logger): Promise<number> {
  endOnSignal();
  const { text, pushes } = await agent.once();
  if (pushgateway === undefined) process.stdout.write(forReader(text, process.stdout.isTTY));
  const failures = [...pushes].filter(([, { result }]) => result !== "ok");
  for (const [probe, { result, message }] of failures) log.error({ probe, result, reason: message }, "not pushed");
  return failures.length === 0 ? 0 : 4;
}

async function run(
  agent: Agent,
  config: AgentConfig,
  version: string,
  log: pino.Logger,
  flushed: () => Promise<void>,
): Promise<number> {
  const signal = firstSignal();
  const crash = (thrown: unknown): void => {
    const stack = thrown instanceof Error ? thrown.stack : undefined;
    log.fatal({ error: errorText(thrown), stack }, "a fault of the agent: it ends");
    setTimeout(() => process.exit(1), CRASH_LIMIT);
    void agent
      .stop("the agent has failed")
      .then(flushed)
      .finally(() => process.exit(1));
  };
  process.once("uncaughtException", crash);
  process.once("unhandledRejection", crash);
  const url = await agent.start();
  const { file, instance, job, openpaiNames } = config;
  const pushgateway = config.pushgateway === undefined ? null : new URL(config.pushgateway.url).origin;
  log.info({ version, file, instance, job, url, pushgateway, openpaiNames }, "running");
  if (process.pid === 1) log.warn({}, NO_INIT);
  const received = await signal;
  log.info({ signal: received }, "told to end");
  const left = await agent.stop("the agent was told to end");
  if (left === 0) log.info({ left }, "nothing runs any more");
  else log.warn({ left }, "the agent ends, and commands are still there that not even KILL ends (state D)");
  return 0;
}
