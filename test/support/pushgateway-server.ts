import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

export type PushgatewayServer = {
  readonly url: string;
  /** The text of /metrics. */
  metrics(): Promise<string>;
  stop(): Promise<void>;
};

/** Starts the real Pushgateway on a free port of 127.0.0.1; `stop` ends it by its own pid. */
export async function startPushgateway(): Promise<PushgatewayServer> {
  const child = spawn(
    "/usr/bin/prometheus-pushgateway",
    // Debian's keeps its groups in a file of its own otherwise, and would begin with what another one left there.
    ["--web.listen-address=127.0.0.1:0", "--web.enable-lifecycle", "--persistence.file="],
    {
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  const killAtExit = (): void => void child.kill("SIGKILL");
  process.once("exit", killAtExit);
  const url = await listening(child);
  return {
    url,
    metrics: async () => (await fetch(`${url}/metrics`)).text(),
    stop: async () => {
      process.removeListener("exit", killAtExit);
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
    },
  };
}

function listening(child: ChildProcess): Promise<string> {
  const { stderr } = child;
  if (stderr === null) throw new Error("The Pushgateway was started without a pipe for its log.");
  return new Promise((resolve, reject) => {
    const log: string[] = [];
    const timer = setTimeout(
      () => reject(new Error(`The Pushgateway did not listen in time:\n${log.join("\n")}`)),
      30_000,
    );
    createInterface({ input: stderr }).on("line", (line) => {
      if (log.length < 100) log.push(line);
      const address = /address=(127\.0\.0\.1:\d+)/.exec(line)?.[1];
      if (address === undefined || address.endsWith(":0")) return;
      clearTimeout(timer);
      resolve(`http://${address}`);
    });
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`The Pushgateway ended with ${String(code)}:\n${log.join("\n")}`)));
  });
}
