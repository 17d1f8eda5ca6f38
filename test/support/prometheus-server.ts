import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

export type PrometheusServer = { readonly url: string; stop(): Promise<void> };

const PROMETHEUS = "/usr/bin/prometheus";
const PROMTOOL = "/usr/bin/promtool";
const START_SECONDS = 60;

/**
 * Starts the real Prometheus on 127.0.0.1, on a free port unless one is given, with the given samples already in its database.
 * `openmetrics` is the text itself if it has a line break, else the path of a file; it must end with `# EOF`. Without it
 * the database is empty.
 * `stop()` ends the process by its own pid and removes its folder; it may be called twice.
 */
export async function startPrometheus(options: {
  readonly openmetrics?: string;
  readonly extraFlags?: readonly string[];
  /** its configuration file; default: it scrapes nothing and has no rules */
  readonly configuration?: string;
  /** longest block; a month unless said otherwise, since promtool reads the whole file once for each */
  readonly blockHours?: number;
  readonly port?: number;
}): Promise<PrometheusServer> {
  const folder = await mkdtemp(join(tmpdir(), "gridmeter-prometheus-"));
  try {
    await mkdir(join(folder, "data"));
    if (options.openmetrics !== undefined) await importSamples(folder, options.openmetrics, options.blockHours ?? 744);
    const configuration = join(folder, "prometheus.yml");
    await writeFile(configuration, options.configuration ?? "global: {}\n");
    const child = spawn(
      PROMETHEUS,
      [
        `--config.file=${configuration}`,
        `--storage.tsdb.path=${join(folder, "data")}`,
        "--storage.tsdb.retention.time=10y",
        `--web.listen-address=127.0.0.1:${options.port ?? 0}`,
        ...(options.extraFlags ?? []),
      ],
      { stdio: ["ignore", "ignore", "pipe"], cwd: folder },
    );
    // A test runner that is torn down must not leave the server behind.
    const killAtExit = (): void => void child.kill("SIGKILL");
    process.once("exit", killAtExit);
    let stopped: Promise<void> | undefined;
    const stop = (): Promise<void> => {
      stopped ??= (async () => {
        await end(child);
        process.removeListener("exit", killAtExit);
        await rm(folder, { recursive: true, force: true });
      })();
      return stopped;
    };
    try {
      const url = await listening(child);
      await ready(url);
      return { url, stop };
    } catch (thrown) {
      await stop();
      throw thrown;
    }
  } catch (thrown) {
    await rm(folder, { recursive: true, force: true });
    throw thrown;
  }
}

async function importSamples(folder: string, openmetrics: string, blockHours: number): Promise<void> {
  const data = join(folder, "data");
  let file = openmetrics;
  if (openmetrics.includes("\n")) {
    file = join(folder, "samples.om");
    await writeFile(file, openmetrics);
  }
  // Without a long block duration promtool reads the whole file once for every two hours of data.
  const command = ["tsdb", "create-blocks-from", `--max-block-duration=${blockHours}h`, "openmetrics", file, data];
  await promisify(execFile)(PROMTOOL, command, { maxBuffer: 64 * 2 ** 20 });
}

/** The URL, from the log line that names the port the system gave. The log is read on, so that its pipe never fills. */
function listening(child: ChildProcess): Promise<string> {
  const { stderr } = child;
  if (stderr === null) throw new Error("Prometheus was started without a pipe for its log.");
  return new Promise((resolve, reject) => {
    const log: string[] = [];
    const timer = setTimeout(() => reject(new Error(`Prometheus did not listen in time:\n${log.join("\n")}`)), 30_000);
    createInterface({ input: stderr }).on("line", (line) => {
      if (log.length < 200) log.push(line);
      const address = /msg="?Listening on"?.* address=(?<address>127\.0\.0\.1:\d+)/.exec(line)?.groups?.["address"];
      if (address === undefined) return;
      clearTimeout(timer);
      resolve(`http://${address}`);
    });
    child.once("error", reject);
    child.once("exit", (code) => {
      clearTimeout(timer);
      reject(new Error(`Prometheus ended with ${String(code)} before it listened:\n${log.join("\n")}`));
    });
  });
}

async function ready(url: string): Promise<void> {
  const deadline = Date.now() + START_SECONDS * 1000;
  for (;;) {
    const answer = await fetch(`${url}/-/ready`).catch(() => undefined);
    await answer?.body?.cancel();
    if (answer?.ok === true) return;
    if (Date.now() > deadline) throw new Error(`Prometheus at ${url} was not ready in ${START_SECONDS} s.`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const exited = once(child, "exit");
  child.kill("SIGKILL"); // its database is thrown away: there is nothing to end in order
  await exited;
}
