import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createTlsServer } from "node:https";
import { createServer as createTcpServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { GridmeterError } from "../../lib/shared/errors.ts";
import { type Connection, createClient } from "../../lib/accounting/prometheus/client.ts";
import { type Fault, type FaultProxy, listen, prometheusError, startFaultProxy } from "../support/fault-proxy.ts";

const SECRET = "s3cretT0ken";
let proxy: FaultProxy;
const folder = mkdtempSync(join(tmpdir(), "gridmeter-failures-"));

beforeAll(async () => {
  proxy = await startFaultProxy();
});
afterAll(async () => {
  await proxy.stop();
  rmSync(folder, { recursive: true, force: true });
});

function connection(changes: Partial<Connection> = {}): Connection {
  return { url: proxy.url, authHeader: `Bearer ${SECRET}`, timeoutSeconds: 10, concurrency: 2, ...changes };
}

/** The error of an instant query; fails the test if there is none, or if it shows the secret anywhere. */
async function errorOf(changes: Partial<Connection> = {}): Promise<GridmeterError> {
  const thrown: unknown = await createClient(connection(changes))
    .instant("up", 1)
    .then(
      () => undefined,
      (error: unknown) => error,
    );
  expect(inspect(thrown, { depth: 12 })).not.toContain(SECRET);
  if (thrown instanceof GridmeterError) return thrown;
  throw new Error(`Expected a GridmeterError, got ${String(thrown)}.`);
}

function answer(status: number, body: string, headers: Record<string, string> = {}): Fault {
  return { kind: "answer", status, body, headers };
}

const SUCCESS = '{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1,"2.5"]}]}}';

describe("each failure has its code and quotes the server", () => {
  it.concurrent.each<[name: string, fault: Fault, code: string, quoted: string, tries: number]>([
    ["401", answer(401, "Unauthorized"), "prometheus_auth", "401", 1],
    [
      "403 to POST, then to GET",
      answer(403, "<html><body>no <b>entry</b></body></html>"),
      "prometheus_auth",
      "no entry",
      2,
    ],
    ["407", answer(407, "who are you?"), "prometheus_auth", "user:password@host:port", 1],
    ["400", prometheusError(400, "bad_data", "parse error: oops"), "prometheus_bad_query", "parse error: oops", 1],
    ["422", prometheusError(422, "execution", "duplicate series"), "prometheus_bad_query", "duplicate series", 1],
    [
      "422 too many samples",
      prometheusError(422, "execution", "query processing would load too many samples into memory in query execution"),
      "prometheus_too_large",
      "too many samples",
      1,
    ],
    [
      "422 of Mimir",
      prometheusError(422, "execution", "the query exceeded the maximum number of series (limit: 100 series)"),
      "prometheus_too_large",
      "maximum number of series",
      1,
    ],
    [
      "422 of Amazon",
      prometheusError(422, "execution", "the query hit the aggregated data size limit: exceeded bytes limit"),
      "prometheus_too_large",
      "bytes limit",
      1,
    ],
    [
      "400 for a long range",
      prometheusError(400, "bad_data", "the query time range exceeds the limit (query length: 800h, limit: 768h)"),
      "prometheus_too_large",
      "query length",
      1,
    ],
    ["413", answer(413, "too big"), "prometheus_too_large", "413", 1],
    [
      "503 with a query timeout",
      prometheusError(503, "timeout", "query timed out in expression evaluation"),
      "prometheus_too_large",
      "timed out",
      1,
    ],
    ["504 of a gateway", answer(504, "<h1>504 Gateway Time-out</h1>"), "prometheus_too_large", "Gateway Time-out", 1],
    ["429", answer(429, "slow down"), "prometheus_unavailable", "slow down", 4],
    ["500", prometheusError(500, "internal", "disk on fire"), "prometheus_unavailable", "disk on fire", 4],
    ["502", answer(502, "bad gateway"), "prometheus_unavailable", "bad gateway", 4],
    ["503", answer(503, "Service Unavailable"), "prometheus_unavailable", "Service Unavailable", 4],
    ["404", answer(404, "page not found"), "prometheus_bad_answer", "part before /api/v1", 1],
    ["405 to POST, then to GET", answer(405, "not allowed"), "prometheus_bad_answer", "405 to GET", 2],
    ["501 to POST, then to GET", answer(501, "not implemented"), "prometheus_bad_answer", "501 to GET", 2],
    ["a web page", answer(200, "<html>Welcome</html>"), "prometheus_bad_answer", "Welcome", 1],
    ["another JSON", answer(200, '{"hello":"world"}'), "prometheus_bad_answer", "another shape", 1],
    [
      "a value that is no number",
      answer(200, SUCCESS.replace("2.5", "2.5.1")),
      "prometheus_bad_answer",
      '"2.5.1" is not a sample value',
      1,
    ],
    ["JSON cut short", answer(200, SUCCESS.slice(0, 60)), "prometheus_bad_answer", "cut short", 4],
    ["a cut body", { kind: "cut", body: SUCCESS.slice(0, 60) }, "prometheus_bad_answer", "cut short", 4],
    [
      "warnings",
      answer(200, SUCCESS.replace('"data"', '"warnings":["store 7 is down"],"data"')),
      "prometheus_incomplete",
      "store 7 is down",
      1,
    ],
    [
      "a partial answer of VictoriaMetrics",
      answer(200, SUCCESS.replace('"data"', '"isPartial":true,"data"')),
      "prometheus_incomplete",
      "isPartial",
      1,
    ],
    ["a reset", { kind: "reset" }, "prometheus_unreachable", "ECONNRESET", 4],
  ])("%s", async (_name, fault, code, quoted, tries) => {
    const own = await startFaultProxy();
    own.set([], fault);
    const error = await errorOf({ url: own.url });
    expect(error.code).toBe(code);
    expect(error.message).toContain(quoted);
    expect(error.message).toContain("Nothing was published.");
    expect(own.requests).toHaveLength(tries);
    await own.stop();
  });

  it("cuts the server's text", async () => {
    proxy.set([], answer(400, "x".repeat(5000)));
    expect((await errorOf()).message.length).toBeLessThan(700);
  });

  it("hides a secret that the server repeats", async () => {
    proxy.set([], answer(403, `Bearer ${SECRET} is not allowed`));
    expect((await errorOf()).message).toContain('"*** is not allowed"');
  });

  it("a server that never answers is given up at the deadline, all tries together", async () => {
    proxy.set([], { kind: "hang" });
    const started = Date.now();
    const error = await errorOf({ timeoutSeconds: 0.5 });
    expect(error.code).toBe("prometheus_too_large");
    expect(error.message).toContain("within 1 s");
    expect(Date.now() - started).toBeLessThan(3000);
  });

  it("a deadline reached while waiting to ask again names the refusal", async () => {
    proxy.set([], answer(429, "slow down", { "retry-after": "15" }));
    const started = Date.now();
    expect((await errorOf({ timeoutSeconds: 0.5 })).code).toBe("prometheus_unavailable");
    expect(Date.now() - started).toBeLessThan(3000);
  });

  it("nobody listening", async () => {
    const free = createTcpServer();
    const port = await listen(free);
    await new Promise((resolve) => free.close(resolve));
    const error = await errorOf({ url: `http://127.0.0.1:${port}` });
    expect(error.code).toBe("prometheus_unreachable");
    expect(error.message).toContain("ECONNREFUSED");
  });

  it("a host that does not exist", async () => {
    const error = await errorOf({ url: "http://prometheus.invalid:9090" });
    expect(error.code).toBe("prometheus_unreachable");
    expect(error.message).toContain("prometheus.invalid");
  });

  it("a password in the address is sent and never shown", async () => {
    proxy.set([], answer(401, `user:${SECRET}`));
    const error = await errorOf({ url: proxy.url.replace("//", `//user:${SECRET}@`) });
    expect(error.code).toBe("prometheus_auth");
    expect(proxy.requests[0]?.headers.authorization).toBe(`Basic ${Buffer.from(`user:${SECRET}`).toString("base64")}`);
  });

  it.each(["prometheus:9090", "ftp://x", `https//user:${SECRET}@host`, ""])("the address %j", (url) => {
    expect(() => createClient(connection({ url }))).toThrow(/PROMETHEUS_SERVER/);
    expect(() => createClient(connection({ url }))).not.toThrow(SECRET);
  });
});

describe("what passes is asked again", () => {
  const ok = answer(200, SUCCESS);

  it.each<[string, Fault]>([
    ["429", answer(429, "slow down")],
    ["503", answer(503, "starting")],
    ["502", answer(502, "")],
    ["504 without a word of time", answer(504, "upstream")],
    ["a cut body", { kind: "cut", body: SUCCESS.slice(0, 60) }],
    ["a reset", { kind: "reset" }],
  ])("%s", async (_name, fault) => {
    proxy.set([fault], ok);
    expect(await createClient(connection()).instant("up", 1)).toEqual([{ labels: { a: "b" }, value: 2.5 }]);
    expect(proxy.requests).toHaveLength(2);
  });

  it("after the time that the server asks for", async () => {
    proxy.set([answer(429, "", { "retry-after": "1" })], ok);
    const started = Date.now();
    await createClient(connection()).instant("up", 1);
    expect(Date.now() - started).toBeGreaterThanOrEqual(1000);
  });
});

describe("the request", () => {
  it("is a form, under the path prefix, with a limit and no partial answers", async () => {
    proxy.set([], answer(200, SUCCESS));
    await createClient(connection({ url: `${proxy.url}/prom/` })).instant('up{a="ü&="}', 1_741_564_800);
    expect(proxy.requests).toHaveLength(1);
    const [seen] = proxy.requests;
    expect(seen?.method).toBe("POST");
    expect(seen?.path).toBe("/prom/api/v1/query");
    expect(seen?.headers["content-type"]).toContain("application/x-www-form-urlencoded");
    expect(seen?.headers.authorization).toBe(`Bearer ${SECRET}`);
    expect(Object.fromEntries(seen?.form ?? [])).toEqual({
      query: 'up{a="ü&="}',
      time: "1741564800",
      timeout: "10s",
      partial_response: "false",
      dedup: "true",
      max_source_resolution: "0s",
      nocache: "1",
    });
  });

  it("carries the token of the file as it is now, for each client", async () => {
    proxy.set([], answer(200, SUCCESS));
    const tokenFile = join(folder, "token");
    for (const token of ["one", "two"]) {
      writeFileSync(tokenFile, `${token}\n`);
      await createClient({ url: proxy.url, tokenFile, timeoutSeconds: 10, concurrency: 1 }).instant("up", 1);
    }
    expect(proxy.requests.map((each) => each.headers.authorization)).toEqual(["Bearer one", "Bearer two"]);
  });

  it("is not sent on to another host", async () => {
    const other = await startFaultProxy();
    try {
      proxy.set([], answer(307, "", { location: `${other.url}/login?session=x` }));
      const error = await errorOf();
      expect(error.code).toBe("prometheus_bad_answer");
      expect(error.message).toContain(`${other.url}/login,`);
      expect(other.requests).toEqual([]);
    } finally {
      await other.stop();
    }
  });

  it("keeps NaN and infinities as numbers", async () => {
    proxy.set(
      [],
      answer(
        200,
        SUCCESS.replace(
          '[1,"2.5"]}',
          '[1,"NaN"]},{"metric":{},"value":[1,"+Inf"]},{"metric":{},"value":[1,"-Inf"]},{"metric":{},"value":[1,"1.7e+09"]}',
        ),
      ),
    );
    const values = (await createClient(connection()).instant("up", 1)).map((sample) => sample.value);
    expect(values).toEqual([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 1_700_000_000]);
  });

  it("takes an answer with infos, which are harmless", async () => {
    proxy.set([], answer(200, SUCCESS.replace('"data"', '"infos":["might not be a counter"],"warnings":null,"data"')));
    expect(await createClient(connection()).instant("up", 1)).toHaveLength(1);
  });

  it("never has more than `concurrency` at the server", async () => {
    proxy.set([], { kind: "hang" });
    const client = createClient(connection({ timeoutSeconds: 0.3, concurrency: 2 }));
    const all = Promise.allSettled(Array.from({ length: 5 }, () => client.instant("up", 1)));
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(proxy.requests).toHaveLength(2);
    await all;
    expect(proxy.requests).toHaveLength(5);
  });
});

describe("TLS", () => {
  it("needs PROMETHEUS_CA_FILE for a certificate of an own CA, and says so", async () => {
    const key = join(folder, "key.pem");
    const caFile = join(folder, "cert.pem");
    const names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"];
    const options = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", caFile];
    execFileSync("openssl", [...options, ...names], { stdio: "ignore" });
    const server = createTlsServer({ key: readFileSync(key), cert: readFileSync(caFile) }, (_incoming, outgoing) => {
      outgoing.end(SUCCESS);
    });
    const url = `https://127.0.0.1:${await listen(server)}`;
    try {
      const error = await errorOf({ url });
      expect(error.code).toBe("prometheus_unreachable");
      expect(error.message).toContain("PROMETHEUS_CA_FILE");
      expect(await createClient(connection({ url, caFile })).instant("up", 1)).toHaveLength(1);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });

  it("names a CA file that is not there or holds no certificate", () => {
    const caFile = join(folder, "absent.pem");
    expect(() => createClient(connection({ caFile }))).toThrow(caFile);
    writeFileSync(caFile, "not a certificate");
    expect(() => createClient(connection({ caFile }))).toThrow(/no certificate/);
  });
});
