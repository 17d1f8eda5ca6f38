import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { samples } from "../simulator/index.ts";
import type { Series } from "../simulator/index.ts";
import { listen } from "./fault-proxy.ts";

export type VictoriaMetrics = {
  readonly url: string;
  /** Ends the server and starts it again on the same data with other flags. */
  restart(flags: readonly string[]): Promise<void>;
  stop(): Promise<void>;
};

const START_SECONDS = 60;

/** Starts the real VictoriaMetrics on a free port of 127.0.0.1 with the series; `stop` ends it by its own pid. */
export async function startVictoriaMetrics(series: readonly Series[]): Promise<VictoriaMetrics> {
  const folder = await mkdtemp(join(tmpdir(), "gridmeter-victoria-"));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  let child = await launch(folder, port, []);
  const stop = async (): Promise<void> => {
    await end(child);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await importSeries(url, series);
  } catch (thrown) {
    await stop();
    throw thrown;
  }
  return {
    url,
    stop,
    restart: async (flags) => {
      await end(child);
      child = await launch(folder, port, flags);
    },
  };
}

async function launch(folder: string, port: number, flags: readonly string[]): Promise<ChildProcess> {
  const child = spawn(
    "/usr/bin/victoria-metrics",
    [
      `-storageDataPath=${join(folder, "data")}`,
      `-httpListenAddr=127.0.0.1:${port}`,
      // The samples are from years in which nothing was deleted yet.
      "-retentionPeriod=100y",
      "-memory.allowedBytes=256MB",
      "-loggerLevel=ERROR",
      ...flags,
    ],
    { stdio: ["ignore", "ignore", "inherit"], cwd: folder },
  );
  const killAtExit = (): void => void child.kill("SIGKILL");
  process.once("exit", killAtExit);
  child.once("exit", () => process.removeListener("exit", killAtExit));
  const deadline = Date.now() + START_SECONDS * 1000;
  for (;;) {
    const answer = await fetch(`http://127.0.0.1:${port}/health`).catch(() => undefined);
    await answer?.body?.cancel();
    if (answer?.ok === true) return child;
    if (child.exitCode !== null) throw new Error(`VictoriaMetrics ended with ${child.exitCode} before it answered.`);
    if (Date.now() > deadline) throw new Error(`VictoriaMetrics did not answer in ${START_SECONDS} s.`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** One line of JSON a series, as its import API takes it; times in milliseconds. */
function* importLines(series: readonly Series[]): Generator<string> {
  for (const one of series) {
    const values: number[] = [];
    const timestamps: number[] = [];
    for (const [time, value] of samples(one)) {
      timestamps.push(time * 1000);
      values.push(value);
    }
    yield `${JSON.stringify({ metric: { __name__: one.name, ...one.labels }, values, timestamps })}\n`;
  }
}

async function importSeries(url: string, series: readonly Series[]): Promise<void> {
  const body = Readable.toWeb(Readable.from(importLines(series)).map((line: string) => Buffer.from(line)));
  const answer = await fetch(`${url}/api/v1/import`, { method: "POST", body, duplex: "half" });
  if (answer.status !== 204) throw new Error(`The import was answered with ${answer.status}: ${await answer.text()}`);
  const flushed = await fetch(`${url}/internal/force_flush`);
  await flushed.body?.cancel();
}

async function freePort(): Promise<number> {
  const server = createServer();
  const port = await listen(server);
  server.close();
  await once(server, "close");
  return port;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), 10_000);
  await exited;
  clearTimeout(timer);
}
