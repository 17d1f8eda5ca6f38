import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { GridmeterError } from "../../lib/shared/errors.ts";
import { type Connection, createClient } from "../../lib/accounting/prometheus/client.ts";
import { listen } from "../support/fault-proxy.ts";
import { type TlsPrometheus, startTlsPrometheus } from "../support/tls-prometheus.ts";
import { makeAuthority } from "../support/tls.ts";

const PASSWORD = "s3cret word";
/** bcrypt of PASSWORD with the least cost, since every request is checked again */
const HASH = "$2b$04$dzSbzkxdKFRwE9jkn33zO.gEDiRRqTqwmiGFPxoqo52Ft1JbQ.gl6";
const basic = (password: string): string => `Basic ${Buffer.from(`grid:${password}`).toString("base64")}`;

const folder = mkdtempSync(join(tmpdir(), "gridmeter-tls-"));
const site = makeAuthority(folder, "site");
const stranger = makeAuthority(folder, "stranger");
const client = site.issue("client");
const strange = stranger.issue("client");
const pair = { clientCertFile: client.certFile, clientKeyFile: client.keyFile };

let mutual: TlsPrometheus;
let expired: TlsPrometheus;

beforeAll(async () => {
  [mutual, expired] = await Promise.all([
    startTlsPrometheus({ identity: site.issue("server"), clientCaFile: site.caFile, users: { grid: HASH } }),
    startTlsPrometheus({ identity: site.issue("old-server", -1) }),
  ]);
});
afterAll(async () => {
  await Promise.all([mutual.stop(), expired.stop()]);
  rmSync(folder, { recursive: true, force: true });
});

const whole = (): Connection => ({
  url: mutual.url,
  caFile: site.caFile,
  ...pair,
  authHeader: basic(PASSWORD),
  timeoutSeconds: 10,
  concurrency: 1,
});

async function errorOf(changes: Partial<Connection>): Promise<GridmeterError> {
  const thrown: unknown = await createClient({ ...whole(), ...changes })
    .instant("vector(42)", 1)
    .then(
      (answer) => new Error(`It answered: ${JSON.stringify(answer)}`),
      (error: unknown) => error,
    );
  expect(inspect(thrown, { depth: 12 })).not.toContain(PASSWORD);
  expect(inspect(thrown, { depth: 12 })).not.toContain("PRIVATE KEY");
  if (thrown instanceof GridmeterError) return thrown;
  throw thrown;
}

describe("a real Prometheus that asks for a client certificate and a password", () => {
  test("answers whoever has both", async () => {
    expect(await createClient(whole()).instant("vector(42)", 1)).toEqual([{ labels: {}, value: 42 }]);
  });

  test("its certificate is not taken without the site's authority, nor with another", async () => {
    const { caFile: _, ...without } = whole();
    const thrown: unknown = await createClient(without)
      .instant("vector(42)", 1)
      .catch((error: unknown) => error);
    for (const error of [thrown, await errorOf({ caFile: stranger.caFile })]) {
      expect(error).toMatchObject({ code: "prometheus_unreachable" });
      expect(String(error)).toContain("name its PEM file in PROMETHEUS_CA_FILE");
      expect(String(error)).toContain("Nothing was published.");
    }
  });

  test.each([
    ["without a certificate", { clientCertFile: undefined, clientKeyFile: undefined }],
    ["with a certificate of another authority", { clientCertFile: strange.certFile, clientKeyFile: strange.keyFile }],
  ])(
    "%s the connection is broken off, and the message says what to set",
    async (_, { clientCertFile, clientKeyFile }) => {
      const { clientCertFile: _cert, clientKeyFile: _key, ...rest } = whole();
      const shown = clientCertFile === undefined ? {} : { clientCertFile, clientKeyFile };
      const thrown: unknown = await createClient({ ...rest, ...shown })
        .instant("vector(42)", 1)
        .catch((error: unknown) => error);
      expect(thrown).toMatchObject({ code: "prometheus_unreachable" });
      expect(String(thrown)).toContain("PROMETHEUS_CLIENT_CERT_FILE and PROMETHEUS_CLIENT_KEY_FILE");
    },
  );

  test("a wrong password is refused and named", async () => {
    const error = await errorOf({ authHeader: basic("guessed") });
    expect(error.code).toBe("prometheus_auth");
    expect(error.message).toContain("PROMETHEUS_AUTH_HEADER");
  });

  test("asked with http:// it says https://", async () => {
    const error = await errorOf({ url: mutual.url.replace("https:", "http:") });
    expect(error.code).toBe("prometheus_bad_answer");
    expect(error.message).toContain("Write https://");
  });
});

test("a server whose certificate has expired is not asked", async () => {
  const error = await errorOf({ url: expired.url });
  expect(error.code).toBe("prometheus_unreachable");
  expect(error.message).toContain("expired");
});

test("a name that is not in the server's certificate is not asked", async () => {
  const error = await errorOf({ url: mutual.url.replace("127.0.0.1", "localhost") });
  expect(error.message).toContain("is for other names");
});

test("https:// to a server that speaks none says http://", async () => {
  const plain = createServer((_, answer) => answer.end("hello"));
  try {
    const error = await errorOf({ url: `https://127.0.0.1:${await listen(plain)}` });
    expect(error.message).toContain("write http:// in PROMETHEUS_SERVER");
  } finally {
    plain.closeAllConnections();
    plain.close();
  }
});
