// Every dashboard of deploy/grafana against a real Prometheus that has scraped a run of the agent (agent --demo, with a hang) and of the
// accounting from a real Pushgateway: each expression is read, each metric is one that the code exports, and none is empty.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import {
  ACCOUNTING_JOB,
  type UnitFigures,
  pushedText,
  unitGrouping,
  unitMetrics,
  unsentMetrics,
} from "../../lib/accounting/metrics.ts";
import { addMonths, monthOf } from "../../lib/accounting/model/time.ts";
import { push } from "../../lib/shared/pushgateway.ts";
import { type PrometheusServer, startPrometheus } from "../support/prometheus-server.ts";
import { knownMetricNames, metricNames, promqlFaults } from "../support/promql-names.ts";
import { type PushgatewayServer, startPushgateway } from "../support/pushgateway-server.ts";
import { type CliRun, bundledCli, startCli } from "../support/run-cli.ts";
import { scratchDirectory } from "../support/store-script.ts";

const FOLDER = new URL("../../deploy/grafana/", import.meta.url).pathname;
/** Seconds; the first hang of the made-up node begins after 15 and ends after 40. */
const LONGEST_WAIT = 120;

const Target = z.object({ expr: z.string(), datasource: z.object({ uid: z.literal("${datasource}") }) });
const Place = z.object({ x: z.int(), y: z.int(), w: z.int().positive(), h: z.int().positive() });
const Panel = z.object({
  id: z.int(),
  type: z.string(),
  title: z.string().min(1),
  description: z.string().optional(),
  gridPos: Place,
  targets: z.array(Target).optional(),
});
const Dashboard = z.object({
  uid: z.string(),
  title: z.string().startsWith("gridmeter: "),
  panels: z.array(Panel),
  templating: z.object({ list: z.array(z.object({ name: z.string(), definition: z.string().optional() })) }),
});
const FILES = readdirSync(FOLDER).filter((name) => name.endsWith(".json"));
const DASHBOARDS = FILES.map((name) => Dashboard.parse(JSON.parse(readFileSync(join(FOLDER, name), "utf8"))));

/** A query as Grafana would send it, with all values of each variable. */
const asked = (expr: string): string =>
  expr
    .replaceAll("$__rate_interval", "30s")
    .replaceAll(/="\$(\w+)"/g, '=~".+"')
    .replaceAll(/\$(instance|probe|site|submit_host)\b/g, ".*");

test("there is one of the accounting, one of all nodes, of one node, of one GPU, and of the probes", () => {
  expect(DASHBOARDS.map(({ uid }) => uid).toSorted((a, b) => a.localeCompare(b))).toEqual([
    "gridmeter-accounting",
    "gridmeter-agent",
    "gridmeter-gpu",
    "gridmeter-node",
    "gridmeter-nodes",
  ]);
});

describe.each(DASHBOARDS)("$title", ({ panels, templating }) => {
  const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));

  test("asks only for metrics that the code exports, in PromQL", () => {
    const known = knownMetricNames();
    for (const query of queries.map(asked)) {
      expect(promqlFaults(query), query).toEqual([]);
      expect(metricNames(query).length, query).toBeGreaterThan(0);
      for (const name of metricNames(query)) expect(known, query).toContain(name);
    }
  });

  test("uses each of its variables, and no other", () => {
    const used = [...queries, ...templating.list.map(({ definition = "" }) => definition)].flatMap((query) =>
      [...query.matchAll(/\$(?!__)(\w+)/g)].map(([, name = ""]) => name),
    );
    const names = templating.list.map(({ name }) => name).filter((name) => name !== "datasource");
    expect(new Set(used)).toEqual(new Set(names));
  });

  test("has panels that say what they show, and none over another", () => {
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    for (const [index, { gridPos: a, title, type, description }] of panels.entries()) {
      if (type !== "row") expect(description, title).toMatch(/\.$/);
      expect(a.x + a.w, title).toBeLessThanOrEqual(24);
      for (const { gridPos: b, title: other } of panels.slice(index + 1)) {
        const apart = a.x + a.w <= b.x || b.x + b.w <= a.x || a.y + a.h <= b.y || b.y + b.h <= a.y;
        expect(apart, `${title} / ${other}`).toBe(true);
      }
    }
  });
});

describe("against a run of both halves", () => {
  let gateway: PushgatewayServer;
  let prometheus: PrometheusServer;
  let agent: ReturnType<typeof startCli>;
  let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
  let began: number;

  beforeAll(
    async () => {
      began = Date.now() / 1000;
      scratch = await scratchDirectory();
      gateway = await startPushgateway();
      const target = gateway.url.replace("http://", "");
      prometheus = await startPrometheus({
        configuration: `global: {scrape_interval: 1s}\nscrape_configs: [{job_name: pushgateway, honor_labels: true, static_configs: [{targets: ["${target}"]}]}]\n`,
      });
      agent = startCli(["agent", "--demo", "--listen", "off", "--pushgateway", gateway.url], {
        cwd: scratch.path,
        program: bundledCli(scratch.path),
      });
      await pushAccounting();
      await until('gridmeter_probe_result{probe="nvidia-smi",result="timeout"}');
      await until('gridmeter_probe_success{probe="nvidia-smi"} == 1');
      // All that is joined with nvidia-smi's values comes with the runs after it.
      await until("gridmeter_gpu_uninterruptible_processes");
      await until("gridmeter_container_gpu_processes");
      // Pushed again while it ran, so that its groups have two samples.
      await pushAccounting();
      await sleep(3000);
    },
    (LONGEST_WAIT + 60) * 1000,
  );
  afterAll(async () => {
    agent.child.kill("SIGTERM");
    const ended: CliRun = await agent.ended;
    await Promise.all([prometheus.stop(), gateway.stop()]);
    await scratch.remove();
    expect(ended.code, ended.stderr).toBe(0);
  }, 60_000);

  /** What a run pushes of two months of a unit, one that it published and one that it refused, and of a queue. */
  async function pushAccounting(): Promise<void> {
    const at = Math.floor(Date.now() / 1000);
    const current = monthOf(at);
    const counted = {
      jobs: 400,
      coreSeconds: 9e6,
      gapSeconds: 3600,
      leftOut: { no_end: 3, no_start: 1 },
      daysAsked: 2,
    };
    for (const [month, outcomes] of [
      [current, ["done"]],
      // A unit has had a success before it is refused.
      [addMonths(current, -1), ["done", "refused"]],
    ] as const) {
      const unit = { site: "MADE-UP-SITE", submitHost: "k8s.example.org/demo", month };
      for (const outcome of outcomes) {
        const figures: UnitFigures = { unit, outcome, counted, messages: 2, duration: 4.2, at };
        const method = outcome === "done" ? "PUT" : "POST";
        await push(gateway.url, unitGrouping(unit, at), await pushedText(unitMetrics(figures)), {
          deadlineMs: 5000,
          method,
        });
      }
    }
    const queue = "dirq:/var/spool/apel/outgoing";
    await push(
      gateway.url,
      { job: ACCOUNTING_JOB, queue },
      await pushedText(unsentMetrics({ queue, ages: [60, 3600] })),
      {
        deadlineMs: 5000,
        method: "PUT",
      },
    );
  }

  const Answer = z.object({
    status: z.literal("success"),
    data: z.object({ result: z.array(z.object({ metric: z.record(z.string(), z.string()) })) }),
  });
  /** The series of a query over the run. */
  async function ask(query: string): Promise<readonly Record<string, string>[]> {
    const parameters = new URLSearchParams({ query, start: String(began), end: String(Date.now() / 1000), step: "1" });
    const answer = await fetch(`${prometheus.url}/api/v1/query_range?${parameters.toString()}`);
    return Answer.parse(await answer.json()).data.result.map(({ metric }) => metric);
  }
  async function until(query: string): Promise<void> {
    for (const end = began + LONGEST_WAIT; (await now(query)).length === 0; await sleep(500)) {
      if (Date.now() / 1000 > end) throw new Error(`${query} is still empty`);
    }
  }
  async function now(query: string): Promise<readonly unknown[]> {
    const answer = await fetch(`${prometheus.url}/api/v1/query?${new URLSearchParams({ query }).toString()}`);
    return Answer.parse(await answer.json()).data.result;
  }

  test.each(DASHBOARDS)(
    "$title: no panel is empty, and each variable has values",
    async ({ panels, templating }) => {
      const empty: string[] = [];
      for (const { title, targets = [] } of panels) {
        for (const { expr } of targets) if ((await ask(asked(expr))).length === 0) empty.push(`${title}: ${expr}`);
      }
      for (const { name, definition } of templating.list) {
        const [, selector = "", label = ""] = /^label_values\((.+), (\w+)\)$/.exec(definition ?? "") ?? [];
        if (name === "datasource") continue;
        const found = await ask(asked(selector));
        if (!found.some((metric) => (metric[label] ?? "") !== "")) empty.push(`$${name}: ${definition ?? ""}`);
      }
      expect(empty).toEqual([]);
    },
    120_000,
  );

  test("the made-up node says that it is made up, wherever it has a name", async () => {
    const series = await ask('{instance!="",__name__=~"gridmeter_.*"}');
    expect(new Set(series.filter(({ probe }) => probe !== undefined).map(({ instance }) => instance))).toEqual(
      new Set(["made-up-node"]),
    );
    const named = await ask("gridmeter_gpu_info or gridmeter_container_info or gridmeter_docker_info");
    for (const { name, version } of named) expect(name ?? version).toMatch(/made-up/i);
    const jobs = new Set(series.filter(({ probe }) => probe !== undefined).map(({ job }) => job));
    expect(jobs).toEqual(new Set(["gridmeter_agent_demo"]));
  });
});
