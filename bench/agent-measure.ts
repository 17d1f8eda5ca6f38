import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { startPushgateway } from "../test/support/pushgateway-server.ts";
import { standIns } from "../test/support/stand-ins/stand-ins.ts";
import type { StandInCommand } from "../test/support/stand-ins/stand-ins.ts";
import { bareMinute } from "./agent-bare.ts";
import { benchProgram, costOf, endAgent, pidOf, startBenchAgent } from "./agent-process.ts";
import { Scraper, quantile } from "./agent-scrape.ts";

/** A minute of the agent, or what was set, after it has warmed up. */
export type Minute = {
  readonly gpus: number;
  readonly containers: number;
  /** a minute */
  readonly cpuSeconds: number;
  /** of a program that only starts as many commands as often */
  readonly bareSeconds: number;
  readonly residentBytes: number;
  readonly peakBytes: number;
  readonly privateBytes: number;
  readonly startBytes: number;
  readonly scrapeBytes: number;
};

export type Latency = { readonly scrapes: number; readonly p50: number; readonly p99: number; readonly worst: number };

export type Many = {
  readonly containers: number;
  readonly scrapeBytes: number;
  /** seconds of CPU for one run: command, parsing, laying out, push */
  readonly cpuPerRun: number;
  readonly residentBytes: number;
  readonly latency: Latency;
};

export type Say = (text: string) => void;

/** Of the predecessor's probes, and at the interval at which it was measured. Seconds. */
const INTERVAL = 2;
const WARM_UP = 10;

const COMMANDS: readonly StandInCommand[] = [
  "docker-info",
  "docker-stats",
  "docker-ps",
  "docker-inspect",
  "docker-logs",
  "nvidia-smi",
  "iftop",
  "lsof",
  "ps",
];

async function withAgent<T>(
  product: string,
  node: {
    readonly containers: number;
    readonly gpus: number;
    readonly only?: string;
  },
  work: (parts: {
    readonly pid: number;
    readonly scraper: Scraper;
    readonly tell: (mode: "ok" | "hang") => void;
  }) => Promise<T>,
): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "gridmeter-bench-agent-"));
  const { containers, gpus, only } = node;
  const tools = standIns({ containers, gpus });
  const gateway = await startPushgateway();
  try {
    const agent = await startBenchAgent({
      file: benchProgram(product, folder),
      folder,
      tools,
      gateway: gateway.url,
      interval: INTERVAL,
      timeout: INTERVAL,
      ...(only === undefined ? {} : { only }),
    });
    const scraper = new Scraper(agent.url);
    try {
      const tell = (mode: "ok" | "hang"): void => COMMANDS.forEach((command) => tools.tell(command, mode));
      return await work({ pid: pidOf(agent), scraper, tell });
    } finally {
      scraper.close();
      await endAgent(agent);
    }
  } finally {
    await gateway.stop();
    tools.remove();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Scrapes at the interval for so long; gives the size of the last scrape. */
async function scrapeFor(seconds: number, scraper: Scraper): Promise<number> {
  const ends = performance.now() + seconds * 1000;
  let bytes = 0;
  while (performance.now() < ends) {
    ({ bytes } = await scraper.scrape());
    await sleep(INTERVAL * 1000);
  }
  return bytes;
}

/** Commands of a round: one each of docker info, docker stats, nvidia-smi, iftop and ps, three docker ps, and three a container. */
function commandsOf(containers: number): number {
  return 8 + 3 * containers;
}

/** What the agent itself costs with all probes on stand-in commands, scraped and pushing, its children apart. */
export function minute(
  product: string,
  gpus: number,
  seconds: number,
): Promise<{ readonly minute: Minute; readonly hanging: Latency }> {
  return withAgent(product, { containers: gpus, gpus }, async ({ pid, scraper, tell }) => {
    const { residentBytes: startBytes } = costOf(pid);
    await scrapeFor(WARM_UP, scraper);
    const [before, started] = [costOf(pid), performance.now()];
    const scrapeBytes = await scrapeFor(seconds, scraper);
    const after = costOf(pid);
    const minutes = (performance.now() - started) / 60_000;
    const cpuSeconds = (after.cpuSeconds - before.cpuSeconds) / minutes;
    const bareSeconds = await bareMinute(commandsOf(gpus), INTERVAL, seconds / 2);
    const { residentBytes, peakBytes, privateBytes } = after;
    tell("hang");
    // All have been started again by then, and time out again and again while it is scraped.
    await sleep(2 * INTERVAL * 1000);
    const hanging = await latency(scraper, 1000);
    tell("ok");
    const figures = { cpuSeconds, bareSeconds, residentBytes, peakBytes, privateBytes, startBytes, scrapeBytes };
    return { minute: { gpus, containers: gpus, ...figures }, hanging };
  });
}

/** Spread over several rounds of runs, so that starts, timeouts and kills fall into it. */
async function latency(scraper: Scraper, scrapes: number): Promise<Latency> {
  const taken: number[] = [];
  for (let index = 0; index < scrapes; index++) {
    taken.push((await scraper.scrape()).seconds);
    if (index % 10 === 0) await sleep(50);
  }
  return { scrapes, p50: quantile(taken, 0.5), p99: quantile(taken, 0.99), worst: quantile(taken, 1) };
}

/** What a docker stats of so many containers costs. */
export function many(product: string, containers: number, seconds: number): Promise<Many> {
  const node = { containers, gpus: 0, only: "docker-stats" };
  return withAgent(product, node, async ({ pid, scraper }) => {
    await sleep(WARM_UP * 1000);
    const [before, started] = [costOf(pid), performance.now()];
    await sleep(seconds * 1000);
    const after = costOf(pid);
    const runs = (performance.now() - started) / 1000 / INTERVAL;
    const { bytes: scrapeBytes } = await scraper.scrape();
    return {
      containers,
      scrapeBytes,
      cpuPerRun: (after.cpuSeconds - before.cpuSeconds) / runs,
      residentBytes: after.residentBytes,
      latency: await latency(scraper, 200),
    };
  });
}
