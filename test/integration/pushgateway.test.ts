// lib/pushgateway against the real Pushgateway, and against servers that misbehave as ones on the way do.
import { createServer } from "node:http";
import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import { inspect } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { GridmeterError } from "../../lib/shared/errors.ts";
import { type Grouping, deleteGroup, push } from "../../lib/shared/pushgateway.ts";
import { listGroups, reap } from "../../lib/shared/pushgateway-groups.ts";
import { listen } from "../support/fault-proxy.ts";
import { startPushgateway } from "../support/pushgateway-server.ts";
import type { PushgatewayServer } from "../support/pushgateway-server.ts";

const now = (): number => Math.floor(Date.now() / 1000);
const TEXT = "# TYPE probe_up gauge\nprobe_up 1\n";
const AGENT = "gridmeter_agent";

async function failure(promise: Promise<unknown>): Promise<GridmeterError> {
  const thrown = await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (thrown instanceof GridmeterError) return thrown;
  throw new Error(`no GridmeterError, but ${String(thrown)}`);
}

describe("the real Pushgateway", () => {
  let gateway: PushgatewayServer;
  /** the gateway with a clock that is so many seconds ahead, or (undefined) does not say what time it is */
  let shifted: string;
  let shift: number | undefined;
  const answerShifted = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const answer = await fetch(`${gateway.url}${request.url}`, { method: request.method! });
    response.sendDate = false;
    const date = shift === undefined ? {} : { date: new Date(Date.now() + shift * 1000).toUTCString() };
    response.writeHead(answer.status, date).end(Buffer.from(await answer.arrayBuffer()));
  };
  const before = createServer((request, response) => void answerShifted(request, response));
  beforeAll(async () => {
    gateway = await startPushgateway();
    shifted = `http://127.0.0.1:${await listen(before)}`;
  });
  afterAll(async () => {
    before.close();
    await gateway.stop();
  });
  afterEach(async () => {
    for (const { grouping } of await listGroups(gateway.url)) await deleteGroup(gateway.url, grouping);
  });

  const groupings = async (): Promise<Grouping[]> => (await listGroups(gateway.url)).map(({ grouping }) => grouping);

  const nasty: readonly Grouping[] = [
    { job: AGENT, instance: "node1", probe: "docker-ps" },
    { job: AGENT, instance: "a/b//c", probe: "x" },
    { job: AGENT, instance: "", probe: "" },
    { job: AGENT, instance: ".", probe: ".." },
    { job: AGENT, instance: "Kölner Knoten ☃ 🖥", probe: "日本" },
    { job: AGENT, instance: '50% + "quoted" \\ = & ? # @base64', probe: "new\nline" },
    { job: "gridmeter/agent ü", probe: "x" },
  ];

  test.each(nasty)("%o is pushed, listed and deleted exactly", async (grouping) => {
    await push(gateway.url, { job: AGENT, instance: "beside" }, TEXT);
    await push(gateway.url, grouping, TEXT);
    const listed = (await listGroups(gateway.url)).find((group) => group.grouping["instance"] !== "beside")!;
    expect(listed.grouping).toEqual(grouping);
    expect(Math.abs(listed.pushedAt - now())).toBeLessThan(5);
    await deleteGroup(gateway.url, listed.grouping);
    // The gateway accepts a deletion before it is done.
    await expect.poll(groupings).toEqual([{ job: AGENT, instance: "beside" }]);
  });

  test("PUT replaces the group, POST only the metrics that it names", async () => {
    const group = { job: AGENT, probe: "a" };
    await push(gateway.url, group, "# TYPE one gauge\none 1\n# TYPE two gauge\ntwo 2\n");
    await push(gateway.url, group, "# TYPE two gauge\ntwo 3\n", { method: "POST" });
    expect(await gateway.metrics()).toMatch(/^one\{.*\} 1$/m);
    expect(await gateway.metrics()).toMatch(/^two\{.*\} 3$/m);
    await push(gateway.url, group, "# TYPE two gauge\ntwo 4\n");
    expect(await gateway.metrics()).not.toMatch(/^one\{/m);
    expect(await gateway.metrics()).toMatch(/^two\{.*\} 4$/m);
  });

  test("what the gateway says about metrics that it does not take is in the error", async () => {
    await push(gateway.url, { job: AGENT, probe: "a" }, TEXT);
    const clash = await failure(push(gateway.url, { job: AGENT, probe: "b" }, "# TYPE probe_up counter\nprobe_up 1\n"));
    expect(clash).toMatchObject({ code: "pushgateway_failed", retryable: true });
    expect(clash.message).toContain("answered 400");
    expect(clash.message).toMatch(/probe_up.*is not a (COUNTER|GAUGE)/s);
    const torn = await failure(push(gateway.url, { job: AGENT, probe: "c" }, "probe_up"));
    expect(torn.message).toContain("answered 400");
  });

  test("reap deletes the agents' old groups, and no other", async () => {
    const dead = nasty.filter(({ job, probe }) => job === AGENT && probe !== undefined);
    const others: readonly Grouping[] = [
      { job: AGENT },
      { job: AGENT, instance: "node1" },
      { job: `${AGENT}2`, instance: "node1", probe: "docker-ps" },
      { job: "gridmeter_accounting", site: "A", submit_host: "B", period: "current" },
      { job: "gridmeter_accounting", probe: "of somebody else" },
      { job: "backup", probe: "x" },
    ];
    for (const group of [...dead, ...others]) await push(gateway.url, group, TEXT);
    const options = { job: AGENT, requireLabel: "probe", olderThanSeconds: 60 };
    shift = 0;
    expect(await reap(shifted, { ...options, now: now() })).toEqual([]);
    expect(await groupings()).toHaveLength(dead.length + others.length);

    shift = 120;
    const later = now() + 120;
    const would = await reap(shifted, { ...options, now: later, dryRun: true });
    expect(would.map(({ grouping }) => grouping)).toEqual(expect.arrayContaining([...dead]));
    expect(await groupings()).toHaveLength(dead.length + others.length);

    const deleted = await reap(shifted, { ...options, now: later });
    expect(deleted.map(({ grouping }) => grouping)).toEqual(would.map(({ grouping }) => grouping));
    expect(deleted).toHaveLength(dead.length);
    await expect.poll(async () => (await groupings()).length).toBe(others.length);
    expect(await groupings()).toEqual(expect.arrayContaining([...others]));
  });

  test("neither a reaper's clock nor a proxy's that is hours ahead makes a living agent dead", async () => {
    await push(gateway.url, { job: AGENT, probe: "a" }, TEXT);
    const options = { job: AGENT, requireLabel: "probe", olderThanSeconds: 60, now: now() + 5 * 3600 };
    expect(await reap(gateway.url, options)).toEqual([]);
    shift = 5 * 3600;
    expect(await reap(shifted, { ...options, now: now() })).toEqual([]);
    // Behind something that takes the time out of the answer, the reaper's clock is all there is.
    shift = undefined;
    expect(await reap(shifted, { ...options, dryRun: true })).toHaveLength(1);
  });

  test("a push that was refused is no sign of life", async () => {
    const group = { job: AGENT, probe: "a" };
    await push(gateway.url, { job: "other" }, "# TYPE taken counter\ntaken 1\n");
    await push(gateway.url, group, TEXT);
    const pushed = (await listGroups(gateway.url)).find(({ grouping }) => grouping["job"] === AGENT)!.pushedAt;
    await new Promise((resolve) => setTimeout(resolve, 1100));
    await failure(push(gateway.url, group, "# TYPE taken gauge\ntaken 1\n"));
    const options = { job: AGENT, requireLabel: "probe", olderThanSeconds: 0.5 };
    shift = undefined;
    expect(await reap(shifted, { ...options, now: pushed + 0.4 })).toEqual([]);
    expect(await reap(shifted, { ...options, now: pushed + 0.6 })).toHaveLength(1);
  });

  test("a group whose metric is called as its key is deleted by it, or left where it cannot be told", async () => {
    const odd = '# TYPE labels gauge\nlabels{job="x"} 1\n# TYPE data gauge\ndata 1\n';
    const mine = { job: AGENT, instance: "node/1 ü", probe: "custom" };
    await push(gateway.url, mine, odd);
    await push(gateway.url, { job: AGENT, probe: "custom" }, odd);
    await push(gateway.url, { job: "other", instance: "1" }, odd);
    const options = { job: AGENT, requireLabel: "probe", olderThanSeconds: 60, now: now() + 120 };
    shift = 120;
    expect((await reap(shifted, options)).map(({ grouping }) => grouping)).toEqual([mine]);
    const left = async () => (await gateway.metrics()).split("\n").filter((line) => line.startsWith("data{")).length;
    await expect.poll(left).toBe(2);
    await deleteGroup(gateway.url, { job: AGENT, probe: "custom" });
  });

  test("a group that does not exist is deleted without an error", async () => {
    await deleteGroup(gateway.url, { job: "nobody", probe: "x" });
    expect(await groupings()).toEqual([]);
  });
});

describe("what stands between", () => {
  let server: Server;
  let url: string;
  let handler: RequestListener;
  let seen: { method: string | undefined; path: string | undefined; authorization: string | undefined }[];
  beforeEach(async () => {
    seen = [];
    server = createServer((request, response) => {
      seen.push({ method: request.method, path: request.url, authorization: request.headers.authorization });
      handler(request, response);
    });
    url = `http://127.0.0.1:${await listen(server)}`;
  });
  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });

  test.each([301, 302, 307, 308])("a redirect %i is an error and is not followed", async (status) => {
    handler = (_request, response) => response.writeHead(status, { location: "/elsewhere" }).end();
    const error = await failure(push(url, { job: "a" }, TEXT));
    expect(error.message).toContain(`answered ${status}`);
    expect(seen).toHaveLength(1);
  });

  test("an answer that is none and changes the protocol is an error by the deadline", async () => {
    handler = (_request, response) =>
      response.socket?.end("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    const started = performance.now();
    const error = await failure(push(url, { job: "a" }, TEXT, { deadlineMs: 400 }));
    expect(error).toMatchObject({ code: "pushgateway_failed" });
    expect(performance.now() - started).toBeLessThan(2000);
  });

  test("the deadline is for the whole exchange, though bytes keep coming", async () => {
    handler = (_request, response) => {
      response.writeHead(200);
      const timer = setInterval(() => response.write(" "), 50);
      response.on("close", () => clearInterval(timer));
    };
    const started = performance.now();
    const error = await failure(push(url, { job: "a" }, TEXT, { deadlineMs: 400 }));
    expect(error.message).toContain("did not answer within 0.4 s");
    expect(performance.now() - started).toBeLessThan(2000);
  });

  test("an answer without end is broken off", async () => {
    handler = (_request, response) => {
      response.writeHead(200);
      for (let megabytes = 0; megabytes < 3; megabytes += 1) response.write(Buffer.alloc(2 ** 20));
    };
    expect(await failure(push(url, { job: "a" }, TEXT))).toMatchObject({ failure: "failed", status: 200 });
  });

  test("a server that is gone, resets, or is no gateway", async () => {
    handler = (request) => request.socket.resetAndDestroy();
    expect((await failure(push(url, { job: "a" }, TEXT))).message).toContain("could not be reached");
    expect(await failure(listGroups(url))).toMatchObject({ failure: "failed", status: undefined });
    handler = (_request, response) => response.writeHead(200).end("<html>");
    const page = await failure(listGroups(url));
    expect(page).toMatchObject({ failure: "failed", status: 200 });
    expect(page.message).toContain('did not answer with a list of groups: it is no JSON: "<html>"');
    handler = (_request, response) => response.writeHead(200).end('{"status":"success"}');
    expect((await failure(listGroups(url))).message).toContain("another shape");
    handler = (_request, response) =>
      response.writeHead(503, { "content-length": 5 }).end("write queue is full".slice(0, 5));
    expect(await failure(listGroups(url))).toMatchObject({ failure: "failed", status: 503 });
    handler = (_request, response) => response.writeHead(302, { location: "/elsewhere" }).end();
    expect(await failure(listGroups(url))).toMatchObject({ failure: "redirected", status: 302 });
    handler = (_request, response) => void response.writeHead(200).write('{"status"');
    const slow = await failure(listGroups(url, { deadlineMs: 300 }));
    expect(slow).toMatchObject({ failure: "timeout", status: 200 });
    expect(slow.message).toContain("did not answer within 0.3 s");
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    expect((await failure(push(url, { job: "a" }, TEXT))).message).toContain("could not be reached");
  });

  test("a proxy of the environment is used, unless the gateway needs none", async () => {
    handler = (_request, response) => response.writeHead(202).end();
    vi.stubEnv("HTTP_PROXY", url);
    vi.stubEnv("NO_PROXY", "127.0.0.1");
    await push("http://pushgateway.example.org:9091", { job: "a" }, TEXT);
    await push(url, { job: "b" }, TEXT);
    vi.unstubAllEnvs();
    expect(seen.map(({ path }) => path)).toEqual([
      "http://pushgateway.example.org:9091/metrics/job/a",
      "/metrics/job/b",
    ]);
  });

  test("a proxy that refuses is named with its variable, and its password is in no error", async () => {
    handler = (request, response) => response.writeHead(407).end(`no: ${request.headers["proxy-authorization"]}`);
    server.on("connect", (_request, socket) => socket.end("HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n"));
    const written = url.replace("http://", "http://agent:s3cret@");
    for (const [variable, scheme] of [
      ["HTTP_PROXY", "http"],
      ["HTTPS_PROXY", "https"],
    ] as const) {
      vi.stubEnv(variable, written);
      const error = await failure(push(`${scheme}://pushgateway.example.org:9091`, { job: "a" }, TEXT));
      expect(error.message).toContain(`went through the proxy ${url} (${variable})`);
      const basic = Buffer.from("agent:s3cret").toString("base64");
      for (const secret of ["s3cret", basic]) expect(inspect(error, { depth: 12 })).not.toContain(secret);
    }
    vi.stubEnv("HTTP_PROXY", "http://agent:s3cret@:0:0");
    const unusable = await failure(push("http://pushgateway.example.org:9091", { job: "a" }, TEXT));
    expect(unusable).toMatchObject({ code: "config_invalid" });
    expect(unusable.message).toContain("HTTP_PROXY names the proxy");
    expect(inspect(unusable, { depth: 12 })).not.toContain("s3cret");
    vi.unstubAllEnvs();
    expect((await failure(push(url, { job: "a" }, TEXT))).message).not.toContain("proxy http");
  });

  test("user and password of the URL, or a header; neither is ever in an error", async () => {
    handler = (_request, response) => response.writeHead(401).end("go away");
    const secret = url.replace("http://", "http://agent:s3cret%2F@");
    const basic = await failure(push(`${secret}/prefix/`, { job: "a" }, TEXT));
    const bearer = await failure(push(url, { job: "a" }, TEXT, { authHeader: "Bearer t0ken" }));
    expect(seen).toEqual([
      {
        method: "PUT",
        path: "/prefix/metrics/job/a",
        authorization: `Basic ${Buffer.from("agent:s3cret/").toString("base64")}`,
      },
      { method: "PUT", path: "/metrics/job/a", authorization: "Bearer t0ken" },
    ]);
    for (const error of [basic, bearer]) {
      expect(error.message).toContain("answered 401 (go away)");
      expect(JSON.stringify([error.message, error.cause, error.stack])).not.toMatch(/s3cret|t0ken/);
    }
    const malformed = await failure(push("gateway:s3cret@nowhere", { job: "a" }, TEXT));
    expect(malformed).toMatchObject({ code: "config_invalid" });
    expect(malformed.message).not.toContain("s3cret");
  });

  const group = (probe: string, value = "1e9", of = probe) => ({
    labels: { job: AGENT, probe },
    push_time_seconds: { metrics: [{ value, labels: { instance: "", job: AGENT, probe: of } }] },
  });
  const listOf = (...data: readonly object[]) => JSON.stringify({ status: "success", data });

  test.each([
    ["is cut off, and ends well", listOf(group("a"), group("b")).slice(0, -30), false],
    ["is cut off behind a group", listOf(group("a"), group("b")).slice(0, -2), false],
    ["breaks", listOf(group("a"), group("b")).slice(0, -2), true],
    [
      "lacks a piece in the middle, so that one group has another's time",
      listOf(group("a"), group("b", "1e9", "c")),
      false,
    ],
    ["has a group without a key", listOf(group("a"), { push_time_seconds: { metrics: [{ value: "1e9" }] } }), false],
    ["has a group without a time", listOf(group("a"), { labels: { job: AGENT, probe: "b" } }), false],
    ["has a group with another time", listOf(group("a"), group("b", "")), false],
  ])("nothing is deleted when the list of groups %s", async (_, text, breaks) => {
    handler = (request, response) => {
      if (request.method !== "GET") return void response.writeHead(202).end();
      response.writeHead(200).write(text, () => (breaks ? response.destroy() : response.end()));
    };
    const error = await failure(reap(url, { job: AGENT, requireLabel: "probe", olderThanSeconds: 60, now: now() }));
    expect(error).toMatchObject({ code: "pushgateway_failed", failure: "failed", status: 200 });
    expect(error.message).toContain("none was deleted");
    expect(seen.map(({ method }) => method)).toEqual(["GET"]);
  });

  test("groups that cannot be deleted are told of after the others were", async () => {
    handler = (request, response) => {
      if (request.method === "GET") response.writeHead(200).end(listOf(group("a"), group("b"), group("c")));
      else response.writeHead(request.url?.endsWith("/b") === true ? 500 : 202).end();
    };
    const error = await failure(reap(url, { job: AGENT, requireLabel: "probe", olderThanSeconds: 60, now: now() }));
    expect(error.message).toContain("1 of 3 groups");
    expect(seen.filter(({ method }) => method === "DELETE").map(({ path }) => path?.at(-1))).toEqual(["a", "b", "c"]);
  });
});
