// `npm run demo`: the main job on real input. A simulated cluster's metrics in a real Prometheus, out of which
// `gridmeter account` makes APEL messages in a queue that ssmsend reads; a directory stands in for S3 and SQS. With
// `--keep` the Prometheus goes on, on the port that .env.local.example names, until it is interrupted.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, readdir, rm } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { demoCluster, simulate, writeOpenMetrics } from "../test/simulator/index.ts";
import { startPrometheus } from "../test/support/prometheus-server.ts";
import { ensureTools } from "./setup.ts";

const root = resolve(import.meta.dirname, "..");
const place = join(root, "demo-data");
const NAMESPACE = "grid";
const KEPT_PORT = 19090;

const args = process.argv.slice(2);
const keep = args.includes("--keep");
const unknown = args.find((arg) => arg !== "--keep");
if (unknown !== undefined)
  throw new Error(`demo: unknown argument "${unknown}"; nothing was done. There is --keep only.`);

const say = (text: string): void => void process.stderr.write(`demo: ${text}\n`);

/** Runs the command line as a user would, its output straight to this terminal. */
async function gridmeter(command: readonly string[], env: Readonly<Record<string, string>>): Promise<void> {
  const child = spawn(process.execPath, [join(root, "bin", "gridmeter.ts"), ...command], {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, ...env },
  });
  const [code] = await once(child, "exit");
  if (code !== 0) throw new Error(`gridmeter ${command[0] ?? ""} ended with exit code ${String(code)}`);
}

async function messages(queue: string): Promise<readonly { file: string; text: string }[]> {
  const files = (await readdir(queue, { recursive: true, withFileTypes: true })).filter(
    (entry) => entry.isFile() && /^[0-9a-f]{14}$/.test(entry.name),
  );
  return Promise.all(
    files.map(async (entry) => {
      const file = join(entry.parentPath, entry.name);
      return { file: relative(root, file), text: await readFile(file, "utf8") };
    }),
  );
}

ensureTools(["prometheus", "promtool"]);
await rm(place, { recursive: true, force: true });
await mkdir(place, { recursive: true });

const cluster = demoCluster({ now: Math.floor(Date.now() / 1000), namespace: NAMESPACE });
const series = simulate(cluster);
say(
  `simulated a cluster of ${cluster.jobs.length} pods over two months: ${series.length} series of kube-state-metrics and cAdvisor`,
);
const samples = join(place, "samples.om");
await writeOpenMetrics(series, samples);
say("importing them with promtool and starting Prometheus ...");
const prometheus = await startPrometheus({ openmetrics: samples, ...(keep ? { port: KEPT_PORT } : {}) });
await rm(samples);
const queue = join(place, "outgoing");
try {
  say(`Prometheus listens on ${prometheus.url}; running \`gridmeter account\``);
  const settings = {
    PROMETHEUS_SERVER: prometheus.url,
    NAMESPACE,
    SITE_NAME: "EXAMPLE-SITE",
    SUBMIT_HOST: "k8s.example.org:6443/grid",
    VO_NAME: "example.vo",
    BENCHMARK_VALUE: "11.9",
  };
  const ledger = ["--ledger", join(place, "ledger")];
  await gridmeter(["account", "--output", `dirq:${queue}`, ...ledger], settings);
  await gridmeter(["report", "--html", join(place, "report.html"), ...ledger], settings);
  const found = await messages(queue);
  const summary = found.find(({ text }) => text.startsWith("APEL-summary"));
  if (summary === undefined) throw new Error(`no summary message is in ${queue}`);
  process.stdout.write(`\nOne of the ${found.length} messages, ${summary.file}:\n\n${summary.text}\n`);
  process.stdout.write(`The queue is ${relative(root, queue)}: a dirq, ready for ssmsend (path_type: dirq).\n`);
  if (keep) {
    say(`Prometheus goes on at ${prometheus.url}; end it with Ctrl-C`);
    await Promise.race([once(process, "SIGINT"), once(process, "SIGTERM")]);
  }
} finally {
  await prometheus.stop();
}
