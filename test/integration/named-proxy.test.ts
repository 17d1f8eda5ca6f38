import { createServer } from "node:http";
import { inspect } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { GridmeterError } from "../../lib/shared/errors.ts";
import { createClient } from "../../lib/accounting/prometheus/client.ts";
import { type FaultProxy, listen, startFaultProxy } from "../support/fault-proxy.ts";

const SECRET = "pr0xyPassword";
const VARIABLES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];
/** A proxy of plain requests, and the port of one that refuses tunnels for TLS. */
let proxy: FaultProxy;
let tunnels: number;
const refusing = createServer().on("connect", (_incoming, socket) => {
  socket.end("HTTP/1.1 403 Forbidden\r\nContent-Length: 8\r\nConnection: close\r\n\r\nnot me\r\n");
});

beforeAll(async () => {
  proxy = await startFaultProxy();
  tunnels = await listen(refusing);
});
afterAll(async () => {
  await proxy.stop();
  refusing.closeAllConnections();
  refusing.close();
});
beforeEach(() => {
  for (const name of VARIABLES) for (const own of [name, name.toLowerCase()]) vi.stubEnv(own, undefined);
});
afterEach(() => vi.unstubAllEnvs());

async function errorOf(url: string): Promise<GridmeterError> {
  const thrown: unknown = await createClient({ url, timeoutSeconds: 10, concurrency: 1 })
    .instant("up", 1)
    .then(
      () => undefined,
      (error: unknown) => error,
    );
  expect(inspect(thrown, { depth: 12 })).not.toContain(SECRET);
  if (thrown instanceof GridmeterError) return thrown;
  throw new Error(`Expected a GridmeterError, got ${String(thrown)}.`);
}

const PLAIN = "http://prometheus.invalid:9090";
const TLS = "https://prometheus.invalid:9090";
const credentials = `user:${SECRET}@`;

describe("the proxy and its variable are named where a request through it fails", () => {
  test.each([
    [403, "prometheus_auth"],
    [405, "prometheus_bad_answer"],
    [407, "prometheus_auth"],
    [502, "prometheus_unavailable"],
  ])("it answers %i", async (status, code) => {
    proxy.set([], { kind: "answer", status, body: "says the proxy" });
    vi.stubEnv("HTTP_PROXY", proxy.url.replace("//", `//${credentials}`));
    const error = await errorOf(PLAIN);
    expect(error.code).toBe(code);
    expect(error.message).toContain(`went through the proxy ${proxy.url} (HTTP_PROXY): see that it lets it pass`);
    expect(error.message).toContain("or name prometheus.invalid in NO_PROXY.");
    expect(proxy.requests[0]?.path).toBe(`${PLAIN}/api/v1/query`);
  });

  test("it shows a page of its own", async () => {
    proxy.set([], { kind: "answer", status: 200, body: "<html>Sign in</html>" });
    vi.stubEnv("http_proxy", proxy.url);
    vi.stubEnv("HTTP_PROXY", "http://other.invalid:1");
    const error = await errorOf(PLAIN);
    expect(error.code).toBe("prometheus_bad_answer");
    expect(error.message).toContain(`the proxy ${proxy.url} (http_proxy)`);
  });

  test("it does not answer in time", async () => {
    proxy.set([], { kind: "hang" });
    vi.stubEnv("ALL_PROXY", proxy.url);
    const answer = createClient({ url: PLAIN, timeoutSeconds: 0.3, concurrency: 1 }).instant("up", 1);
    await expect(answer).rejects.toMatchObject({
      code: "prometheus_too_large",
      message: expect.stringContaining(`the proxy ${proxy.url} (ALL_PROXY)`),
    });
  });

  test("it lets no TLS through", async () => {
    vi.stubEnv("HTTPS_PROXY", `http://${credentials}127.0.0.1:${tunnels}`);
    const error = await errorOf(TLS);
    expect(error.code).toBe("prometheus_auth");
    expect(error.message).toContain('answered 403 to POST: "not me", so it was asked by GET');
    expect(error.message).toContain(`the proxy http://127.0.0.1:${tunnels} (HTTPS_PROXY)`);
  });

  test.each([
    ["HTTP_PROXY", PLAIN, "http://127.0.0.1:1"],
    ["HTTPS_PROXY", TLS, "http://127.0.0.1:1"],
    ["https_proxy", TLS, "http://127.0.0.1:1/"],
    ["all_proxy", TLS, "http://127.0.0.1:1"],
    ["HTTP_PROXY", PLAIN, "127.0.0.1:1"],
    ["HTTP_PROXY", PLAIN, `${credentials}127.0.0.1:1`],
  ])("%s, for %s, of %s, where nobody listens", async (variable, url, value) => {
    vi.stubEnv(variable, value);
    const error = await errorOf(url);
    expect(error.code).toBe("prometheus_unreachable");
    expect(error.message).toContain("ECONNREFUSED");
    expect(error.message).toContain(`the proxy http://127.0.0.1:1 (${variable}): see`);
  });

  test.each([
    ["HTTP_PROXY", PLAIN, `socks5://${credentials}127.0.0.1:1`, "socks5://127.0.0.1:1"],
    ["HTTP_PROXY", PLAIN, `http://${credentials}proxy:99999`, "http://proxy:99999"],
    ["ALL_PROXY", TLS, `http://${credentials}proxy:99999`, "http://proxy:99999"],
    ["HTTPS_PROXY", TLS, "http://", "http:"],
  ])("%s, for %s, of %s, which is no address of one", async (variable, url, value, shown) => {
    vi.stubEnv(variable, value);
    const error = await errorOf(url);
    expect(error.code).toBe("config_invalid");
    expect(error.message).toContain(`${variable} names the proxy "${shown}", which cannot be used`);
    expect(error.message).toContain("Nothing was published. Write it as http://host:port, or name prometheus.invalid");
  });

  test("a proxy of another kind is said to be one", async () => {
    vi.stubEnv("ALL_PROXY", "socks5://127.0.0.1:1");
    expect((await errorOf(TLS)).message).toContain("(ALL_PROXY), which is no http:// or https:// proxy");
  });
});

describe("no proxy is named where none was used", () => {
  test.each([
    ["HTTPS_PROXY", "http://127.0.0.1:1", undefined],
    ["HTTP_PROXY", "http://127.0.0.1:1", "127.0.0.1"],
    ["HTTP_PROXY", "http://127.0.0.1:1", "10.0.0.0/8, 127.0.0.0/8"],
    ["ALL_PROXY", "http://127.0.0.1:1", "*"],
    ["HTTP_PROXY", "", undefined],
  ])("%s=%s, NO_PROXY=%s", async (variable, value, noProxy) => {
    const server = await startFaultProxy();
    server.set([], { kind: "answer", status: 403, body: "no" });
    vi.stubEnv(variable, value);
    vi.stubEnv("NO_PROXY", noProxy);
    const error = await errorOf(server.url);
    expect(error.message).toContain("answered 403 to POST");
    expect(error.message).not.toMatch(/proxy/i);
    await server.stop();
  });
});
