import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { createClient } from "../../../lib/accounting/prometheus/client.ts";
import { listGroups } from "../../../lib/shared/pushgateway-groups.ts";
import { push } from "../../../lib/shared/pushgateway.ts";
import { hiderOf, isInTheClear, secretsOfAddress, secretsOfHeader } from "../../../lib/shared/text.ts";

const password = fc
  .string({ unit: fc.constantFrom(..."abXY09 /?&=+%\"'<>:@*é€\\".split("")), minLength: 8, maxLength: 24 })
  .filter((text) => text.trim() === text && /[a-z0-9]{2}/i.test(text));
const base64 = (text: string): string => Buffer.from(text, "utf8").toString("base64");

/** How servers, proxies and libraries write what they were sent. */
const FORMS: Readonly<Record<string, (secret: string) => string>> = {
  "as it is": (secret) => secret,
  "percent-encoded": encodeURIComponent,
  "percent-encoded in small letters": (secret) =>
    encodeURIComponent(secret).replace(/%../g, (code) => code.toLowerCase()),
  "as a form": (secret) => new URLSearchParams({ secret }).toString().slice("secret=".length),
  "in JSON": (secret) => JSON.stringify({ secret }),
  "in base64": base64,
  "in base64 of URLs": (secret) => Buffer.from(secret, "utf8").toString("base64url"),
  "in base64, percent-encoded": (secret) => encodeURIComponent(base64(secret)),
  "in HTML": (secret) =>
    secret
      .replaceAll("&", "&amp;")
      .replaceAll("<", "&lt;")
      .replaceAll(">", "&gt;")
      .replaceAll('"', "&#34;")
      .replaceAll("'", "&#39;"),
};

describe.each(Object.entries(FORMS))("a password that is echoed %s", (_, form) => {
  test("is hidden, as the header's and as the address's, with the user and alone", () => {
    fc.assert(
      fc.property(password, (secret) => {
        const header = `Basic ${base64(`me:${secret}`)}`;
        const url = new URL("https://prometheus");
        url.username = "me";
        url.password = encodeURIComponent(secret);
        for (const hide of [hiderOf(secretsOfHeader(header)), hiderOf(secretsOfAddress(url))]) {
          for (const sent of [secret, `me:${secret}`, header, header.slice("Basic ".length)]) {
            const shown = hide(`<< ${form(sent)} >>`);
            expect(shown).toContain("***");
            // What is left of it has no piece of the secret (a JSON's own words apart).
            const left = shown.replaceAll("***", "").replace('{"secret":', "");
            expect(left.length).toBeLessThan(form("Basic me:").length + 15);
            expect(left).not.toContain(form(secret));
          }
        }
      }),
      { numRuns: 40 },
    );
  });
});

test("a bearer token is hidden with and without its scheme, and so is a bare one", () => {
  for (const header of ["Bearer t0ken-12345", "t0ken-12345"])
    expect(hiderOf(secretsOfHeader(header))("got Bearer t0ken-12345, t0ken-12345")).not.toContain("t0ken");
});

test("a user without a password is the token", () => {
  const hide = hiderOf(secretsOfAddress(new URL("https://t0ken-12345@host")));
  expect(hide(`t0ken-12345 and ${base64("t0ken-12345:")}`)).toBe("*** and ***");
});

test("an address with a malformed escape is no fault of the program", () => {
  expect(hiderOf(secretsOfAddress(new URL("https://me:p%zzw@host")))("p%zzw")).toBe("***");
});

test("a long text full of beginnings of the secret takes no long time", () => {
  for (const secret of [
    "\\".repeat(40) + "x",
    "%25".repeat(20) + "x",
    "&amp;".repeat(20) + "x",
    "+ ".repeat(20) + "x",
  ]) {
    const hide = hiderOf(secretsOfHeader(secret));
    for (const unit of ["\\", "%25", "%", "&amp;", "&", "+ ", "%2B%20"]) {
      const began = performance.now();
      hide(unit.repeat(100_000 / unit.length));
      expect(performance.now() - began).toBeLessThan(1000);
    }
  }
});

test("without a secret nothing is hidden, and patterns in one are no pattern", () => {
  expect(hiderOf([""])("text")).toBe("text");
  expect(hiderOf([".*"])("a.*b.c")).toBe("a***b.c");
});

test.each([
  ["http://prometheus", true],
  ["http://10.0.0.1:9090", true],
  ["http://localhost.example.org", true],
  ["http://127.0.0.1.example.org", true],
  ["http://[::2]", true],
  ["https://prometheus", false],
  ["http://localhost:9090", false],
  ["http://a.localhost", false],
  ["http://127.0.0.1", false],
  ["http://127.1", false],
  ["http://[::1]:9090", false],
])("%s can be read on its way: %s", (url, expected) => {
  expect(isInTheClear(new URL(url))).toBe(expected);
});

describe("what a server repeats", () => {
  const SECRET = "s3cret/&w0rd 9";
  let answer: (request: IncomingMessage, response: ServerResponse) => void = () => undefined;
  const server = createServer((request, response) => answer(request, response));
  let url: string;

  beforeAll(async () => {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    url = `http://me:${encodeURIComponent(SECRET)}@127.0.0.1:${port}`;
  });
  afterAll(() => void server.close());

  const echoes = (request: IncomingMessage): string =>
    [request.headers.authorization, ...Object.values(FORMS).map((form) => form(SECRET))].join(" ");
  const shows = (text: string): boolean =>
    Object.values(FORMS).some((form) => text.includes(form(SECRET))) || text.includes(base64(`me:${SECRET}`));
  const failure = async (call: Promise<unknown>): Promise<string> => {
    const error = await call.then(
      () => undefined,
      (thrown: Error) => thrown,
    );
    expect(error).toBeInstanceOf(Error);
    return `${error?.message} ${String(error?.cause)}`;
  };
  const client = () =>
    createClient({
      url: url.replace(/\/\/.*@/, "//"),
      authHeader: `Basic ${base64(`me:${SECRET}`)}`,
      timeoutSeconds: 5,
      concurrency: 1,
    });
  const json = (value: object) => (request: IncomingMessage, response: ServerResponse) => {
    const text = JSON.stringify(value).replaceAll("ECHO", JSON.stringify(echoes(request)).slice(1, -1));
    response.writeHead(200, { "Content-Type": "application/json" }).end(text);
  };
  const vector = (result: unknown[]) => ({ status: "success", data: { resultType: "vector", result } });

  test.each([
    ["a refusal", (request, response) => response.writeHead(400).end(echoes(request))],
    [
      "a refusal as JSON",
      (request, response) => response.writeHead(400).end(JSON.stringify({ error: echoes(request) })),
    ],
    [
      "a redirect",
      (request, response) => response.writeHead(302, { Location: `/${encodeURIComponent(echoes(request))}` }).end(),
    ],
    ["an answer that is no JSON", (request, response) => response.writeHead(200).end(`<p>${echoes(request)}</p>`)],
    ["a warning", json({ ...vector([]), warnings: ["ECHO"] })],
    ["a value", json(vector([{ metric: {}, value: [1, "s3cret/&w0rd 9"] }]))],
    ["a long value", json(vector([{ metric: {}, value: [1, `${"1".repeat(90)}ECHO`] }]))],
  ] satisfies [string, typeof answer][])("shows no password: Prometheus, %s", async (_, answering) => {
    answer = answering;
    const text = await failure(client().instant("up", 1));
    expect(shows(text)).toBe(false);
  });

  test("shows no password: Prometheus' version, which has a bound too", async () => {
    answer = json({ status: "success", data: { version: `2.42 s3cret/&w0rd 9 ${"x".repeat(1000)}` } });
    const version = (await client().version()) ?? "";
    expect(version).toMatch(/^2\.42 \*\*\* x+$/);
    expect(version.length).toBeLessThanOrEqual(100);
  });

  test.each([0, 280, 295])("shows no password: a Pushgateway, after %i characters", async (before) => {
    answer = (request, response) => response.writeHead(400).end("x".repeat(before) + echoes(request));
    const text = await failure(push(url, { job: "a" }, "a 1\n"));
    expect(text).toContain("***");
    expect(shows(text)).toBe(false);
    expect(text).not.toContain("s3c");
  });

  test.each([0, 90, 97])("shows no password: a Pushgateway's list, after %i characters", async (before) => {
    answer = (_request, response) => response.writeHead(200).end(`${"x".repeat(before)}${SECRET} more`);
    const text = await failure(listGroups(url));
    expect(text).toContain("***");
    expect(text).not.toContain("s3c");
  });

  test("shows no password of a proxy", async () => {
    const proxy = url;
    answer = (request, response) =>
      response
        .writeHead(407)
        .end(`${SECRET} ${request.headers["proxy-authorization"] ?? ""} ${encodeURIComponent(SECRET)}`);
    vi.stubEnv("http_proxy", proxy);
    vi.stubEnv("no_proxy", "");
    const other = createClient({ url: "http://prometheus.example.org", timeoutSeconds: 5, concurrency: 1 });
    const text = await failure(other.instant("up", 1)).finally(() => vi.unstubAllEnvs());
    expect(text).toContain("407");
    expect(shows(text)).toBe(false);
  });
});
