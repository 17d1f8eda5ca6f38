import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { SELF_METRICS } from "../../lib/agent/metrics/self.ts";
import { groupPath } from "../../lib/shared/pushgateway.ts";
import { listGroups } from "../../lib/shared/pushgateway-groups.ts";
import { dataOf, standInProbes, startAgent, valueOf, writeConfig, type RunningAgent } from "../support/agent-run.ts";
import { startPrometheus, type PrometheusServer } from "../support/prometheus-server.ts";
import { startPushgateway, type PushgatewayServer } from "../support/pushgateway-server.ts";
import { bundledCli, runCli } from "../support/run-cli.ts";
import { standIns, type StandInCommand, type StandIns } from "../support/stand-ins/stand-ins.ts";
import { isLong } from "../support/size.ts";

/** Of every probe; nvidia-smi is asked every 5 s, which is the least that a configuration may say. Seconds. */
const INTERVAL = 1;
const TIMEOUT = 1;
const SCRAPE = 1;

/** The seven commands, the probe that each feeds, and the alert that names it. */
const HANGS: readonly (readonly [StandInCommand, string, string])[] = [
  ["docker-stats", "docker-stats", "GridmeterProbeFailing"],
  ["docker-inspect", "docker-inspect", "GridmeterProbeFailing"],
  ["docker-logs", "docker-logs", "GridmeterProbeFailing"],
  ["docker-info", "docker-daemon", "GridmeterDockerDown"],
  ["nvidia-smi", "nvidia-smi", "GridmeterProbeFailing"],
  ["iftop", "iftop", "GridmeterProbeFailing"],
  ["lsof", "lsof", "GridmeterProbeFailing"],
];
const PROBES = [...HANGS.map(([, probe]) => probe), "ps"];

let folder: string;
let program: readonly string[];
let tools: StandIns;
let gateway: PushgatewayServer;
let agent: RunningAgent;
let prometheus: PrometheusServer;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "gridmeter-agent-e2e-"));
  program = bundledCli(folder);
  tools = standIns({ containers: 2, gpus: 2 });
  gateway = await startPushgateway();
  const config = writeConfig(folder, {
    listen: "127.0.0.1:0",
    instance: "node-1",
    pushgateway: { url: gateway.url, interval: 2 },
    probes: standInProbes(tools, TIMEOUT, INTERVAL),
  });
  agent = await startAgent({ program, cwd: folder, args: ["--config", config], env: { PATH: tools.path } });
  prometheus = await startPrometheus({ openmetrics: "# EOF\n", configuration: scraping() });
});

// One that failed must not make the next ones fail.
afterEach(() => HANGS.forEach(([command]) => tools.tell(command, "ok")));

afterAll(async () => {
  await prometheus?.stop();
  agent?.child.kill("SIGKILL");
  await agent?.ended;
  await gateway?.stop();
  tools?.remove();
  rmSync(folder, { recursive: true, force: true });
});

/** As in production, but for the hurry: both ways, and the rules as they are shipped, without their patience. */
function scraping(): string {
  const rules = readFileSync(new URL("../../deploy/prometheus/gridmeter-agent.rules.yml", import.meta.url), "utf8");
  writeFileSync(join(folder, "rules.yml"), rules.replaceAll(/^( +for:) \w+$/gm, `$1 ${SCRAPE}s`));
  const target = (url: string | undefined) => JSON.stringify([new URL(url ?? "").host]);
  return `global: {scrape_interval: ${SCRAPE}s, scrape_timeout: ${SCRAPE}s, evaluation_interval: ${SCRAPE}s}
rule_files: [${JSON.stringify(join(folder, "rules.yml"))}]
scrape_configs:
  - job_name: pushgateway
    honor_labels: true
    static_configs: [{targets: ${target(gateway.url)}}]
  - job_name: gridmeter-agent-port
    static_configs: [{targets: ${target(agent.url)}, labels: {instance: node-1}}]
`;
}

const port = async (): Promise<string> => (await fetch(`${agent.url}/metrics`)).text();

const answer = z.object({
  data: z.object({ result: z.array(z.object({ metric: z.record(z.string(), z.string()) })) }),
});
/** The series of an instant query, by their labels. */
async function query(text: string): Promise<readonly Readonly<Record<string, string>>[]> {
  const reply = await fetch(`${prometheus.url}/api/v1/query?${new URLSearchParams({ query: text }).toString()}`);
  return answer.parse(await reply.json()).data.result.map(({ metric }) => metric);
}

const META_NAMES = Object.entries(SELF_METRICS)
  .map(([name, { type }]) => (type === "histogram" ? `${name}_(bucket|sum|count)` : name))
  .join("|");
/** How many series of a probe's data an instant query finds, by the way they came. */
async function inPrometheus(probe: string): Promise<{ readonly gateway: number; readonly port: number }> {
  const found = await query(
    `{probe="${probe}", instance="node-1", job=~"gridmeter_agent|gridmeter-agent-port", __name__!~"${META_NAMES}|push_.*"}`,
  );
  const count = (job: string) => found.filter((metric) => metric["job"] === job).length;
  return { gateway: count("gridmeter_agent"), port: count("gridmeter-agent-port") };
}

const alert = async (name: string, probe: string): Promise<boolean> =>
  (await query(`ALERTS{alertname="${name}", alertstate="firing", probe="${probe}"}`)).length > 0;

/** Waits until it holds; gives the moment, in milliseconds since 1970, at which it was asked. */
async function until(what: string, limit: number, holds: () => Promise<boolean>): Promise<number> {
  const end = Date.now() + limit * 1000;
  for (;;) {
    const asked = Date.now();
    if (await holds()) return asked;
    if (asked > end) throw new Error(`not within ${limit} s: ${what}`);
    await sleep(50);
  }
}

const startsOf = (command: StandInCommand): number => tools.calls(command).length;
const lastStart = (command: StandInCommand): number => statSync(join(tools.home, "calls", command)).mtimeMs;

/** What runs a probe has settled, whatever they came to. */
const runsOf = (text: string, probe: string): number =>
  text
    .split("\n")
    .filter((line) => line.startsWith("gridmeter_probe_runs_total{") && line.includes(`probe="${probe}"`))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);

async function allThere(): Promise<boolean> {
  const [onPort, onGateway] = await Promise.all([port(), gateway.metrics()]);
  return PROBES.every((probe) => dataOf(onPort, probe).length > 0 && dataOf(onGateway, probe).length > 0);
}

describe("a node on which commands hang one after another", () => {
  it("shows what all probes read, by both ways", async () => {
    await until("all data are on the port and the gateway", 30, allThere);
    for (const probe of PROBES) {
      await until(`Prometheus has data of ${probe}`, 10, async () => {
        const found = await inPrometheus(probe);
        return found.gateway > 0 && found.gateway === found.port;
      });
    }
    const ready = await fetch(`${agent.url}/readyz`);
    expect(ready.status).toBe(200);
    await until("no alert fires", 10, async () => (await query('ALERTS{alertstate="firing"}')).length === 0);
  });

  it.each(HANGS.filter(([command]) => isLong || command === "docker-stats" || command === "nvidia-smi"))(
    "%s: only the data of %s vanish, everywhere; %s fires; all comes back",
    async (command, probe, name) => {
      await until("nothing is amiss", 20, allThere);
      const before = await port();
      const calls = startsOf(command);
      tools.tell(command, "hang");
      await until(`${command} is started`, 10, async () => startsOf(command) > calls);
      const started = lastStart(command);

      const gone = async () => {
        const [onPort, onGateway] = await Promise.all([port(), gateway.metrics()]);
        return dataOf(onPort, probe).length === 0 && dataOf(onGateway, probe).length === 0;
      };
      const goneAt = await until(`the data of ${probe} are gone`, 10, gone);
      expect((goneAt - started) / 1000).toBeLessThanOrEqual(TIMEOUT + 2.5);
      const settled = await port();
      expect(valueOf(settled, "gridmeter_probe_success", `probe="${probe}"`)).toBe(0);
      expect(valueOf(settled, "gridmeter_probe_last_success_timestamp_seconds", `probe="${probe}"`)).toBeGreaterThan(0);
      expect(valueOf(settled, "gridmeter_probe_result", `probe="${probe}"`, 'result="timeout"')).toBe(1);

      // One scrape later, and the time that scraping and asking take.
      const seenAt = await until(`Prometheus has no data of ${probe}`, 10, async () => {
        const found = await inPrometheus(probe);
        return found.gateway === 0 && found.port === 0;
      });
      expect((seenAt - goneAt) / 1000).toBeLessThanOrEqual(SCRAPE + 1.5);
      await until(`${name} fires`, 10, () => alert(name, probe));

      // The others go on as if nothing were.
      const after = await port();
      for (const other of PROBES.filter((name) => name !== probe)) {
        const runs = other === "nvidia-smi" ? 0 : 2;
        expect(runsOf(after, other) - runsOf(before, other), `runs of ${other}`).toBeGreaterThanOrEqual(runs);
        await until(`there are data of ${other}`, 10, async () => dataOf(await port(), other).length > 0);
      }
      expect((await fetch(`${agent.url}/healthz`)).status).toBe(200);

      tools.tell(command, "ok");
      await until(`the data of ${probe} are back`, 15, async () => {
        const found = await inPrometheus(probe);
        return found.gateway > 0 && found.port > 0;
      });
      await until(`${name} resolves`, 10, async () => !(await alert(name, probe)));
    },
  );
});

it("takes what was joined with docker-inspect from nvidia-smi's data, and nothing else of it", async () => {
  const joined = (text: string) => dataOf(text, "nvidia-smi").filter((line) => line.startsWith("gridmeter_container_"));
  await until("data are joined", 20, async () => joined(await gateway.metrics()).length > 0);
  tools.tell("docker-inspect", "hang");
  await until("the joined data are gone", 10, async () => joined(await gateway.metrics()).length === 0);
  expect(dataOf(await gateway.metrics(), "nvidia-smi").some((line) => line.startsWith("gridmeter_gpu_info"))).toBe(
    true,
  );
  expect(joined(await port())).toEqual([]);
  tools.tell("docker-inspect", "ok");
});

it("is reaped when it was killed, and nobody else is", async () => {
  const others = [
    { job: "gridmeter_accounting", site: "T2" },
    { job: "other", instance: "node-1", probe: "ps" },
  ];
  for (const grouping of others) {
    await fetch(gateway.url + groupPath(grouping), { method: "PUT", body: "some_metric 1\n" });
  }
  agent.child.kill("SIGKILL");
  expect((await agent.ended).signal).toBe("SIGKILL");
  const left = await listGroups(gateway.url);
  expect(left.filter(({ grouping }) => grouping["job"] === "gridmeter_agent").length).toBeGreaterThan(PROBES.length);
  await sleep(2100);
  const reaped = await runCli(["reap", "--pushgateway", gateway.url, "--older-than", "1s"], { cwd: folder, program });
  expect(reaped.code, reaped.stderr).toBe(0);
  expect((await listGroups(gateway.url)).map(({ grouping }) => grouping)).toEqual(others);
});
