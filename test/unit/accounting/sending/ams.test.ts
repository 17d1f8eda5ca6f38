import { createServer } from "node:http";
import { inspect } from "node:util";
import { afterAll, beforeEach, describe, expect, test, vi } from "vitest";
import { signMessage } from "../../../../lib/accounting/sending/signature.ts";
import { amsSender, startAmsSite } from "../../../support/ams-sender.ts";
import type { AmsFault } from "../../../support/ams-server.ts";
import { listen } from "../../../support/fault-proxy.ts";
import { verified } from "../../../support/smime.ts";
import { makeAuthority } from "../../../support/tls.ts";

const site = await startAmsSite();
const { folder, authority, host, ams } = site;
afterAll(() => site.stop());
beforeEach(() => {
  ams.misbehave(() => undefined);
  ams.registered(undefined);
});

const ID = "0123abcd/0123456789abcd";
const opened: { close(): void }[] = [];
afterAll(() => opened.forEach((client) => client.close()));
function made(options: Parameters<typeof amsSender>[3] = {}, identity = host) {
  const all = amsSender(ams, authority, identity, options);
  opened.push(all.client);
  const publish = (text: string) => all.client.publish({ id: ID, signed: signMessage(text, all.identity) });
  return { ...all, publish };
}
const asked = () => ams.requests.map(({ what }) => what);
/** The first `times` requests of a kind meet a fault. */
function fault(what: "token" | "publish" | "topic", given: AmsFault, times = Infinity): void {
  let left = times;
  ams.misbehave((request) => (request.what === what && left-- > 0 ? given : undefined));
}

test("a message is published under its id, with one token for several, and its text is what verifies", async () => {
  const { publish } = made();
  const before = { asked: ams.requests.length, published: ams.published.length };
  const ids = [await publish("one: 1\n"), await publish("two: 2\n")];
  expect(asked().slice(before.asked)).toEqual(["token", "publish", "publish"]);
  const taken = ams.published.slice(before.published);
  expect(taken.map(({ id, empaid }) => [id, empaid])).toEqual(ids.map((id) => [id, ID]));
  expect(taken.map(({ signed }) => verified(signed, authority.caFile, "smime"))).toEqual(["one: 1\n", "two: 2\n"]);
});

describe("what passes is tried again", () => {
  test.each<[string, AmsFault]>([
    ...[408, 500, 502, 503, 504].map((status): [string, AmsFault] => [`${status}`, { kind: "status", status }]),
    ["a connection that breaks off", { kind: "reset" }],
    ["an answer that is cut short", { kind: "cut" }],
  ])("%s", async (_, given) => {
    for (const what of ["token", "publish"] as const) {
      fault(what, given, 2);
      expect(await made().publish("a: 1\n")).toMatch(/^\d+$/);
    }
  });

  test("an answer that was lost after the message was taken: it is there twice", async () => {
    const before = ams.published.length;
    fault("publish", { kind: "lost" }, 1);
    await made().publish("lost: 1\n");
    expect(ams.published.length - before).toBe(2);
  });

  test.each<[AmsFault, string]>([
    [{ kind: "status", status: 503, message: "Down for maintenance" }, "ams_unavailable"],
    [{ kind: "reset" }, "ams_unreachable"],
    [{ kind: "silence" }, "ams_unreachable"],
  ])("%j in the end is %s, after four tries", async (given, code) => {
    const before = ams.requests.length;
    fault("publish", given);
    await expect(made({ deadlineMs: 200 }).publish("a: 1\n")).rejects.toMatchObject({ code, retryable: true });
    expect(asked().slice(before)).toEqual(["token", ...Array.from({ length: 4 }, () => "publish")]);
  });
});

describe("a token", () => {
  test("that ended in the middle is fetched once more", async () => {
    const { publish } = made();
    await publish("a: 1\n");
    ams.endTokens();
    const before = ams.requests.length;
    await publish("b: 1\n");
    expect(asked().slice(before)).toEqual(["publish", "token", "publish"]);
  });

  test("that is never taken is an error after the second", async () => {
    const before = ams.requests.length;
    fault("publish", { kind: "status", status: 401, message: "Unauthorized" });
    await expect(made().publish("a: 1\n")).rejects.toMatchObject({
      code: "ams_auth",
      message: expect.stringMatching(/answered 401: UNAUTHORIZED Unauthorized.*new token was fetched once/) as string,
    });
    expect(asked().slice(before)).toEqual(["token", "publish", "token", "publish"]);
  });

  test("that was given is used, read again where it was renewed, and never shown", async () => {
    ams.allow("given-2");
    const before = ams.requests.length;
    const file = ["given-1"];
    const renewed = made({ token: () => file.shift() ?? "given-2" });
    await renewed.publish("a: 1\n");
    expect(asked().slice(before)).toEqual(["publish", "publish"]);
    fault("publish", { kind: "text", status: 401, text: "who is secret-token?" });
    const refused = made({ token: () => "secret-token" }).publish("a: 1\n");
    await expect(refused).rejects.toMatchObject({ code: "ams_auth" });
    await expect(refused).rejects.toThrow(/"who is \*\*\*\?".*AMS_TOKEN_FILE/);
  });

  test("is refused to a name that is not registered, and to what is no certificate of the authority's", async () => {
    ams.registered(["other.example.org"]);
    const unknown = made().publish("a: 1\n");
    await expect(unknown).rejects.toMatchObject({ code: "ams_auth" });
    await expect(unknown).rejects.toThrow(
      /404.*\/DC=org\/O=Example, Inc\/CN=host\.example\.org is not registered.*GOCDB/,
    );
    ams.registered(undefined);
    const stranger = makeAuthority(folder, "stranger").issue("stranger", 30);
    await expect(made({}, stranger).publish("a: 1\n")).rejects.toThrow(/answered 403.*renew it/);
  });
});

describe("what does not pass is not tried again", () => {
  test.each<[string, AmsFault, string, RegExp]>([
    ["403", { kind: "status", status: 403 }, "ams_auth", /Let \/DC=org.* publish to accounting\/gLite-APEL/],
    ["404", { kind: "status", status: 404 }, "ams_refused", /no topic gLite-APEL in the project accounting/],
    ["413", { kind: "status", status: 413 }, "message_too_large", /larger than the service takes/],
    ["400", { kind: "status", status: 400, message: "Bad body" }, "ams_refused", /answered 400: BAD_BODY Bad body/],
    [
      "a web page",
      { kind: "text", text: "<html><h1>Sign in</h1>" },
      "ams_bad_answer",
      /answered 200 with what AMS does not say: "<html><h1>Sign in/,
    ],
    [
      "a redirect",
      { kind: "redirect", location: "https://sso.example.org/?session=1" },
      "ams_bad_answer",
      /sends elsewhere \(302 to "https:\/\/sso\.example\.org\/"\)/,
    ],
    [
      "JSON of another shape",
      { kind: "text", type: "application/json", text: '{"ids": [1]}' },
      "ams_bad_answer",
      /\{"ids": \[1\]\}/,
    ],
    ["no JSON", { kind: "text", type: "application/json", text: "ok" }, "ams_bad_answer", /"ok"/],
  ])("%s", async (_, given, code, message) => {
    fault("publish", given);
    const before = ams.requests.length;
    const refused = made().publish("a: 1\n");
    await expect(refused).rejects.toMatchObject({
      code,
      retryable: false,
      message: expect.stringMatching(message) as string,
    });
    expect(asked().slice(before)).toEqual(["token", "publish"]);
  });

  test("a server without TLS, one of another authority, and a port at which nobody listens", async () => {
    const plain = createServer((_, response) => response.end("hello"));
    const port = await listen(plain);
    await expect(made({ port, token: () => "t" }).publish("a: 1\n")).rejects.toMatchObject({
      code: "ams_tls",
      message: expect.stringContaining("does not speak TLS") as string,
    });
    plain.close();
    await expect(made({ port, token: () => "t" }).publish("a: 1\n")).rejects.toMatchObject({ code: "ams_unreachable" });
    await expect(made({ authorities: [] }).publish("a: 1\n")).rejects.toMatchObject({
      code: "ams_tls",
      message: expect.stringContaining("AMS_CA_FILE") as string,
    });
  });
});

test("a proxy is named with its variable, and its password is in no error", async () => {
  const proxy = createServer();
  proxy.on("connect", (request, socket) => {
    const text = `no: ${request.headers["proxy-authorization"]}`;
    socket.end(`HTTP/1.1 407 ${text}\r\nContent-Length: ${text.length}\r\nConnection: close\r\n\r\n${text}`);
  });
  const port = await listen(proxy);
  try {
    for (const [written, words] of [
      [`http://agent:s3cret@127.0.0.1:${port}`, `went through the proxy http://127.0.0.1:${port} (HTTPS_PROXY)`],
      ["http://agent:s3cret@:0:0", "HTTPS_PROXY names the proxy"],
    ] as const) {
      vi.stubEnv("HTTPS_PROXY", written);
      const error: unknown = await made({ token: () => "t" })
        .publish("a: 1\n")
        .catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ message: expect.stringContaining(words) as string });
      const basic = Buffer.from("agent:s3cret").toString("base64");
      for (const secret of ["s3cret", basic]) expect(inspect(error, { depth: 12 })).not.toContain(secret);
    }
  } finally {
    vi.unstubAllEnvs();
    proxy.close();
  }
});

test("looking asks for a token and the topic, and sends nothing", async () => {
  const before = { asked: ams.requests.length, published: ams.published.length };
  expect(await made().client.look()).toBe("there");
  expect(asked().slice(before.asked)).toEqual(["token", "topic"]);
  await expect(made({ topic: "nobodys" }).client.look()).rejects.toMatchObject({ code: "ams_refused" });
  fault("topic", { kind: "status", status: 403 });
  expect(await made().client.look()).toBe("hidden");
  expect(ams.published).toHaveLength(before.published);
});
