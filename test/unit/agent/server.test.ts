import { once } from "node:events";
import { type IncomingHttpHeaders, request } from "node:http";
import { createConnection, type Socket } from "node:net";
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { gunzipSync } from "node:zlib";
import { type AgentServer, type ServerOptions, parseAddress, startServer } from "../../../lib/agent/server.ts";
import { GridmeterError } from "../../../lib/shared/errors.ts";
import { keptLog } from "../../support/agent-parts.ts";

const TEXT = `# TYPE a gauge\n${Array.from({ length: 200 }, (_, index) => `a{n="${index}"} ${index}\n`).join("")}`;

let server: AgentServer;
let log: ReturnType<typeof keptLog>;
let options: ServerOptions;
beforeEach(async () => {
  log = keptLog();
  options = {
    listen: "127.0.0.1:0",
    exposition: () => TEXT,
    health: () => ({ healthy: true, stalled: [] }),
    readiness: () => ({ ready: true, late: [] }),
    log,
    requestLimit: 0.5,
    idleLimit: 0.5,
  };
  server = await startServer({
    ...options,
    exposition: () => options.exposition(),
    health: () => options.health(),
    readiness: () => options.readiness(),
  });
});
afterEach(() => server.stop());

type Reply = { readonly status: number; readonly headers: IncomingHttpHeaders; readonly body: Buffer };

/** Without fetch, which unpacks by itself. */
async function ask(path: string, method = "GET", headers: Record<string, string> = {}, body?: string): Promise<Reply> {
  const sent = request(`${server.url}${path}`, { method, headers, agent: false });
  sent.end(body);
  const [response] = await once(sent, "response");
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  return { status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks) };
}

describe("/metrics", () => {
  test("is Prometheus' text, and packed for whom takes it so", async () => {
    const plain = await ask("/metrics?x=1");
    expect(plain.status).toBe(200);
    expect(plain.headers["content-type"]).toBe("text/plain; version=0.0.4; charset=utf-8");
    expect(plain.headers["content-encoding"]).toBeUndefined();
    expect(plain.body.toString()).toBe(TEXT);
    const packed = await ask("/metrics", "GET", { "accept-encoding": "deflate, gzip;q=0.8" });
    expect(packed.headers["content-encoding"]).toBe("gzip");
    expect(packed.body.length).toBeLessThan(plain.body.length / 3);
    expect(gunzipSync(packed.body).toString()).toBe(TEXT);
    const refused = await ask("/metrics", "GET", { "accept-encoding": "gzip;q=0, identity" });
    expect(refused.headers["content-encoding"]).toBeUndefined();
  });

  test("HEAD has the same headers and no body", async () => {
    const head = await ask("/metrics", "HEAD");
    expect(head.status).toBe(200);
    expect(head.headers["content-length"]).toBe(String(Buffer.byteLength(TEXT)));
    expect(head.body).toHaveLength(0);
  });

  test("is answered to many at the same time", async () => {
    const replies = await Promise.all(Array.from({ length: 50 }, () => ask("/metrics")));
    expect(replies.every(({ status, body }) => status === 200 && body.toString() === TEXT)).toBe(true);
  });

  test("a fault while it is made is a 500 and said, and the next is answered", async () => {
    options = {
      ...options,
      exposition: () => {
        throw new Error("no text");
      },
    };
    const broken = await ask("/metrics");
    expect([broken.status, broken.body.toString()]).toEqual([500, "The answer could not be made: no text\n"]);
    expect(log.said).toMatchObject([{ level: "error", fields: { error: "no text", path: "/metrics" } }]);
    options = { ...options, exposition: () => TEXT };
    expect((await ask("/metrics")).status).toBe(200);
  });
});

describe("/healthz and /readyz", () => {
  test("200 or 503, and what stands still or is late in the body", async () => {
    expect((await ask("/healthz")).status).toBe(200);
    expect((await ask("/readyz")).status).toBe(200);
    options = {
      ...options,
      health: () => ({ healthy: false, stalled: ["ps"] }),
      readiness: () => ({ ready: false, late: [{ probe: "iftop", result: "pending" }] }),
    };
    const [health, ready] = [await ask("/healthz"), await ask("/readyz")];
    expect([health.status, JSON.parse(health.body.toString())]).toEqual([503, { healthy: false, stalled: ["ps"] }]);
    expect([ready.status, JSON.parse(ready.body.toString())]).toEqual([
      503,
      { ready: false, late: [{ probe: "iftop", result: "pending" }] },
    ]);
    expect(ready.headers["content-type"]).toBe("application/json");
  });
});

describe("anything else", () => {
  test.each(["/", "/metrics/", "/metricsx", "//metrics", "/%6Detrics"])("%s is a 404", async (path) => {
    expect((await ask(path)).status).toBe(404);
  });

  test.each(["POST", "PUT", "DELETE", "OPTIONS"])("%s is a 405", async (method) => {
    const reply = await ask("/metrics", method, {}, "x".repeat(100_000));
    expect(reply.status).toBe(405);
    expect(reply.headers.allow).toBe("GET, HEAD");
  });

  test("nonsense is refused, and a client that says nothing is cut off without harm", async () => {
    const { port, hostname } = new URL(server.url);
    const connect = () => createConnection({ port: Number(port), host: hostname });
    const nonsense = connect();
    nonsense.end("HELLO\r\n\r\n");
    const [answer] = await once(nonsense, "data");
    expect(String(answer)).toContain("400 Bad Request");
    const silent = Array.from({ length: 20 }, connect);
    const cut = silent.map((socket) => {
      socket.on("error", () => undefined);
      socket.resume();
      return once(socket, "close");
    });
    for (const socket of silent) socket.write("GET /metrics HTTP/1.1\r\nHost: x\r\n");
    expect((await ask("/metrics")).status).toBe(200);
    await Promise.all(cut);
  });
});

describe("a crowd of connections", () => {
  let sockets: Socket[] = [];
  afterEach(() => sockets.forEach((socket) => socket.destroy()));

  /** Connections from one address, of those that all lead to this machine. */
  async function open(count: number, from: string, send = ""): Promise<readonly Socket[]> {
    const { port, hostname } = new URL(server.url);
    const opened = Array.from({ length: count }, () =>
      createConnection({ port: Number(port), host: hostname, localAddress: from }),
    );
    sockets.push(...opened);
    for (const socket of opened) {
      socket.on("error", () => undefined);
      if (send !== "") socket.write(send);
      socket.resume();
    }
    await Promise.all(opened.map((socket) => once(socket, "connect")));
    return opened;
  }

  const openOf = (all: readonly Socket[]): number => all.filter((socket) => !socket.destroyed).length;

  beforeEach(async () => {
    sockets = [];
    await server.stop();
    server = await startServer({ ...options, requestLimit: 30, idleLimit: 30 });
  });

  const PARTIAL = "GET /metrics HTTP/1.1\r\nHost: x\r\n";
  const KEPT = `${PARTIAL}\r\n`;

  test.each([
    ["silent", ""],
    ["with half a request", PARTIAL],
    ["kept after an answer", KEPT],
  ])("%s, from one address: it keeps its share, and all others are answered", async (_, send) => {
    const crowd = await open(230, "127.0.0.9", send);
    expect((await ask("/healthz")).status).toBe(200);
    expect((await ask("/metrics")).status).toBe(200);
    await expect.poll(() => openOf(crowd), { timeout: 10_000 }).toBe(50);
    expect(crowd.slice(-50).every((socket) => !socket.destroyed)).toBe(true);
  });

  test("from the very address of the liveness check: the check is answered", async () => {
    const crowd = await open(230, "127.0.0.1");
    for (let check = 0; check < 5; check++) expect((await ask("/healthz")).status).toBe(200);
    await expect.poll(() => openOf(crowd), { timeout: 10_000 }).toBeLessThanOrEqual(50);
  });

  test("from many addresses: the one that has been idle longest gives way", async () => {
    const [kept] = await open(1, "127.0.0.2", KEPT);
    const crowds: Socket[] = [];
    for (let from = 10; from < 20; from++) crowds.push(...(await open(40, `127.0.0.${from}`)));
    expect((await ask("/healthz")).status).toBe(200);
    await expect.poll(() => openOf(crowds), { timeout: 10_000 }).toBeLessThanOrEqual(200);
    expect(kept?.destroyed).toBe(true);
    expect(openOf(crowds.slice(0, 100))).toBe(0);
    expect(openOf(crowds.slice(-100))).toBe(100);
  });

  test("who does not read its answers gives way too", async () => {
    options = { ...options, exposition: () => "x".repeat(2 ** 22) };
    await server.stop();
    server = await startServer({ ...options, requestLimit: 30, idleLimit: 30 });
    const { port, hostname } = new URL(server.url);
    for (let index = 0; index < 60; index++) {
      const socket = createConnection({ port: Number(port), host: hostname, localAddress: "127.0.0.9" });
      sockets.push(socket);
      socket.on("error", () => undefined);
      socket.pause();
      await once(socket, "connect");
      socket.write(KEPT);
    }
    expect((await ask("/healthz")).status).toBe(200);
    const later = await open(1, "127.0.0.9", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(String(await once(later[0]!, "data"))).toContain("200 OK");
  });

  test("drawn: however connections come and what they do, the next question is answered", async () => {
    const doing = fc.constantFrom("", PARTIAL, KEPT, "\r\n", "nonsense\r\n\r\n");
    const wave = fc.record({
      count: fc.integer({ min: 1, max: 120 }),
      from: fc.integer({ min: 1, max: 4 }),
      send: doing,
    });
    await fc.assert(
      fc.asyncProperty(fc.array(wave, { minLength: 1, maxLength: 4 }), async (waves) => {
        for (const { count, from, send } of waves) await open(count, `127.0.0.${from}`, send).catch(() => []);
        expect((await ask("/healthz")).status).toBe(200);
        expect(await connectionsOf()).toBeLessThanOrEqual(201);
      }),
      { numRuns: 8 },
    );
  });

  /** Those that the clients know of as open. */
  const connectionsOf = async (): Promise<number> => {
    await expect.poll(() => openOf(sockets), { timeout: 10_000 }).toBeLessThanOrEqual(201);
    return openOf(sockets);
  };

  test("a connection answers so many requests and no more", async () => {
    const [one] = await open(1, "127.0.0.3");
    let answers = "";
    one!.on("data", (chunk: Buffer) => (answers += chunk.toString("latin1")));
    one!.write("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1_001));
    await expect.poll(() => answers.split("HTTP/1.1 ").length - 1, { timeout: 20_000 }).toBe(1_001);
    expect(answers.split("HTTP/1.1 200 OK").length - 1).toBe(1_000);
    expect(answers.split("Connection: close").length - 1).toBe(2);
    one!.destroy();
  });
});

test("a client that does not read what it asked for is cut off", async () => {
  options = { ...options, exposition: () => "x".repeat(2 ** 26) };
  const { port, hostname } = new URL(server.url);
  const socket = createConnection({ port: Number(port), host: hostname });
  socket.on("error", () => undefined);
  socket.pause();
  socket.write("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  // The server's end is in this process as well: of the two sockets only the client's is left.
  const sockets = () => process.getActiveResourcesInfo().filter((name) => name === "TCPSocketWrap").length;
  await expect.poll(sockets, { timeout: 20_000 }).toBe(2);
  await expect.poll(sockets, { timeout: 20_000 }).toBe(1);
  const closed = once(socket, "close");
  let bytes = 0;
  socket.on("data", (chunk: Buffer) => (bytes += chunk.length));
  socket.resume();
  await closed;
  expect(bytes).toBeGreaterThan(0);
  expect(bytes).toBeLessThan(2 ** 26);
});

describe("where it listens", () => {
  test.each([
    ["127.0.0.1:9102", { host: "127.0.0.1", port: 9102 }],
    [":9102", { port: 9102 }],
    ["[::1]:0", { host: "::1", port: 0 }],
    ["[fe80::1%eth0]:9102", { host: "fe80::1%eth0", port: 9102 }],
    ["node-1.example.org:80", { host: "node-1.example.org", port: 80 }],
  ])("%s", (text, address) => {
    expect(parseAddress(text)).toEqual(address);
  });

  test.each(["", "9102", "host", "host:", "::1:9102", ":65536", ":-1", ":1e3", "http://x:1", "[::1", "a b:1"])(
    "%s is refused",
    (text) => {
      expect(() => parseAddress(text)).toThrow(GridmeterError);
      expect(() => parseAddress(text)).toThrow(`"${text}" is no address`);
    },
  );

  test("a port that is taken is an error that says so", async () => {
    const { host } = new URL(server.url);
    const thrown = await startServer({ ...options, listen: host }).catch((error: unknown) => error);
    expect(thrown).toBeInstanceOf(GridmeterError);
    expect(thrown).toMatchObject({ code: "config_invalid" });
    expect(String(thrown)).toMatch(new RegExp(`cannot listen on "${host}".*EADDRINUSE`));
  });

  test("IPv6 and all addresses", async () => {
    for (const listen of ["[::1]:0", ":0"]) {
      const other = await startServer({ ...options, listen });
      const port = new URL(other.url).port;
      expect((await fetch(`http://[::1]:${port}/healthz`)).status).toBe(200);
      await other.stop();
    }
  });
});

test("stop ends it at once though clients are connected", async () => {
  const { port, hostname } = new URL(server.url);
  const socket = createConnection({ port: Number(port), host: hostname });
  await once(socket, "connect");
  socket.on("error", () => undefined);
  const closed = once(socket, "close");
  await server.stop();
  socket.resume();
  await closed;
  await expect(ask("/metrics")).rejects.toThrow("ECONNREFUSED");
});
