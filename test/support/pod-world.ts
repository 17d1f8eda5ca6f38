// A cluster whose previous month is refused and whose current one is good, in a real Prometheus, and hosts that run the chart's pods.
import { chmodSync, mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { readMessage } from "../../lib/accounting/apel/read.ts";
import { monthOf } from "../../lib/accounting/model/time.ts";
import { demoCluster, NONE, simulate, truth } from "../simulator/index.ts";
import { withValue } from "./chart-values.ts";
import { type Values, render } from "./helm.ts";
import { type PodHost, type PodRun, claimFolder, podOf, runPod } from "./pod-run.ts";
import { bundledCli, leastSettings } from "./run-cli.ts";
import { serveSeries } from "./serve-series.ts";
import { scratchDirectory } from "./store-script.ts";

const DAY = 86_400;
const real = new Date();
/** The middle of last month: on the first days of a month the month before is open as well. */
export const NOW = Date.UTC(real.getUTCFullYear(), real.getUTCMonth() - 1, 16, 9, 41, 7) / 1000;
export const CURRENT = monthOf(NOW);
const CLOCK = fileURLToPath(new URL("shifted-clock.ts", import.meta.url));
const demo = demoCluster({ now: NOW, namespace: "grid", rounds: 1, scrapeInterval: 120 });
/** Of the previous month a whole day was not seen. */
const lostDay = demo.from + 12 * DAY;
const cluster = {
  ...demo,
  outages: [...demo.outages, { from: lostDay - 3600, to: lostDay + DAY + 3600, kind: "absent" as const }],
};
const { jobs } = truth(cluster, CURRENT).get("grid") ?? NONE;
/** What the good month is at APEL. */
export const GOOD: readonly string[] = [`summary ${CURRENT} ${jobs}`, `sync ${CURRENT} ${jobs}`];
export const CLAIM = "site-gridmeter-accounting";

export type PodWorld = {
  /** a folder for what a test file needs beside */
  readonly scratch: string;
  /** the command line with its clock at `NOW` */
  readonly cli: readonly string[];
  readonly clock: string;
  /** the settings of the site */
  readonly settings: Readonly<Record<string, string>>;
  /** A host with nothing on it. */
  host(more: Pick<PodHost, "secrets" | "env">): PodHost;
  stop(): Promise<void>;
};

export async function startPodWorld(): Promise<PodWorld> {
  const scratch = await scratchDirectory();
  chmodSync(scratch.path, 0o755);
  const clock = join(scratch.path, "clock");
  writeFileSync(clock, `${NOW - Math.floor(real.getTime() / 1000)}`);
  const [node = "", program = ""] = bundledCli(scratch.path);
  const cli = [node, "--import", CLOCK, program];
  const server = await serveSeries(simulate(cluster));
  return {
    scratch: scratch.path,
    cli,
    clock,
    settings: leastSettings(server.url, { NAMESPACE: "grid", SUBMIT_HOST: "k8s.example.org/grid" }),
    host: ({ secrets, env }) => {
      const place = mkdtempSync(join(scratch.path, "node-"));
      chmodSync(place, 0o777);
      return { place, programs: { "gridmeter-accounting": cli }, secrets, env: { SHIFTED_CLOCK: clock, ...env } };
    },
    stop: async () => {
      await server.stop();
      await scratch.remove();
    },
  };
}

/** The values, with the previous month left out. */
export const onlyCurrent = (of: Values): Values => withValue(of, "accounting.config.ACCOUNTING_SINCE", `${CURRENT}-01`);

/** One pod of the CronJob. */
export async function runOnce(of: Values, host: PodHost): Promise<PodRun> {
  const objects = await render(of);
  return runPod(objects, podOf(objects, "CronJob", "-accounting"), host);
}

/** Monthly records in messages, in order: kind, month and number of jobs. */
export function recordsOf(bodies: readonly string[]): readonly string[] {
  return bodies.flatMap((body) =>
    readMessage(body, Date.now() / 1000).map((record) => {
      if (record.kind !== "summary" && record.kind !== "sync") throw new Error(`a record of kind ${record.kind}`);
      return `${record.kind} ${record.year}-${String(record.month).padStart(2, "0")} ${record.numberOfJobs}`;
    }),
  );
}

export const endings = ({ containers }: PodRun): Readonly<Record<string, number | null>> =>
  Object.fromEntries(Object.entries(containers).map(([name, { code }]) => [name, code]));

/** The messages that are in the queue on a host's volume. */
export function queuedOn(host: PodHost): readonly string[] {
  const queue = join(claimFolder(host, CLAIM), "outgoing");
  return readdirSync(queue, { recursive: true, encoding: "utf8" }).filter((name) => /[0-9a-f]{14}$/.test(name));
}
