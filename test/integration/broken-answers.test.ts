// Whatever comes over the wire in place of a good answer: a clean error in time, or the next try's answer, never other figures.
import { gzipSync } from "node:zlib";
import type { Socket } from "node:net";
import pLimit from "p-limit";
import { describe, expect, test } from "vitest";
import { GridmeterError } from "../../lib/shared/errors.ts";
import { createClient } from "../../lib/accounting/prometheus/client.ts";
import { createMonitoring } from "../../lib/accounting/prometheus/monitoring.ts";
import { type Answerer, type WireServer, response, startWireServer } from "../support/wire-server.ts";
import { isLong } from "../support/size.ts";

const GZIP = ["Content-Encoding: gzip"];
const uid = (n: number): string => `${n.toString(16).padStart(8, "0")}-1111-4222-8333-444455556666`;

/** An answer about so many pods, as Prometheus writes it. */
function bodyOf(pods: number): string {
  const row = (n: number): string => `{"metric":{"uid":"${uid(n)}"},"value":[1741564800,"${1_741_000_000 + n}"]}`;
  const rows = Array.from({ length: pods }, (_, n) => row(n)).join(",");
  return `{"status":"success","data":{"resultType":"vector","result":[${rows}]}}`;
}
const rowsOf = (pods: number): Map<string, number> =>
  new Map(Array.from({ length: pods }, (_, n) => [uid(n), 1_741_000_000 + n]));

const GOOD = bodyOf(3);
const TRUTH = rowsOf(3);
/** More than is read at once. */
const MANY = { pods: 6000, body: bodyOf(6000) };

/** The greatest value of each pod that was handed over, whether the answer was good in the end or not; and its error. */
async function ask(
  { url }: WireServer,
  timeoutSeconds: number,
  path = "x",
): Promise<{
  readonly rows: Map<string, number>;
  readonly error: GridmeterError | undefined;
  readonly seconds: number;
}> {
  const rows = new Map<string, number>();
  const client = createClient({ url: `${url}/${path}`, timeoutSeconds, concurrency: 2 });
  const monitoring = createMonitoring(client, { namespace: "grid", matchers: [], labelPrefix: "" });
  const started = performance.now();
  const error: unknown = await monitoring
    .facts("end", { from: 0, to: 86_400 }, (row) => rows.set(row.uid, Math.max(row.value, rows.get(row.uid) ?? 0)))
    .then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
  const seconds = (performance.now() - started) / 1000;
  if (error !== undefined && !(error instanceof GridmeterError)) throw error;
  return { rows, error, seconds };
}

/** Nothing was handed over that is not so. */
function expectTrue(rows: ReadonlyMap<string, number>, pods: number): void {
  const truth = rowsOf(pods);
  for (const [pod, value] of rows) expect([pod, value]).toEqual([pod, truth.get(pod)]);
}

const GOOD_ANSWER = response(GOOD, { length: GOOD.length });

describe("a body that is cut", () => {
  const framings: readonly (readonly [name: string, bytes: Buffer, every: number])[] = [
    ["of which the length was told", GOOD_ANSWER, 3],
    ["in chunks", response(GOOD, { chunks: 40 }), 1],
    ["whose end is that of the connection", response(GOOD), 3],
    ["in chunks, compressed", response(gzipSync(GOOD), { chunks: 25, headers: GZIP }), 2],
    ["compressed, whose end is that of the connection", response(gzipSync(GOOD), { headers: GZIP }), 1],
  ];

  test.concurrent.each(framings)("%s: at every place", async (_name, bytes, step) => {
    const every = isLong ? step : step * 8 + 1;
    await using server = await startWireServer((socket, path, tries) => {
      const cut = tries === 1 ? Number(path.split("/")[1]) : bytes.length;
      socket.end(bytes.subarray(0, cut));
    });
    const places = Array.from({ length: Math.ceil(bytes.length / every) }, (_, index) => index * every).concat(
      bytes.length,
    );
    // Side by side, since each waits a while before it tries again.
    const found = await pLimit(50).map(places, (cut) => ask(server, 60, `${cut}`));
    for (const { rows, error } of found) expect({ rows, error }).toEqual({ rows: TRUTH, error: undefined });
    // A fact is asked in both spellings of its labels: one answer is cut, and comes again.
    const again = places.filter((cut) => server.tries(`/${cut}/api/v1/query`) === 3);
    // Only what stands behind the whole of the text may be missing.
    expect(again.length).toBeGreaterThanOrEqual((bytes.length - 12) / every);
  });

  test.concurrent("every time: an error that says so, in time", async () => {
    const cuts: Readonly<Record<string, Buffer>> = Object.fromEntries(
      framings.map(([name, bytes]) => [name.replaceAll(/\W/g, "-"), bytes]),
    );
    await using server = await startWireServer((socket, path) => {
      const bytes = cuts[path.split("/")[1]!]!;
      socket.end(bytes.subarray(0, bytes.length - 40));
    });
    const found = await Promise.all(Object.keys(cuts).map((name) => ask(server, 1.5, name)));
    for (const { rows, error, seconds } of found) {
      expectTrue(rows, 3);
      expect(error?.code).toBe("prometheus_bad_answer");
      expect(error?.message).toContain("cut short");
      expect(error?.message).toContain("Nothing was published.");
      expect(seconds).toBeLessThan(5);
    }
  });
});

/** Sends a byte now and then, for as long as the client listens. */
function trickle(socket: Socket, bytes: Buffer): void {
  let at = 0;
  const timer = setInterval(() => {
    if (socket.destroyed) clearInterval(timer);
    else socket.write(at < bytes.length ? bytes.subarray(at, (at += 1)) : " ");
  }, 1);
}

/** Sends the same again and again, as fast as it is read, until the client hangs up. */
function flood(socket: Socket, start: string | Buffer, next: () => string | Buffer): void {
  const more = (): void => {
    while (!socket.destroyed && socket.write(next())) {}
  };
  socket.on("drain", more);
  socket.write(start);
  more();
}

describe("an answer that does not end", () => {
  const rest = "a".repeat(1 << 16);

  test.concurrent.each<[name: string, answerer: Answerer]>([
    ["nothing at all", () => undefined],
    ["headers that stop", (socket) => socket.write("HTTP/1.1 200 OK\r\nContent-Type: ")],
    ["headers byte by byte", (socket) => trickle(socket, Buffer.from(`HTTP/1.1 200 OK\r\nX: ${"x".repeat(9000)}`))],
    ["a body that stops", (socket) => socket.write(response(GOOD, { length: 1000 }))],
    ["a chunk that stops", (socket) => socket.write(response(GOOD, { chunks: 100 }).subarray(0, 200))],
    ["chunks without a last one", (socket) => socket.write(response(GOOD, { chunks: 100 }).subarray(0, -5))],
    [
      "a compressed body that stops",
      (socket) => socket.write(response(gzipSync(GOOD), { length: 999, headers: GZIP })),
    ],
    ["a body byte by byte", (socket) => trickle(socket, response(GOOD.slice(0, -2), { length: 1e9 }))],
    [
      "one of many pods, byte by byte after a while",
      (socket) => {
        const bytes = response(MANY.body, { length: 1e9 });
        socket.write(bytes.subarray(0, 400_000));
        trickle(socket, bytes.subarray(400_000));
      },
    ],
    [
      "empty chunks",
      (socket) =>
        flood(socket, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", () => "1\r\n \r\n".repeat(1000)),
    ],
  ])("%s: it is given up at the deadline, and the connection closed", async (_name, answerer) => {
    await using server = await startWireServer(answerer);
    const { rows, error, seconds } = await ask(server, 0.25);
    expectTrue(rows, MANY.pods);
    expect(error).toMatchObject({ code: "prometheus_too_large" });
    expect(error?.message).toContain("did not finish its answer within 0.5 s");
    expect(seconds).toBeLessThan(4);
    await server.idle();
  });

  test.concurrent.each<[name: string, answerer: Answerer]>([
    ["stops", (socket) => socket.write(response("slow down", { length: 1000, status: 429 }))],
    [
      "goes on byte by byte",
      (socket) => {
        socket.write(response("slow down", { length: 1e9, status: 503 }));
        trickle(socket, Buffer.from(" and down"));
      },
    ],
  ])("a refusal that %s: what it says is told at the deadline, and the connection closed", async (_name, answerer) => {
    await using server = await startWireServer(answerer);
    const { error, seconds } = await ask(server, 0.6);
    expect(error).toMatchObject({ code: "prometheus_unavailable", message: expect.stringContaining('"slow down') });
    expect(seconds).toBeLessThan(4);
    await server.idle();
  });

  test.concurrent("a refusal without an end is read as far as it tells anything, and tried again", async () => {
    await using server = await startWireServer((socket, _path, tries) => {
      if (tries >= 2) socket.end(GOOD_ANSWER);
      else flood(socket, response("slow down", { status: 429 }), () => rest);
    });
    expect(await ask(server, 10)).toMatchObject({ rows: TRUTH, error: undefined });
    await server.idle();
  });

  const spaces = gzipSync(Buffer.alloc(1 << 24, " "));
  test.concurrent.each<[name: string, answerer: Answerer]>([
    ["compressed spaces", (socket) => flood(socket, response("", { headers: GZIP }), () => spaces)],
    [
      "compressed rows",
      (socket) => {
        const rows = gzipSync(`,${MANY.body.slice(GOOD.indexOf("[") + 1, -3)}`.repeat(8));
        flood(socket, response(gzipSync(GOOD.slice(0, -3)), { headers: GZIP }), () => rows);
      },
    ],
    ["a label without an end", (socket) => flood(socket, response(GOOD.slice(0, 100)), () => rest)],
    [
      "a label without an end after many rows",
      (socket) => flood(socket, response(MANY.body.slice(0, -40)), () => rest),
    ],
    ["a web page", (socket) => flood(socket, response("<html>"), () => rest)],
  ])("%s: no more of it is held than can be, and less is asked", async (_name, answerer) => {
    await using server = await startWireServer(answerer);
    const { rows, error } = await ask(server, 20);
    expectTrue(rows, MANY.pods);
    expect(error).toMatchObject({ code: "prometheus_too_large" });
    expect(error?.message).toContain("more than 32 MiB");
    expect(server.tries("/x/api/v1/query")).toBe(1);
    await server.idle();
  });
});

describe("an answer that is wrong, every time", () => {
  const status = (body: string): string =>
    body.replace(/\}$/, ',"status":"error","errorType":"internal","error":"disk on fire"}');
  const damaged = (body: string, at: number): Buffer => {
    const bytes = gzipSync(body, { level: 0 });
    const place = bytes.indexOf('"1741', at);
    bytes[place + 1] = "9".charCodeAt(0);
    return bytes;
  };

  test.concurrent.each<[name: string, bytes: Buffer, code: string, quoted: string]>([
    ["a length that is too short", response(GOOD, { length: GOOD.length - 1 }), "prometheus_bad_answer", "cut short"],
    ["a length that is too long", response(GOOD, { length: GOOD.length + 1 }), "prometheus_bad_answer", "cut short"],
    [
      "a length that is none",
      response(GOOD, { headers: ["Content-Length: many"] }),
      "prometheus_unreachable",
      "HPE_INVALID_CONTENT_LENGTH",
    ],
    [
      "two lengths",
      response(GOOD, { length: 3, headers: ["Content-Length: 4"] }),
      "prometheus_unreachable",
      "HPE_UNEXPECTED_CONTENT_LENGTH",
    ],
    [
      "a chunk longer than it says",
      Buffer.from(
        response(GOOD, { chunks: 400 })
          .toString()
          .replace(`\r\n${GOOD.length.toString(16)}\r\n`, "\r\n15\r\n"),
      ),
      "prometheus_bad_answer",
      "cut short",
    ],
    [
      "rubbish behind it",
      response(`${GOOD}rubbish`, { length: GOOD.length + 7 }),
      "prometheus_bad_answer",
      "cut short",
    ],
    ["rubbish behind it, in chunks", response(`${GOOD}<html>`, { chunks: 50 }), "prometheus_bad_answer", "cut short"],
    ["two documents", response(GOOD + GOOD, { length: 2 * GOOD.length }), "prometheus_bad_answer", "cut short"],
    ["two large documents", response(MANY.body + MANY.body, { chunks: 9999 }), "prometheus_bad_answer", "cut short"],
    ["an error behind the rows", response(status(GOOD), { chunks: 99 }), "prometheus_bad_answer", "status"],
    ["an error behind many rows", response(status(MANY.body), { chunks: 9999 }), "prometheus_bad_answer", "status"],
    [
      "an error document behind the rows",
      response(`${GOOD}{"status":"error"}`, { chunks: 99 }),
      "prometheus_bad_answer",
      "cut short",
    ],
    [
      "no JSON any more after many rows",
      response(`${MANY.body.slice(0, -3)},,]}}`, { chunks: 9999 }),
      "prometheus_bad_answer",
      "cut short",
    ],
    ["an empty body", response("", { length: 0 }), "prometheus_bad_answer", "cut short"],
    ["a web page", response("<html>Please sign in</html>", { length: 27 }), "prometheus_bad_answer", "Please sign in"],
    [
      "a compressed web page",
      response(gzipSync("<html>Please sign in</html>"), { headers: GZIP }),
      "prometheus_bad_answer",
      "Please sign in",
    ],
    [
      "bytes that are no UTF-8",
      response(Buffer.from(GOOD.replace("0001-1111", "0001\u00e91111"), "latin1"), { chunks: 50 }),
      "prometheus_bad_answer",
      "not valid",
    ],
    [
      "said to be compressed, which it is not",
      response(GOOD, { length: GOOD.length, headers: GZIP }),
      "prometheus_bad_answer",
      "incorrect header check",
    ],
    [
      "compressed in a way nobody knows",
      response(gzipSync(GOOD), { headers: ["Content-Encoding: own"] }),
      "prometheus_bad_answer",
      "Nothing was published",
    ],
    [
      "compressed, with damage that the checksum finds",
      response(damaged(GOOD, 0), { headers: GZIP }),
      "prometheus_bad_answer",
      "incorrect data check",
    ],
    [
      "many rows, compressed, with damage that the checksum finds",
      response(damaged(MANY.body, 1000), { headers: GZIP }),
      "prometheus_bad_answer",
      "incorrect data check",
    ],
    ["no HTTP", Buffer.from("SSH-2.0-OpenSSH_9.2\r\n"), "prometheus_unreachable", "HPE_INVALID_CONSTANT"],
  ])("%s", async (_name, bytes, code, quoted) => {
    await using server = await startWireServer((socket) => socket.end(bytes));
    const { rows, error, seconds } = await ask(server, 0.8);
    expectTrue(rows, MANY.pods);
    expect(error?.code).toBe(code);
    expect(error?.message).toContain(quoted);
    expect(error?.message).toContain("Nothing was published.");
    expect(seconds).toBeLessThan(5);
    expect(server.tries("/x/api/v1/query")).toBeLessThan(5);
  });
});

test.concurrent("compressed against our wish and in any way of sending, a good answer is taken", async () => {
  const answers: Readonly<Record<string, Buffer>> = {
    gzip: response(gzipSync(MANY.body), { headers: GZIP }),
    chunks: response(gzipSync(MANY.body), { chunks: 77, headers: GZIP }),
    two: response(Buffer.concat([gzipSync(MANY.body.slice(0, 99)), gzipSync(MANY.body.slice(99))]), { headers: GZIP }),
    plain: response(MANY.body, { chunks: 1 }),
  };
  await using server = await startWireServer((socket, path) => socket.end(answers[path.split("/")[1]!]!));
  for (const name of Object.keys(answers))
    expect(await ask(server, 20, name)).toMatchObject({ error: undefined, rows: rowsOf(MANY.pods) });
});
