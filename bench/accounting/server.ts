import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { listen } from "../../test/support/fault-proxy.ts";

/** A running Prometheus of the bench. */
export type Server = { readonly url: string; readonly pid: number; stop(): Promise<void> };

const PATIENCE_MS = 120_000;

/** Hours; the shortest blocks of the bench. */
export const SHORT_BLOCK = 18;

export type ServerOptions = {
  /** hours; longer blocks are made by compaction. Default: none is made, so that nothing else runs while it is measured */
  readonly longest?: number;
  readonly flags?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
};

/** Starts the real Prometheus on a free port of 127.0.0.1 over a database that lies in `data` and stays there. */
export async function startServer(data: string, options: ServerOptions = {}): Promise<Server> {
  const port = await freePort();
  const child = spawn(
    "prometheus",
    [
      "--config.file=/dev/null",
      `--storage.tsdb.path=${data}`,
      "--storage.tsdb.retention.time=100y",
      `--storage.tsdb.min-block-duration=${SHORT_BLOCK}h`,
      `--storage.tsdb.max-block-duration=${options.longest ?? SHORT_BLOCK}h`,
      `--web.listen-address=127.0.0.1:${port}`,
      "--log.level=warn",
      ...(options.flags ?? []),
    ],
    { stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, ...options.env } },
  );
  let log = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (log = (log + text).slice(-4000)));
  const kill = (): void => void child.kill("SIGKILL");
  process.once("exit", kill);
  const url = `http://127.0.0.1:${port}`;
  const deadline = Date.now() + PATIENCE_MS;
  while (!(await isReady(url))) {
    if (hasEnded(child) || Date.now() > deadline) {
      kill();
      throw new Error(`Prometheus did not start over ${data}:\n${log}`);
    }
    await sleep(50);
  }
  return {
    url,
    pid: child.pid ?? 0,
    stop: async () => {
      process.removeListener("exit", kill);
      if (hasEnded(child)) return;
      const exited = once(child, "exit");
      child.kill("SIGTERM");
      await exited;
    },
  };
}

/** Starts a server over a database, and stops it however the use of it ends. */
export async function withServer<T>(data: string, use: (url: string) => Promise<T>): Promise<T> {
  const server = await startServer(data);
  try {
    return await use(server.url);
  } finally {
    await server.stop();
  }
}

const hasEnded = (child: ChildProcess): boolean =>
  child.exitCode !== null || child.signalCode !== null || child.pid === undefined;

async function freePort(): Promise<number> {
  const server = createServer();
  const port = await listen(server);
  server.close();
  await once(server, "close");
  return port;
}

async function isReady(url: string): Promise<boolean> {
  const answer = await fetch(`${url}/-/ready`).catch(() => undefined);
  await answer?.body?.cancel();
  return answer?.ok === true;
}
