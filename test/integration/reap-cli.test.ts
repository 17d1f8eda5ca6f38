import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { groupPath } from "../../lib/pushgateway/grouping.ts";
import type { Grouping } from "../../lib/pushgateway/grouping.ts";
import { listGroups } from "../../lib/pushgateway/reap.ts";
import { startPushgateway, type PushgatewayServer } from "../support/pushgateway-server.ts";
import { bundledCli, jsonOf, runCli } from "../support/run-cli.ts";

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
