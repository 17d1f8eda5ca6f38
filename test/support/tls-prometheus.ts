import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Identity } from "./tls.ts";

export type TlsPrometheus = { readonly url: string; stop(): Promise<void> };

/** What the server asks of its clients. */
export type TlsPrometheusOptions = {
  readonly identity: Identity;
  /** clients must show a certificate of this authority */
  readonly clientCaFile?: string;
  /** Basic authentication: user names and the bcrypt hashes of their passwords */
  readonly users?: Readonly<Record<string, string>>;
};

/**
 * Starts the real Prometheus with TLS on a free port of 127.0.0.1; its database is empty, but it answers `vector(1)`.
 * `stop()` ends it by its own pid.
 */
export async function startTlsPrometheus(options: TlsPrometheusOptions): Promise<TlsPrometheus> {
  const folder = await mkdtemp(join(tmpdir(), "gridmeter-tls-prometheus-"));
  await writeFile(join(folder, "prometheus.yml"), "global: {}\n");
  await writeFile(join(folder, "web.yml"), webConfiguration(options));
  const child = spawn(
    "/usr/bin/prometheus",
    [
      `--config.file=${join(folder, "prometheus.yml")}`,
      `--web.config.file=${join(folder, "web.yml")}`,
      `--storage.tsdb.path=${join(folder, "data")}`,
      "--web.listen-address=127.0.0.1:0",
    ],
    { stdio: ["ignore", "ignore", "pipe"], cwd: folder },
  );
  const killAtExit = (): void => void child.kill("SIGKILL");
  process.once("exit", killAtExit);
  const stop = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) {
      const exited = once(child, "exit");
      child.kill("SIGKILL"); // the database is empty: there is nothing to end in order
      await exited;
    }
    process.removeListener("exit", killAtExit);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    return { url: `https://${await readyAt(child)}`, stop };
  } catch (thrown) {
    await stop();
    throw thrown;
  }
}

/** In JSON, which is YAML too. */
function webConfiguration({ identity, clientCaFile, users }: TlsPrometheusOptions): string {
  return JSON.stringify({
    tls_server_config: {
      cert_file: identity.certFile,
      key_file: identity.keyFile,
      ...(clientCaFile === undefined
        ? {}
        : { client_ca_file: clientCaFile, client_auth_type: "RequireAndVerifyClientCert" }),
    },
    ...(users === undefined ? {} : { basic_auth_users: users }),
  });
}

/** The address, once the log says that it is ready: nobody without the right certificate can ask it. */
function readyAt(child: ChildProcess): Promise<string> {
  const { stderr } = child;
  if (stderr === null) throw new Error("Prometheus was started without a pipe for its log.");
  return new Promise((resolve, reject) => {
    const log: string[] = [];
    let address: string | undefined;
    createInterface({ input: stderr }).on("line", (line) => {
      if (log.length < 200) log.push(line);
      address ??= /msg="?Listening on"?.* address=(?<address>127\.0\.0\.1:\d+)/.exec(line)?.groups?.["address"];
      if (address !== undefined && line.includes("ready to receive web requests")) resolve(address);
    });
    child.once("error", reject);
    child.once("exit", (code) => {
      reject(new Error(`Prometheus ended with ${String(code)} before it was ready:\n${log.join("\n")}`));
    });
  });
}
