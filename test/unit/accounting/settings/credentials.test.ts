import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { gatewayWarning, loadAgentConfig } from "../../../../lib/agent/config.ts";
import { parseSettings } from "../../../../lib/accounting/settings/load.ts";
import { holdsCredentials, maskServer } from "../../../../lib/shared/server-url.ts";
import { gatewayOf } from "../../../../functions/common/metrics.ts";
import { lambdaParts } from "../../../../functions/common/runtime.ts";
import { lambdaSettings } from "../../../../functions/common/settings.ts";

const ENV = { SITE_NAME: "T2", SUBMIT_HOST: "k8s", VO_NAME: "ops", BENCHMARK_VALUE: "10" };
const SERVER = "https://prometheus.example.org";
const HEADER = { PROMETHEUS_AUTH_HEADER: "Bearer common" };
const TOKEN = { PROMETHEUS_TOKEN_FILE: "/token" };
const PAIR = { PROMETHEUS_CLIENT_CERT_FILE: "/cert.pem", PROMETHEUS_CLIENT_KEY_FILE: "/key.pem" };

const file = (own: object): string => JSON.stringify({ tenants: [{ name: "t", NAMESPACE: "n", ...own }] });
const parsed = (env: object, own: object) => {
  const settings = parseSettings({ ...ENV, ...env }, file(own));
  return { connection: settings.tenants[0]!.connection, warnings: settings.warnings };
};
const SECRETS = ["authHeader", "tokenFile", "clientCertFile", "clientKeyFile"];
const secretsIn = (connection: object): readonly string[] => SECRETS.filter((name) => name in connection);

describe("common credentials", () => {
  const server = fc.record({
    scheme: fc.constantFrom("http", "https", "HTTPS"),
    host: fc.constantFrom(
      "prometheus.example.org",
      "Prometheus.Example.ORG",
      "prometheus.example.com",
      "p",
      "10.0.0.1",
    ),
    port: fc.constantFrom("", ":443", ":80", ":9090"),
    path: fc.constantFrom("", "/", "/prometheus", "/x/"),
  });
  const written = ({ scheme, host, port, path }: { scheme: string; host: string; port: string; path: string }) =>
    `${scheme}://${host}${port}${path}`;

  /** By the parts as written, and not by what a URL makes of them. */
  const target = ({ scheme, host, port }: { scheme: string; host: string; port: string }): string => {
    const plain = scheme.toLowerCase();
    return [plain, host.toLowerCase(), port === "" ? (plain === "http" ? ":80" : ":443") : port].join();
  };

  test("go to a tenant's server only if scheme, host and port are those that they were given with", () => {
    fc.assert(
      fc.property(
        server,
        server,
        fc.constantFrom(HEADER, TOKEN, PAIR, { ...HEADER, ...PAIR }),
        (ours, theirs, given) => {
          const { connection, warnings } = parsed(
            { PROMETHEUS_SERVER: written(ours), ...given },
            { PROMETHEUS_SERVER: written(theirs) },
          );
          const isSame = target(ours) === target(theirs);
          expect(secretsIn(connection)).toHaveLength(isSame ? Object.keys(given).length : 0);
          const told = warnings.filter((line) => line.includes("is not sent to this tenant's PROMETHEUS_SERVER"));
          expect(told).toHaveLength(isSame ? 0 : Object.keys(given).length);
          expect(warnings.join("\n")).not.toContain("common");
        },
      ),
      { numRuns: 500 },
    );
  });

  test.each([
    ["no server beside them", {}, { PROMETHEUS_SERVER: SERVER }],
    ["a server that is none", { PROMETHEUS_SERVER: "x" }, { PROMETHEUS_SERVER: SERVER }],
  ])("go nowhere with %s", (_, env, own) => {
    expect(secretsIn(parsed({ ...env, ...HEADER, ...PAIR }, own).connection)).toEqual([]);
  });

  test("go along where the tenant names no server, and credentials in the address stay with it", () => {
    const env = { PROMETHEUS_SERVER: SERVER, ...HEADER, ...PAIR };
    expect(secretsIn(parsed(env, {}).connection)).toEqual(["authHeader", "clientCertFile", "clientKeyFile"]);
    const inAddress = { PROMETHEUS_SERVER: "https://me:pw@prometheus.example.org" };
    expect(parsed(inAddress, {}).connection.authHeader).toMatch(/^Basic /);
    expect(secretsIn(parsed(inAddress, { PROMETHEUS_SERVER: SERVER }).connection)).toEqual([]);
    expect(secretsIn(parsed(inAddress, { PROMETHEUS_SERVER: "https://q" }).connection)).toEqual([]);
  });

  test.each([
    ["a header", { PROMETHEUS_AUTH_HEADER: "Bearer own" }, ["authHeader"], "Bearer own"],
    ["a token file", { PROMETHEUS_TOKEN_FILE: "/own" }, ["tokenFile"], undefined],
    ["an address with credentials", { PROMETHEUS_SERVER: "https://me:pw@q" }, ["authHeader"], "Basic bWU6cHc="],
    ["an empty header", { PROMETHEUS_AUTH_HEADER: "" }, [], undefined],
    [
      "a certificate",
      { PROMETHEUS_CLIENT_CERT_FILE: "/c", PROMETHEUS_CLIENT_KEY_FILE: "/k" },
      SECRETS.slice(2),
      undefined,
    ],
  ])("a tenant of another server with %s of its own has that, and nothing is warned of", (_, own, names, header) => {
    const env = { PROMETHEUS_SERVER: SERVER, ...HEADER, ...PAIR };
    const { connection, warnings } = parsed(env, { PROMETHEUS_SERVER: "https://q", ...own });
    expect(secretsIn(connection)).toEqual(names);
    expect(connection.authHeader).toBe(header);
    expect(warnings).toEqual([]);
  });

  test("a signature, which gives no secret away, and what is none go along", () => {
    const env = {
      PROMETHEUS_SERVER: SERVER,
      PROMETHEUS_SIGV4_REGION: "eu-central-1",
      PROMETHEUS_ORG_ID: "grid",
      PROMETHEUS_CA_FILE: "/ca.pem",
    };
    const { connection, warnings } = parsed(env, { PROMETHEUS_SERVER: "https://q" });
    expect(connection).toMatchObject({ sigv4Region: "eu-central-1", orgId: "grid", caFile: "/ca.pem" });
    expect(warnings).toEqual([]);
    const amazon = "https://aps-workspaces.eu-central-1.amazonaws.com/workspaces/ws-1";
    const signed = parsed({ PROMETHEUS_SERVER: SERVER, ...HEADER }, { PROMETHEUS_SERVER: amazon });
    expect(signed.connection).toMatchObject({ sigv4Region: "eu-central-1" });
    expect([secretsIn(signed.connection), signed.warnings]).toEqual([[], []]);
  });
});

describe("plain http", () => {
  test.each([
    ["http://prometheus:9090", HEADER, "PROMETHEUS_AUTH_HEADER"],
    ["http://prometheus:9090", TOKEN, "PROMETHEUS_TOKEN_FILE"],
    ["http://me:s3cret@prometheus:9090", {}, "the credentials in it"],
    ["http://10.0.0.1", HEADER, "PROMETHEUS_AUTH_HEADER"],
    ["http://localhost.example.org", HEADER, "PROMETHEUS_AUTH_HEADER"],
  ])("%s with credentials is warned of", (server, credentials, which) => {
    const env = { ...ENV, NAMESPACE: "n", PROMETHEUS_SERVER: server, ...credentials };
    const { warnings } = parseSettings(env);
    expect(warnings).toEqual([
      expect.stringMatching(/^PROMETHEUS_SERVER=.* is not https, so .* can be read on the way/),
    ]);
    expect(warnings[0]).toContain(which);
    expect(warnings[0]).not.toMatch(/s3cret|common/);
  });

  test.each([
    ["http://prometheus:9090", {}],
    ["https://prometheus", HEADER],
    ["http://localhost:9090", HEADER],
    ["http://127.0.0.1:9090", TOKEN],
    ["http://[::1]:9090", HEADER],
    ["http://prometheus", { PROMETHEUS_SIGV4_REGION: "eu-central-1" }],
  ])("%s with %o is not", (server, credentials) => {
    const env = { ...ENV, NAMESPACE: "n", PROMETHEUS_SERVER: server, ...credentials };
    expect(parseSettings(env).warnings).toEqual([]);
  });

  test("a Pushgateway's is warned of too", () => {
    expect(gatewayWarning({ url: "http://me:s3cret@gateway:9091" })).toMatch(
      /http:\/\/\*\*\*@gateway:9091.* is not https/,
    );
    expect(gatewayWarning({ url: "http://gateway", bearerTokenFile: "/t" })).toContain("is not https");
    expect(gatewayWarning({ url: "http://gateway", username: "u" })).toContain("is not https");
    for (const url of ["https://me:pw@gateway", "http://gateway", "http://me:pw@localhost"])
      expect(gatewayWarning({ url })).toBeUndefined();
    expect(gatewayWarning(undefined)).toBeUndefined();
  });
});

describe("an address in a function's environment", () => {
  const secret = fc
    .string({ unit: fc.constantFrom(..."abXY09:/?#@%&=+ \n".split("")), minLength: 6, maxLength: 20 })
    .map((text) => `q7${text}Zk9w`);
  const AWS = { AWS_REGION: "eu-central-1", ...ENV, NAMESPACE: "n", PROMETHEUS_SERVER: SERVER };
  const refusal = async (call: Promise<unknown>): Promise<string> =>
    call.then(
      () => "",
      (error: Error) => error.message,
    );
  const settings = (more: object) => refusal(lambdaSettings(lambdaParts({ ...AWS, ...more })));
  const gateway = (more: object) => refusal(gatewayOf(lambdaParts({ ...AWS, ...more })));

  test("is refused with a password, which is not shown, and with what to set instead", async () => {
    await fc.assert(
      fc.asyncProperty(secret, fc.boolean(), async (value, isEncoded) => {
        const address = `https://me:${isEncoded ? encodeURIComponent(value) : value}@host:9091`;
        const server = await settings({ PROMETHEUS_SERVER: address });
        const pushed = await gateway({ PUSHGATEWAY_URL: address });
        expect(server).toMatch(/^PROMETHEUS_SERVER=.*PROMETHEUS_AUTH_HEADER_PARAMETER\.$/);
        expect(pushed).toMatch(/^PUSHGATEWAY_URL=.*PUSHGATEWAY_AUTH_HEADER_PARAMETER\.$/);
        for (const text of [server, pushed]) {
          expect(text).not.toContain("q7");
          expect(text).not.toContain("Zk9w");
          expect(text).toContain("Nothing was published");
        }
      }),
      { numRuns: 50 },
    );
  });

  test.each(["https://t0ken@host", "https://host/?token=t0ken", "https//me:t0ken@host", "http://u:12/t0ken@host"])(
    "is refused: %s",
    async (address) => {
      const text = await settings({ PROMETHEUS_SERVER: address });
      expect(text).toContain("holds credentials");
      expect(text).not.toContain("t0ken");
    },
  );

  test.each(["http://gateway:9091", "HTTPS://Gateway:443/path/", "http://10.0.0.1"])(
    "is taken: %s",
    async (address) => {
      expect(holdsCredentials(address)).toBe(false);
      expect(await gateway({ PUSHGATEWAY_URL: address })).toBe("");
      expect(await settings({ PROMETHEUS_SERVER: address })).toBe("");
    },
  );
});

test.each([
  ["http://me:s3cret", "***"],
  ["me:s3cret", "***"],
  ["http://host:90:s3cret", "***"],
  ["htp://me:pa\nss@host", "htp://***@host"],
  ["htp//me:pa\nss@host", "***"],
  ["prometheus:9090/x", "prometheus:9090/x"],
  ["http//prometheus", "http//prometheus"],
])("the malformed address %j is quoted as %s", (text, shown) => {
  expect(maskServer(text)).toBe(shown);
});

describe("the agent's file and an address from elsewhere", () => {
  const folder = mkdtempSync(join(tmpdir(), "gridmeter-credentials-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, "secret"), "s3cret");
  const load = (gateway: object, url: string, isOption: boolean) => {
    const config = join(folder, "agent.yaml");
    writeFileSync(config, JSON.stringify({ pushgateway: gateway }));
    return loadAgentConfig(isOption ? {} : { PUSHGATEWAY_URL: url }, {
      config,
      ...(isOption ? { pushgateway: url } : {}),
    });
  };
  const KINDS = [{ bearerTokenFile: "secret" }, { username: "me", passwordFile: "secret" }];

  test.each([true, false])("credentials do not go to another server (by option: %s)", (isOption) => {
    for (const kind of KINDS) {
      const given = { url: "https://gateway:9091", ...kind };
      for (const other of ["http://gateway:9091", "https://other:9091", "https://gateway:9092"])
        expect(() => load(given, other, isOption)).toThrow(
          /is replaced by an address with another scheme, host or port/,
        );
      expect(load(given, "https://gateway:9091/path", isOption).pushgateway?.url).toBe("https://gateway:9091/path");
      expect(load(kind, "https://other:9091", isOption).pushgateway?.url).toBe("https://other:9091");
    }
    expect(load({ url: "https://me:pw@gateway" }, "https://other", isOption).pushgateway?.url).toBe("https://other");
  });
});
