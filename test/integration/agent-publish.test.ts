// The agent's groups on the real Pushgateway: nothing stale on it, whatever becomes of probes, of the gateway or of the agent.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { knownMetric } from "../../lib/agent/agent.ts";
import { SelfMetrics, PushAccount } from "../../lib/agent/metrics/self.ts";
import { authorizationOf } from "../../lib/agent/gateway-secrets.ts";
import { Publisher, type PublisherOptions } from "../../lib/agent/publisher.ts";
import { MetricStore, type Join } from "../../lib/agent/metrics/store.ts";
import type { ProbeRun } from "../../lib/agent/probes/common/probe.ts";
import { parseCustom } from "../../lib/agent/probes/custom.ts";
import { type Grouping, deleteGroup, push } from "../../lib/shared/pushgateway.ts";
import { listGroups } from "../../lib/shared/pushgateway-groups.ts";
import { gauge, keptLog, ok, run } from "../support/agent-parts.ts";
import { startGate } from "../support/gateway-gate.ts";
import type { GatewayGate } from "../support/gateway-gate.ts";
import { printed } from "../support/probe-fixtures.ts";
import { startPushgateway } from "../support/pushgateway-server.ts";
import type { PushgatewayServer } from "../support/pushgateway-server.ts";
import { makeAuthority } from "../support/tls.ts";

const JOB = "gridmeter_agent";
const PROBES = ["nvidia-smi", "docker-inspect", "custom"];
const GROUPS = [...PROBES, "agent"];

let gateway: PushgatewayServer;
let gate: GatewayGate;
beforeAll(async () => {
  gateway = await startPushgateway();
  gate = await startGate(gateway.url);
});
afterAll(async () => {
  await gate.stop();
  await gateway.stop();
});

type Agent = {
  readonly board: MetricStore;
  readonly publisher: Publisher;
  readonly log: ReturnType<typeof keptLog>;
  /** a probe's run has settled */
  readonly settle: (probe: string, done: ProbeRun) => void;
};

/** GPUs of containers: only while both are fresh. */
const joinGpus: Join = ({ nvidia, containers }) =>
  nvidia === undefined || containers === undefined ? new Map() : new Map([["nvidia-smi", [gauge("joined", 1)]]]);
const nvidia = (value: number): ProbeRun =>
  run("ok", {
    metrics: [gauge("gridmeter_gpu_attached", value)],
    readings: { nvidia: { log: { gpus: [], attached: 0 } as never, owners: new Map() } },
  });
const inspect = (): ProbeRun => run("ok", { metrics: [gauge("inspected", 1)], readings: { containers: [] } });

let agents: Agent[];
let time: number;
beforeEach(() => {
  agents = [];
  time = 1_000;
  gate.gate = "pass";
});
afterEach(async () => {
  gate.gate = "pass";
  await Promise.all(agents.map(({ publisher }) => publisher.stop()));
  for (const { grouping } of await listGroups(gateway.url)) await deleteGroup(gateway.url, grouping);
  gate.seen.length = 0;
});

function agent(more: Partial<PublisherOptions> = {}): Agent {
  const account = new PushAccount();
  const log = keptLog();
  const probes = PROBES.map((name) => ({ name, interval: 30, timeout: 10, stuck: () => 0 }));
  const meta = new SelfMetrics({
    probes,
    version: "1",
    wallClock: () => Date.now() / 1000,
    process: () => ({ residentBytes: 1, cpuSeconds: 1 }),
    pushes: account,
  });
  const fault = (text: string): void => log.error({}, text);
  const board = new MetricStore({ probes, meta, joins: [joinGpus], catalogue: knownMetric, clock: () => time, fault });
  const own = { url: gate.url, job: JOB, instance: "node1", board, account, log, random: () => 0, ...more };
  const publisher = new Publisher(own);
  const made = { board, publisher, log, settle: (p: string, done: ProbeRun) => publisher.mark(board.settled(p, done)) };
  agents.push(made);
  return made;
}

const started = (more: Partial<PublisherOptions> = {}): Agent => {
  const made = agent(more);
  made.publisher.start();
  return made;
};

const groups = async (): Promise<Grouping[]> => (await listGroups(gateway.url)).map(({ grouping }) => grouping);
const probesOf = async (instance = "node1"): Promise<string[]> =>
  (await groups())
    .filter((group) => group["job"] === JOB && group["instance"] === instance)
    .map((group) => group["probe"] ?? "");

const eventually = <T>(read: () => T) => expect.poll(read, { interval: 50, timeout: 20_000 });

/** The value of the series of this name and probe on the gateway, -1 if there is none. */
async function value(name: string, probe: string): Promise<number> {
  const line = (await gateway.metrics())
    .split("\n")
    .find((text) => text.startsWith(`${name}{`) && text.includes(`probe="${probe}"`));
  return line === undefined ? -1 : Number(line.split(" ").at(-1));
}
const shows = (name: string, probe: string) => eventually(() => value(name, probe));

/** The agent's own count of pushes that came to this. */
const pushes = ({ board }: Agent, result: string): number =>
  Number(new RegExp(`gridmeter_push_total\\{probe="agent",result="${result}"\\} (\\d+)`).exec(board.exposition())?.[1]);

describe("no result, no data", () => {
  test("data are gone in the same cycle, joined ones too; what is known of the probe stays", async () => {
    const { settle } = started();
    settle("nvidia-smi", nvidia(2));
    settle("docker-inspect", inspect());
    settle("custom", ok(gauge("own", 7)));
    await shows("joined", "nvidia-smi").toBe(1);
    await shows("gridmeter_gpu_attached", "nvidia-smi").toBe(2);
    await shows("own", "custom").toBe(7);

    settle("docker-inspect", run("timeout", { seconds: 10 }));
    await shows("joined", "nvidia-smi").toBe(-1);
    await shows("inspected", "docker-inspect").toBe(-1);
    await shows("gridmeter_probe_success", "docker-inspect").toBe(0);
    await shows("gridmeter_probe_last_duration_seconds", "docker-inspect").toBe(10);
    expect(await value("gridmeter_probe_last_success_timestamp_seconds", "docker-inspect")).toBeGreaterThan(1.7e9);
    expect(await value("gridmeter_gpu_attached", "nvidia-smi")).toBe(2);
    expect(await value("own", "custom")).toBe(7);

    settle("docker-inspect", inspect());
    await shows("joined", "nvidia-smi").toBe(1);
  });

  test("data that grew too old, since nothing ran, are taken off", async () => {
    const { settle } = started();
    settle("custom", ok(gauge("own", 7)));
    await shows("own", "custom").toBe(7);
    time += 60;
    await shows("own", "custom").toBe(-1);
    expect(await value("gridmeter_probe_success", "custom")).toBe(1);
  });

  test("every group is pushed again and again though nothing changes", async () => {
    const { settle } = started({ interval: 0.3 });
    settle("custom", ok(gauge("own", 7)));
    await shows("own", "custom").toBe(7);
    for (const probe of GROUPS) {
      const before = await value("push_time_seconds", probe);
      await eventually(() => value("push_time_seconds", probe)).toBeGreaterThan(before);
    }
    expect(await value("own", "custom")).toBe(7);
  });

  test("whatever is in labels gets there as it is", async () => {
    const labels = {
      path: 'C:\\dir\\n "x"\nend',
      empty: "",
      unicode: "Kölner ☃ 🖥/日本",
      half: "\ud83d",
      comma: 'a="b",c',
    };
    const { settle } = started();
    settle("custom", ok({ ...gauge("own", 1, labels), help: 'a "help"\n\\n text' }, gauge("own", 2, { x: "\r\t\0" })));
    await shows("gridmeter_probe_success", "custom").toBe(1);
    const text = (await gateway.metrics()).split("\n").filter((line) => line.startsWith("own{"));
    // An empty label is none, says the gateway as Prometheus does.
    const { empty: _, ...others } = { ...labels, half: "\ufffd", exported_job: JOB, exported_instance: "node1" };
    const expected = { ...others, exported_probe: "custom" };
    const read = parseCustom(printed(text.join("\n"))).value[0]?.samples ?? [];
    expect(read).toHaveLength(2);
    expect(read.find((sample) => sample.value === 1)?.labels).toEqual(expected);
    expect(read.find((sample) => sample.value === 2)?.labels).toMatchObject({ x: "\r\t\0" });
  });
});

describe("the agent's own groups", () => {
  const TEXT = "# TYPE old gauge\nold 1\n";

  test.each(["node1", "node/1 in a row", "Kölner Knoten ☃", ""])(
    "%j: what an earlier agent left is removed at the start, all at the end, nobody else's ever",
    async (instance) => {
      // Without an instance these would be the same to the gateway.
      const withoutInstance = instance === "" ? [] : [{ job: JOB }, { job: JOB, probe: "custom" }];
      const others: readonly Grouping[] = [
        ...withoutInstance,
        { job: JOB, instance },
        { job: JOB, instance: `${instance}2`, probe: "custom" },
        { job: JOB, instance, probe: "custom", rack: "4" },
        { job: `${JOB}2`, instance, probe: "custom" },
        { job: "gridmeter_accounting", site: "A", submit_host: "B", period: "current" },
      ];
      const old = ["custom", "a probe of before", "x/y"].map((probe) => ({ job: JOB, instance, probe }));
      for (const group of [...others, ...old]) await push(gateway.url, group, TEXT);
      const { publisher, settle, log } = started({ instance });
      settle("custom", ok(gauge("own", 7)));
      await eventually(() => groups()).toHaveLength(others.length + GROUPS.length);
      const now = await groups();
      expect(now).toEqual(expect.arrayContaining([...others]));
      expect(now).toEqual(expect.arrayContaining(GROUPS.map((probe) => ({ job: JOB, instance, probe }))));
      expect(log.said).toHaveLength(1);
      await publisher.stop();
      const left = await groups();
      expect(left).toHaveLength(others.length);
      expect(left).toEqual(expect.arrayContaining([...others]));
    },
  );

  test("are removed before the first push, also when the gateway comes up only later", async () => {
    const left = { job: JOB, instance: "node1", probe: "nvidia-smi" };
    await push(gateway.url, left, "# TYPE gridmeter_gpu_attached gauge\ngridmeter_gpu_attached 9\n");
    gate.gate = "reset";
    const down = started();
    down.settle("custom", ok(gauge("own", 7)));
    await eventually(() => pushes(down, "failed")).toBeGreaterThan(2);
    expect(gate.seen.every(({ method }) => method === "GET")).toBe(true);
    gate.seen.length = 0;
    gate.gate = "pass";
    await shows("own", "custom").toBe(7);
    expect(gate.seen.slice(0, 3).map(({ method }) => method)).toEqual(["GET", "DELETE", "PUT"]);
    expect(await value("gridmeter_gpu_attached", "nvidia-smi")).toBe(-1);
    expect(down.log.said.map(({ level }) => level)).toEqual(["warn", "info", "info"]);
  });

  test("are pushed by whoever may not list groups, too", async () => {
    const listing = await startGate(gateway.url);
    listing.gate = { status: 403 };
    const refused = started({ url: listing.url });
    await eventually(() => listing.seen.length).toBeGreaterThan(GROUPS.length);
    listing.gate = "pass";
    refused.settle("custom", ok(gauge("own", 7)));
    await shows("own", "custom").toBe(7);
    expect(refused.log.said.map(({ text }) => text)).toContain(
      "what an earlier agent left on the Pushgateway may still be there",
    );
    await refused.publisher.stop();
    await listing.stop();
  });

  test.each([
    ["answers 502", { status: 502 }],
    ["is no list", { status: 200 }],
    ["hangs", "hang"],
  ] as const)("are pushed though the list of all groups, and nothing else, %s", async (_, fault) => {
    await push(gateway.url, { job: JOB, instance: "node1", probe: "custom" }, "# TYPE old gauge\nold 1\n");
    const listing = await startGate(gateway.url);
    listing.lists = fault;
    const own = started({ url: listing.url, deadline: fault === "hang" ? 1 : 10 });
    await eventually(() => probesOf()).toHaveLength(GROUPS.length);
    expect(await value("old", "custom")).toBe(-1);
    own.settle("custom", ok(gauge("own", 7)));
    await shows("own", "custom").toBe(7);
    await own.publisher.stop();
    await listing.stop();
  });

  test("are given up at the end when the gateway hangs, in the time there is", async () => {
    const { publisher, settle, log } = started();
    settle("custom", ok(gauge("own", 7)));
    await shows("own", "custom").toBe(7);
    gate.gate = "hang";
    settle("custom", ok(gauge("own", 8)));
    const from = performance.now();
    await publisher.stop(1);
    expect(performance.now() - from).toBeLessThan(2_000);
    expect(log.said.at(-1)).toMatchObject({ level: "warn", fields: { groups: GROUPS } });
  });

  test("do not come back by a push that was on its way at the end", async () => {
    const { publisher, settle } = started();
    await eventually(() => probesOf()).toHaveLength(GROUPS.length);
    gate.gate = { seconds: 0.5 };
    for (const probe of PROBES) settle(probe, ok(gauge("own", 7)));
    await publisher.stop();
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expect(await probesOf()).toEqual([]);
  });

  test("are pushed once, and stay, for a single run", async () => {
    const { board, publisher } = agent();
    board.settled("custom", ok(gauge("own", 7)));
    const outcomes = await publisher.publishOnce();
    expect([...outcomes].map(([group, { result }]) => [group, result])).toEqual(GROUPS.map((group) => [group, "ok"]));
    expect(await value("own", "custom")).toBe(7);
    gate.gate = { status: 500 };
    const failed = await agent().publisher.publishOnce();
    expect([...failed].map(([group, { result }]) => [group, result])).toEqual([["nvidia-smi", "failed"]]);
    agents = [];
  });
});

describe("a gateway that fails", () => {
  test.each([
    ["answers 500", { status: 500 }, "failed"],
    ["answers 302", { status: 302 }, "redirected"],
    ["answers 401", { status: 401 }, "refused"],
    ["resets", "reset", "failed"],
    ["hangs", "hang", "timeout"],
  ] as const)(
    "%s for a while: asked by one request at a time, and then only the newest values arrive",
    async (_, fault, result) => {
      const own = started({ deadline: fault === "hang" ? 1 : 10 });
      own.settle("custom", ok(gauge("own", 1)));
      await shows("own", "custom").toBe(1);
      await eventually(() => own.board.exposition()).toContain('gridmeter_push_groups_pending{probe="agent"} 0');
      gate.gate = fault;
      own.settle("custom", ok(gauge("own", 2)));
      await eventually(() => pushes(own, result)).toBeGreaterThan(0);
      // Those that were sent before anybody knew.
      await eventually(() => gate.here).toBeLessThanOrEqual(1);
      gate.most = { all: 0, ofOnePath: 0 };
      const before = pushes(own, result);
      for (let turn = 3; turn <= 30; turn++) {
        own.settle("custom", ok(gauge("own", turn)));
        own.settle("nvidia-smi", nvidia(turn));
      }
      await eventually(() => pushes(own, result)).toBeGreaterThan(before + 1);
      expect(gate.most.all).toBe(1);
      expect(own.board.exposition()).toMatch(/gridmeter_push_groups_pending\{probe="agent"\} [1-4]/);

      gate.seen.length = 0;
      gate.gate = "pass";
      await shows("own", "custom").toBe(30);
      await shows("gridmeter_gpu_attached", "nvidia-smi").toBe(30);
      const values = gate.seen.flatMap(({ body }) => /^own\{.*\} (\d+)$/m.exec(body)?.[1] ?? []);
      expect(new Set(values)).toEqual(new Set(["30"]));
      await eventually(() => own.log.said.at(-1)?.level).toBe("info");
      expect(own.log.said.filter(({ fields }) => "result" in fields && fields.result === result)).toHaveLength(1);
    },
  );

  test("is slow: a group is never on its way twice, and the newest values win", async () => {
    const { settle, board } = started();
    await eventually(() => probesOf()).toHaveLength(GROUPS.length);
    gate.most = { all: 0, ofOnePath: 0 };
    gate.gate = { seconds: 0.25 };
    for (let turn = 1; turn <= 20; turn++) {
      settle("custom", ok(gauge("own", turn)));
      settle("docker-inspect", inspect());
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    settle("custom", run("timeout"));
    await shows("gridmeter_probe_success", "custom").toBe(0);
    await shows("own", "custom").toBe(-1);
    expect(gate.most.ofOnePath).toBe(1);
    expect(gate.most.all).toBeLessThanOrEqual(3);
    expect(pushes({ board } as Agent, "timeout")).toBe(0);
  });

  test("was started again, empty: all groups come back by themselves", async () => {
    const { settle } = started();
    for (const probe of PROBES) settle(probe, ok(gauge("own", 7)));
    await eventually(() => probesOf()).toHaveLength(GROUPS.length);
    gate.gate = "reset";
    settle("custom", ok(gauge("own", 8)));
    await expect
      .poll(() => gate.seen.filter(({ body }) => body.includes('own{probe="custom"} 8')).length)
      .toBeGreaterThan(0);
    for (const probe of GROUPS) await deleteGroup(gateway.url, { job: JOB, instance: "node1", probe });
    gate.gate = "pass";
    await eventually(() => probesOf()).toHaveLength(GROUPS.length);
  });
});

describe("a group whose data the gateway refuses", () => {
  const CLASH = "# TYPE clashing counter\nclashing 1\n";
  const OTHER = { job: "backup", probe: "x" };

  test("shows its account, holds up no other, and has its data as soon as they are taken", async () => {
    await push(gateway.url, OTHER, CLASH);
    const own = started();
    own.settle("custom", ok(gauge("clashing", 1), gauge("own", 7)));
    own.settle("nvidia-smi", nvidia(2));
    await shows("gridmeter_gpu_attached", "nvidia-smi").toBe(2);
    await shows("gridmeter_probe_success", "custom").toBe(1);
    expect(await value("own", "custom")).toBe(-1);
    await eventually(() => pushes(own, "refused")).toBeGreaterThan(2);
    const said = own.log.said.filter(({ level }) => level === "warn");
    expect(said).toHaveLength(1);
    expect(said[0]?.fields).toMatchObject({ group: "custom", status: 400 });
    expect(JSON.stringify(said[0]?.fields)).toContain("clashing");
    await deleteGroup(gateway.url, OTHER);
    await shows("own", "custom").toBe(7);
    expect(own.log.said.at(-1)).toMatchObject({ level: "info", fields: { group: "custom" } });
  });

  test("does not keep the old ones on it", async () => {
    await push(gateway.url, OTHER, CLASH);
    const { settle } = started();
    settle("custom", ok(gauge("own", 7)));
    await shows("own", "custom").toBe(7);
    settle("custom", ok(gauge("own", 8), gauge("clashing", 1)));
    await shows("own", "custom").toBe(-1);
    expect(await probesOf()).toHaveLength(GROUPS.length);
  });

  test("with all it has is removed, and comes back", async () => {
    const clash = "# TYPE gridmeter_probe_success counter\ngridmeter_probe_success 1\n";
    const { settle, board } = started();
    await eventually(() => probesOf()).toHaveLength(GROUPS.length);
    await push(gateway.url, OTHER, clash);
    settle("custom", ok(gauge("own", 7)));
    await eventually(() => probesOf()).toEqual(["agent", "docker-inspect", "nvidia-smi"]);
    await deleteGroup(gateway.url, OTHER);
    await shows("own", "custom").toBe(7);
    expect(board.exposition()).toContain('own{probe="custom"} 7');
  });
});

test("the secret is read again for each push, and a file that is gone is a failure that passes", async () => {
  const folder = mkdtempSync(join(tmpdir(), "gridmeter-publish-"));
  const bearerTokenFile = join(folder, "token");
  writeFileSync(bearerTokenFile, "first\n");
  const own = started({ authorization: authorizationOf({ bearerTokenFile }) });
  await eventually(() => probesOf()).toHaveLength(GROUPS.length);
  expect(new Set(gate.seen.map(({ authorization }) => authorization))).toEqual(new Set(["Bearer first"]));
  rmSync(bearerTokenFile);
  own.settle("custom", ok(gauge("own", 7)));
  await eventually(() => pushes(own, "failed")).toBeGreaterThan(0);
  expect(JSON.stringify(own.log.said)).toContain(bearerTokenFile);
  gate.seen.length = 0;
  writeFileSync(bearerTokenFile, "second\n");
  await shows("own", "custom").toBe(7);
  expect(new Set(gate.seen.map(({ authorization }) => authorization))).toEqual(new Set(["Bearer second"]));
  rmSync(folder, { recursive: true });
});

test("by TLS, only to a gateway whose authority is trusted, over connections that are kept", async () => {
  const folder = mkdtempSync(join(tmpdir(), "gridmeter-publish-"));
  const authority = makeAuthority(folder, "own");
  const secure = await startGate(gateway.url, authority.issue("gateway"));
  const trusting = agent({ url: secure.url, caFile: authority.caFile });
  expect([...(await trusting.publisher.publishOnce()).values()].map(({ result }) => result)).toEqual(
    GROUPS.map(() => "ok"),
  );
  expect(secure.connections).toBe(1);
  const other = agent({ url: secure.url, caFile: makeAuthority(folder, "other").caFile });
  const [failure] = (await other.publisher.publishOnce()).values();
  expect(failure).toMatchObject({ result: "failed", ofGroup: false });
  agents = [];
  await secure.stop();
  rmSync(folder, { recursive: true });
});

test("a CA file that cannot be read is an error at once", () => {
  expect(() => agent({ caFile: "/nowhere/ca.pem" })).toThrow('"/nowhere/ca.pem"');
});
