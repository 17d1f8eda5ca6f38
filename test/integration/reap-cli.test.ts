import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Grouping, groupPath } from "../../lib/shared/pushgateway.ts";
import { listGroups } from "../../lib/shared/pushgateway-groups.ts";
import { listen } from "../support/fault-proxy.ts";
import { startPushgateway, type PushgatewayServer } from "../support/pushgateway-server.ts";
import { bundledCli, jsonOf, runCli, startCli } from "../support/run-cli.ts";

let folder: string;
let gateway: PushgatewayServer;
let program: readonly string[];
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "gridmeter-reap-"));
  program = bundledCli(folder);
  gateway = await startPushgateway();
});
afterAll(async () => {
  await gateway.stop();
  await rm(folder, { recursive: true });
});

const reap = (args: readonly string[], env = {}) => runCli(["reap", ...args], { cwd: folder, program, env });
const push = async (grouping: Grouping): Promise<void> => {
  const reply = await fetch(gateway.url + groupPath(grouping), { method: "PUT", body: "some_metric 1\n" });
  expect(reply.status).toBe(200);
};
const groups = async (): Promise<readonly Grouping[]> => (await listGroups(gateway.url)).map((group) => group.grouping);

const AGENTS: readonly Grouping[] = [
  { job: "gridmeter_agent", instance: "node-1", probe: "ps" },
  { job: "gridmeter_agent", instance: "node/2 ü", probe: "nvidia-smi" },
];
const OTHERS: readonly Grouping[] = [
  { job: "gridmeter_agent", instance: "node-1" },
  { job: "gridmeter_accounting", site: "T2" },
  { job: "other", probe: "ps", instance: "node-1" },
];

it("shows and then deletes the groups of dead agents, and leaves all others", async () => {
  for (const grouping of [...AGENTS, ...OTHERS]) await push(grouping);
  const all = await groups();

  const young = await reap(["--pushgateway", gateway.url]);
  expect(young).toMatchObject({ code: 0, stdout: "" });
  expect(young.stderr).toContain('0 groups of job "gridmeter_agent" not pushed for 1h were deleted');

  await new Promise((resolve) => setTimeout(resolve, 2100));
  const dry = await reap(["--older-than", "1s", "--dry-run"], { PUSHGATEWAY_URL: gateway.url });
  expect(dry.code).toBe(0);
  for (const text of ["node-1", "node/2 ü", "nvidia-smi", "ps"]) expect(dry.stdout).toContain(text);
  expect(dry.stdout).not.toMatch(/other|accounting/);
  expect(dry.stderr).toContain("2 groups of job");
  expect(dry.stderr).toContain("would be deleted");
  expect(await groups()).toEqual(all);

  // the gateway of the agent's own configuration, with its credentials
  const config = join(folder, "agent.yaml");
  await writeFile(join(folder, "token"), "secret\n");
  await writeFile(config, `pushgateway: {url: "${gateway.url}", bearerTokenFile: token}\n`);
  const done = await reap(["--config", config, "--older-than", "1s", "--json"]);
  expect(jsonOf(done)).toMatchObject({ job: "gridmeter_agent", dryRun: false, exitCode: 0, deleted: [{}, {}] });
  const left = await groups();
  expect(left).toHaveLength(3);
  expect(left).toEqual(expect.arrayContaining([...OTHERS]));

  expect(await reap(["--pushgateway", gateway.url, "--job", "other", "--older-than", "1s"])).toMatchObject({ code: 0 });
  expect(await groups()).toHaveLength(2);
});

it("says what is missing or wrong, and what fails", async () => {
  const cases: readonly (readonly [readonly string[], number, string])[] = [
    [[], 2, "Give --pushgateway URL"],
    [["--pushgateway", "gateway"], 2, '--pushgateway="gateway"'],
    [["--pushgateway", gateway.url, "--older-than", "soon"], 2, '--older-than "soon"'],
    [["--pushgateway", gateway.url, "--older-than", "0"], 2, '--older-than "0"'],
    [["--pushgateway", gateway.url, "--job", ""], 2, '--job ""'],
    [["--pushgateway", "http://127.0.0.1:1"], 4, "could not be reached"],
    [["--pushgateway", gateway.url, "--what"], 2, "--what"],
  ];
  const runs = await Promise.all(cases.map(async (each) => ({ each, run: await reap(each[0]) })));
  for (const { each, run } of runs) {
    expect([run.code, run.stderr], each[0].join(" ")).toEqual([each[1], expect.stringContaining(each[2])]);
    expect(run.stdout).toBe("");
  }
});

/** The list of a gateway with so many groups, as it writes it, and which of them are dead. Each has 115 kB of metrics. */
function largeList(groups: number) {
  const metrics = Array.from(
    { length: 550 },
    (_, n) =>
      `"gridmeter_gpu_metric_${n}":{"time_stamp":"2026-11-30T11:14:37.6Z","type":"GAUGE","help":"[{\\"labels\\": 1","metrics":[` +
      `{"labels":{"gpu":"${n}","instance":"","job":"x","probe":"p","uuid":"GPU-0000"},"value":"1"}]}`,
  ).join(",");
  const groupings = Array.from({ length: groups }, (_, n): Grouping => {
    const job = n % 5 === 4 ? "other" : "gridmeter_agent";
    return { job, instance: `node/${n}`, ...(n % 7 === 6 ? {} : { probe: "ü" }) };
  });
  const isOld = (n: number) => n % 3 === 0 || n === groups - 1;
  const text = (grouping: Grouping, n: number) =>
    `{${metrics},"labels":${JSON.stringify(grouping)},"last_push_successful":true,"push_time_seconds":{"type":"GAUGE","metrics":[` +
    `{"labels":${JSON.stringify(grouping)},"value":"${isOld(n) ? "1e+09" : "1.9e+10"}"}]}}`;
  const dead = groupings.filter(({ job, probe }, n) => job === "gridmeter_agent" && probe !== undefined && isOld(n));
  return { groupings, text, dead };
}

it("reads a list of more than 200 MB in little memory, and deletes exactly the dead; none of one that is cut off", async () => {
  const { groupings, text, dead } = largeList(2000);
  let cutAt = Number.POSITIVE_INFINITY;
  let sent = 0;
  const write = async (response: ServerResponse): Promise<void> => {
    response.writeHead(200).write('{"status":"success","data":[');
    for (const [n, grouping] of groupings.entries()) {
      if (n === cutAt) break;
      const piece = (n === 0 ? "" : ",") + text(grouping, n);
      sent += Buffer.byteLength(piece);
      if (!response.write(piece)) await new Promise((resolve) => response.once("drain", resolve));
    }
    response.end(cutAt < groupings.length ? "" : "]}");
  };
  const deleted: string[] = [];
  let pid: number | undefined;
  let peak = 0;
  const server = createServer((request, response) => {
    if (request.method === "GET") return void write(response);
    deleted.push(request.url ?? "");
    peak = Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
    response.writeHead(202).end();
  });
  const args = ["reap", "--json", "--pushgateway", `http://127.0.0.1:${await listen(server)}`];
  try {
    cutAt = 300;
    const cut = await runCli(args, { cwd: folder, program });
    expect([cut.code, cut.stderr]).toEqual([4, expect.stringContaining("it stops in the middle")]);
    expect(jsonOf(cut)).toMatchObject({ exitCode: 4, error: { code: "pushgateway_failed" } });
    expect(deleted).toEqual([]);

    cutAt = Number.POSITIVE_INFINITY;
    sent = 0;
    const { child, ended } = startCli(args, { cwd: folder, program });
    pid = child.pid;
    const run = await ended;
    expect(run.code, run.stderr).toBe(0);
    expect(sent).toBeGreaterThan(200 * 2 ** 20);
    expect(peak).toBeGreaterThan(20);
    // Measured: 175 MB, of which 100 are there with an empty list, and not more with one of 900 MB.
    expect(peak).toBeLessThan(sent / 2 ** 20);
    expect(new Set(deleted)).toEqual(new Set(dead.map(groupPath)));
    expect(deleted).toHaveLength(dead.length);
    expect(jsonOf(run)).toMatchObject({ exitCode: 0, deleted: dead.map(() => ({ pushedAt: 1e9 })) });
  } finally {
    server.closeAllConnections();
    server.close();
  }
}, 120_000);
