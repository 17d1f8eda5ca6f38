import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { GridmeterError } from "../../lib/shared/errors.ts";
import { type Client, createClient } from "../../lib/accounting/prometheus/client.ts";
import { type ApsOptions, startAps } from "../support/aps-server.ts";
import { type FaultProxy, listen, startFaultProxy } from "../support/fault-proxy.ts";
import type { Gate } from "../support/gate.ts";

const SUCCESS = '{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"42"]}]}}';
const MATRIX = '{"status":"success","data":{"resultType":"matrix","result":[]}}';
const SECRET = "wJalrXUtnFEMI+K7MDENG/bPxRfiCYEXAMPLEKEY";
const TOKEN = "IQoJb3JpZ2luX2VjEXAMPLE//////////wEaCWV1LXdlc3QtMSJHMEUCIQD==";
const LASTING = { AKIALASTING: { secret: SECRET } };
const PASSING = { ASIAPASSING: { secret: SECRET, token: TOKEN } };
const DAY = 86_400;

let upstream: FaultProxy;
const open: { stop(): unknown }[] = [];
const folder = mkdtempSync(join(tmpdir(), "gridmeter-aps-"));

beforeAll(async () => {
  upstream = await startFaultProxy();
  upstream.set([], { kind: "answer", status: 200, body: SUCCESS });
});
afterAll(async () => {
  await upstream.stop();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(() => {
  // Nothing of the machine's own: the chain must find what a test gives it, and nothing else.
  for (const name of Object.keys(process.env)) if (name.startsWith("AWS_")) vi.stubEnv(name, undefined);
  vi.stubEnv("AWS_CONFIG_FILE", join(folder, "no-config"));
  vi.stubEnv("AWS_SHARED_CREDENTIALS_FILE", join(folder, "no-credentials"));
  vi.stubEnv("AWS_EC2_METADATA_DISABLED", "true");
});
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const one of open.splice(0)) await one.stop();
});

async function workspace(options: ApsOptions): Promise<Gate> {
  const gate = await startAps(upstream.url, options);
  open.push(gate);
  return gate;
}

/** A small service that hands out credentials; `answer` gets the request's method and path. */
async function service(answer: (method: string, path: string) => string): Promise<string> {
  const server = createServer((incoming, outgoing) => {
    incoming.resume();
    outgoing.end(answer(incoming.method ?? "", incoming.url ?? ""));
  });
  open.push({ stop: () => (server.closeAllConnections(), server.close()) });
  return `http://127.0.0.1:${await listen(server)}`;
}

function lasting(): void {
  vi.stubEnv("AWS_ACCESS_KEY_ID", "AKIALASTING");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", SECRET);
}

const client = ({ url }: Gate, sigv4Region = "eu-west-1"): Client =>
  createClient({ url, sigv4Region, timeoutSeconds: 20, concurrency: 2 });

async function errorOf(answer: Promise<unknown>): Promise<GridmeterError> {
  const thrown = await answer.then(
    (value) => new Error(`It answered: ${JSON.stringify(value)}`),
    (error: unknown) => error,
  );
  for (const secret of [SECRET, TOKEN]) expect(inspect(thrown, { depth: 12 })).not.toContain(secret);
  if (thrown instanceof GridmeterError) return thrown;
  throw thrown;
}

describe("credentials are found where the AWS SDK finds them", () => {
  const later = (): string => new Date(Date.now() + 3_600_000).toISOString();
  const passing = (): object => ({ AccessKeyId: "ASIAPASSING", SecretAccessKey: SECRET, Expiration: later() });

  test.each<[string, () => Promise<void>, ApsOptions["keys"]]>([
    ["in the environment", async () => lasting(), LASTING],
    [
      "in the environment, with a session token",
      async () => {
        vi.stubEnv("AWS_ACCESS_KEY_ID", "ASIAPASSING");
        vi.stubEnv("AWS_SECRET_ACCESS_KEY", SECRET);
        vi.stubEnv("AWS_SESSION_TOKEN", TOKEN);
      },
      PASSING,
    ],
    [
      "in a profile",
      async () => {
        writeFileSync(join(folder, "some"), `[grid]\naws_access_key_id=AKIALASTING\naws_secret_access_key=${SECRET}\n`);
        vi.stubEnv("AWS_SHARED_CREDENTIALS_FILE", join(folder, "some"));
        vi.stubEnv("AWS_PROFILE", "grid");
      },
      LASTING,
    ],
    [
      "through a service account (web identity)",
      async () => {
        writeFileSync(join(folder, "token"), "a.service.account");
        vi.stubEnv("AWS_WEB_IDENTITY_TOKEN_FILE", join(folder, "token"));
        vi.stubEnv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/reader");
        const given = `<Credentials><AccessKeyId>ASIAPASSING</AccessKeyId><SecretAccessKey>${SECRET}</SecretAccessKey><SessionToken>${TOKEN}</SessionToken><Expiration>${later()}</Expiration></Credentials>`;
        const sts = await service(
          () =>
            `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>${given}</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`,
        );
        vi.stubEnv("AWS_ENDPOINT_URL_STS", sts);
      },
      PASSING,
    ],
    [
      "of a container",
      async () => {
        const url = await service(() => JSON.stringify({ ...passing(), Token: TOKEN }));
        vi.stubEnv("AWS_CONTAINER_CREDENTIALS_FULL_URI", `${url}/role`);
      },
      PASSING,
    ],
    [
      "of an instance",
      async () => {
        const url = await service((method, path) => {
          if (method === "PUT") return "imds-token";
          const given = { Code: "Success", Type: "AWS-HMAC", LastUpdated: new Date().toISOString(), ...passing() };
          return path.endsWith("/security-credentials/") ? "role" : JSON.stringify({ ...given, Token: TOKEN });
        });
        vi.stubEnv("AWS_EC2_METADATA_DISABLED", undefined);
        vi.stubEnv("AWS_EC2_METADATA_SERVICE_ENDPOINT", url);
      },
      PASSING,
    ],
  ])("%s", async (_, prepare, keys) => {
    await prepare();
    const gate = await workspace({ keys });
    const asking = client(gate);
    expect(await asking.instant('up{a="ü&=+ *"}', 1)).toEqual([{ labels: {}, value: 42 }]);
    expect(await asking.instant("up", 2)).toEqual([{ labels: {}, value: 42 }]);
    expect(gate.seen.map(({ method, status }) => [method, status])).toEqual([
      ["POST", 200],
      ["POST", 200],
    ]);
  });

  test("where there are none, the message says what to give", async () => {
    const gate = await workspace({ keys: LASTING });
    const error = await errorOf(client(gate).instant("up", 1));
    expect(error.code).toBe("prometheus_auth");
    expect(error.message).toContain("Give AWS credentials in a way that the AWS SDK knows");
    expect(error.message).toContain("Nothing was published.");
    expect(gate.seen).toEqual([]);
  });
});

describe("what Amazon refuses is said in its words, with what to do", () => {
  beforeEach(lasting);

  test.each<[string, ApsOptions, string, string]>([
    ["a wrong region", { keys: LASTING, region: "us-east-1" }, "valid region", "PROMETHEUS_SIGV4_REGION"],
    [
      "a wrong secret",
      { keys: { AKIALASTING: { secret: "another" } } },
      "does not match the signature",
      "aps:QueryMetrics",
    ],
    [
      "a key that it does not know",
      { keys: PASSING },
      "security token included in the request is invalid",
      "credentials",
    ],
    ["a clock that is slow", { keys: LASTING, ahead: 6 * 60_000 }, "Signature expired", "Set the clock"],
    ["a clock that is fast", { keys: LASTING, ahead: -6 * 60_000 }, "Signature not yet current", "Set the clock"],
  ])("%s", async (_, options, quoted, advice) => {
    const gate = await workspace(options);
    const error = await errorOf(client(gate).instant("up", 1));
    expect(error.code).toBe("prometheus_auth");
    expect(error.message).toContain("answered 403 to POST");
    expect(error.message).toContain("answered 403 to GET");
    expect(error.message).toContain(quoted);
    expect(error.message).toContain(advice);
    expect(gate.seen.map(({ method }) => method)).toEqual(["POST", "GET"]);
  });

  test("a request that is not signed", async () => {
    const gate = await workspace({ keys: LASTING });
    const unsigned = createClient({ url: gate.url, timeoutSeconds: 10, concurrency: 1 });
    expect((await errorOf(unsigned.instant("up", 1))).message).toContain("Missing Authentication Token");
  });

  test("a session token that it repeats is hidden", async () => {
    vi.stubEnv("AWS_SESSION_TOKEN", TOKEN);
    const gate = await workspace({ keys: LASTING });
    const refusal = {
      kind: "answer",
      status: 403,
      body: `{"message":"canonical: x-amz-security-token:${TOKEN}"}`,
    } as const;
    upstream.set([], refusal);
    try {
      const direct = createClient({ url: upstream.url, sigv4Region: "eu-west-1", timeoutSeconds: 10, concurrency: 1 });
      expect((await errorOf(direct.instant("up", 1))).message).toContain("x-amz-security-token:***");
    } finally {
      upstream.set([], { kind: "answer", status: 200, body: SUCCESS });
    }
    expect(gate.seen).toEqual([]);
  });

  test("an answer that is too large: less may be asked", async () => {
    const gate = await workspace({ keys: LASTING, largest: () => 50 });
    const error = await errorOf(client(gate).instant("up", 1));
    expect(error.code).toBe("prometheus_too_large");
    expect(error.message).toContain("response larger than the max");
    expect(gate.seen).toHaveLength(1);
  });
});

test("a throttled request is asked again, signed again", async () => {
  lasting();
  const gate = await workspace({ keys: LASTING, throttled: (count) => count <= 3 });
  expect(await client(gate).instant("up", 1)).toHaveLength(1);
  expect(gate.seen.map(({ status }) => status)).toEqual([429, 429, 429, 200]);
  const dates = gate.seen.map(({ headers }) => String(headers["x-amz-date"]));
  // A date has whole seconds; the tries are spread over two at least.
  expect(new Set(dates).size).toBeGreaterThan(1);
  expect(dates).toEqual(dates.toSorted());
});

test.each([403, 405, 501])(
  "where POST is answered %i it is asked by GET, whose query string is signed",
  async (post) => {
    lasting();
    const gate = await workspace({ keys: LASTING, post });
    const asking = client(gate);
    const query = `sum by (a) (up{a=~"x*'(ü+ &=~!)|%2By",b!=""}[60s])`;
    expect(await asking.instant(query, 2)).toEqual([{ labels: {}, value: 42 }]);
    expect(await asking.instant("up", 2)).toEqual([{ labels: {}, value: 42 }]);
    const seen = gate.seen.map(({ method, status, form }) => [method, status, form.get("query")]);
    expect(seen).toEqual([
      ["POST", post, query],
      ["GET", 200, query],
      ["GET", 200, "up"],
    ]);
  },
);

test("a query string in the address is signed with the rest, by POST and by GET", async () => {
  lasting();
  for (const post of [undefined, 405]) {
    const gate = await workspace({ keys: LASTING, ...(post === undefined ? {} : { post }) });
    const url = `${gate.url}?b=x%20y&a=%2B&b=1`;
    expect(
      await createClient({ url, sigv4Region: "eu-west-1", timeoutSeconds: 20, concurrency: 2 }).instant("up", 2),
    ).toHaveLength(1);
    expect(gate.seen.at(-1)).toMatchObject({ method: post === undefined ? "POST" : "GET", status: 200 });
  }
});

describe("32 days a query", () => {
  beforeEach(lasting);

  test("are kept without asking", async () => {
    const gate = await workspace({ keys: LASTING });
    const asking = client(gate);
    const tooLong = [
      asking.instant(`max_over_time(up{a="[1s]"}[${32 * DAY}s])`, 40 * DAY),
      asking.range("up", 0, 32 * DAY, 300),
      asking.range(`max_over_time(up[${DAY}s])`, 0, 31 * DAY, 300),
    ];
    for (const answer of tooLong) {
      const error = await errorOf(answer);
      expect(error.code).toBe("prometheus_too_large");
      expect(error.message).toContain("less than 32 days, and this one is over 32.0 days. It was not asked");
    }
    expect(gate.seen).toEqual([]);
  });

  test("less is asked, and a text that looks like a range is none", async () => {
    const gate = await workspace({ keys: LASTING });
    await client(gate).instant(`max_over_time(up{a="x[${99 * DAY}s]"}[${32 * DAY - 1}s])`, 40 * DAY);
    upstream.set([{ kind: "answer", status: 200, body: MATRIX }], { kind: "answer", status: 200, body: SUCCESS });
    await client(gate).range(`max_over_time(up[300s])`, 0, 30 * DAY, 300);
    expect(gate.seen.map(({ status }) => status)).toEqual([200, 200]);
  });
});
