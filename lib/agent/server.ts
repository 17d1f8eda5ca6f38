import { type IncomingMessage, type Server, type ServerResponse, createServer } from "node:http";
import { type Socket, isIPv6 } from "node:net";
import { gzipSync } from "node:zlib";
import { GridmeterError, errorText } from "../shared/errors.ts";
import { CONTENT_TYPE } from "../shared/exposition.ts";
import type { AgentLog, Health, Readiness } from "./schedule.ts";

export type ServerOptions = {
  /** `host:port`, `:port` or `[::1]:port` */
  readonly listen: string;
  /** the text of /metrics; answers at once from what is there */
  readonly exposition: () => string;
  readonly health: () => Health;
  readonly readiness: () => Readiness;
  readonly log: AgentLog;
  /** seconds after which a client that has not sent its request is cut off; default 5 */
  readonly requestLimit?: number;
  /**
   * Seconds after which a connection on which nothing moves is closed, that of a client that does not read its answer, too;
   * default 75, longer than the usual scrape interval, so that Prometheus may keep its own.
   */
  readonly idleLimit?: number;
};

export type AgentServer = {
  /** e.g. `http://127.0.0.1:9102`, with the port that was really taken */
  readonly url: string;
  /** Ends at once, also while clients are connected. */
  stop(): Promise<void>;
};

/** Requests on one connection; then the client opens another. */
const MOST_REQUESTS = 1000;
/** Less than this is not worth packing, bytes. */
const PACKED_FROM = 1_024;

/**
 * Serves /metrics, /healthz and /readyz. Nothing that an answer needs is waited for: texts are put together from what is in
 * memory, and packed in this thread, since those of the pool may all hang in a file system.
 *
 * @throws GridmeterError config_invalid if the address is malformed, taken or not this machine's
 */
export async function startServer(options: ServerOptions): Promise<AgentServer> {
  const { requestLimit = 5, idleLimit = 75 } = options;
  const address = parseAddress(options.listen);
  const connections = new Connections();
  const server = createServer(
    {
      headersTimeout: requestLimit * 1000,
      requestTimeout: requestLimit * 1000,
      keepAliveTimeout: idleLimit * 1000,
      connectionsCheckingInterval: 1_000,
      maxHeaderSize: 16_384,
    },
    (request, response) => {
      connections.answering(request.socket, response);
      answer(request, response, options);
    },
  );
  server.maxRequestsPerSocket = MOST_REQUESTS;
  server.on("connection", (socket) => connections.take(socket));
  server.setTimeout(idleLimit * 1000);
  await listening(server, address, options.listen);
  server.on("error", (thrown) => options.log.error({ error: errorText(thrown) }, "the port has failed"));
  return {
    url: urlOf(server),
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

type Answer = { readonly status: number; readonly type: string; readonly body: string };

function answer(request: IncomingMessage, response: ServerResponse, options: ServerOptions): void {
  // A body is never read; one that comes all the same is not taken for the next request.
  if (request.headers["content-length"] !== undefined || request.headers["transfer-encoding"] !== undefined) {
    response.shouldKeepAlive = false;
  }
  request.resume();
  let found: Answer;
  try {
    found = resolve(request, response, options);
  } catch (thrown) {
    options.log.error({ error: errorText(thrown), path: request.url }, "a request could not be answered");
    found = text(500, `The answer could not be made: ${errorText(thrown)}\n`);
  }
  const plain = Buffer.from(found.body);
  const packed = plain.length >= PACKED_FROM && takesGzip(request);
  const body = packed ? gzipSync(plain, { level: 1 }) : plain;
  response.writeHead(found.status, {
    "Content-Type": found.type,
    "Content-Length": body.length,
    "Cache-Control": "no-store",
    Vary: "Accept-Encoding",
    ...(packed ? { "Content-Encoding": "gzip" } : {}),
  });
  response.end(request.method === "HEAD" ? undefined : body);
}

function resolve(request: IncomingMessage, response: ServerResponse, options: ServerOptions): Answer {
  const make = ROUTES.get((request.url ?? "").split(/[?#]/, 1)[0] ?? "");
  if (make === undefined) return text(404, "Not found. There are /metrics, /healthz and /readyz.\n");
  if (request.method === "GET" || request.method === "HEAD") return make(options);
  response.setHeader("Allow", "GET, HEAD");
  return text(405, "Only GET and HEAD are answered.\n");
}

const text = (status: number, body: string): Answer => ({ status, type: "text/plain; charset=utf-8", body });
const json = (status: number, body: object): Answer => ({
  status,
  type: "application/json",
  body: `${JSON.stringify(body)}\n`,
});

const ROUTES: ReadonlyMap<string, (options: ServerOptions) => Answer> = new Map([
  ["/metrics", ({ exposition }: ServerOptions) => ({ status: 200, type: CONTENT_TYPE, body: exposition() })],
  [
    "/healthz",
    ({ health }: ServerOptions) => {
      const state = health();
      return json(state.healthy ? 200 : 503, state);
    },
  ],
  [
    "/readyz",
    ({ readiness }: ServerOptions) => {
      const state = readiness();
      return json(state.ready ? 200 : 503, state);
    },
  ],
]);

/** Whether the client takes gzip: named, and not with a weight of 0. */
function takesGzip({ headers }: IncomingMessage): boolean {
  const codings = (headers["accept-encoding"] ?? "").slice(0, 1_024).split(",");
  return codings.some((coding) => {
    const [name = "", ...parameters] = coding.split(";").map((part) => part.trim().toLowerCase());
    const weight = parameters.find((parameter) => parameter.startsWith("q="))?.slice(2);
    return (name === "gzip" || name === "x-gzip") && (weight === undefined || Number(weight) > 0);
  });
}

function listening(server: Server, where: Address, given: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (thrown) =>
      reject(
        new GridmeterError(
          "config_invalid",
          `The agent cannot listen on "${given}": ${errorText(thrown)}. Nothing was run or published. Give another address, or end what listens there.`,
          { cause: thrown },
        ),
      ),
    );
    server.listen(where, () => {
      server.removeAllListeners("error");
      resolve();
    });
  });
}

function urlOf(server: Server): string {
  const address = server.address();
  if (address === null || typeof address === "string") return "";
  return `http://${address.family === "IPv6" ? `[${address.address}]` : address.address}:${address.port}`;
}

/** Where to listen; without a host on all addresses of the machine. */
type Address = { readonly host?: string; readonly port: number };

const FORM = /^(?:\[(?<v6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?<host>[A-Za-z0-9._-]*)):(?<port>\d{1,5})$/;

/**
 * Reads `host:port`, `:port` or `[::1]:port`. Port 0 is any free one.
 * @throws GridmeterError config_invalid for anything else
 */
export function parseAddress(text: string): Address {
  const { v6, host, port } = FORM.exec(text.trim())?.groups ?? {};
  const number = Number(port);
  if (port === undefined || number > 65_535) {
    throw new GridmeterError(
      "config_invalid",
      `"${text}" is no address to listen on. Nothing was started. Give host:port, :port or [::1]:port, e.g. 0.0.0.0:9102.`,
    );
  }
  const given = v6 ?? host ?? "";
  return { port: number, ...(given === "" ? {} : { host: given }) };
}

/** Connections in all, and from one address: Prometheus keeps one, and the kubelet opens one for each question. */
const MOST = 200;
const MOST_FROM_ADDRESS = 50;

/** An address that a neighbour cannot change at will: of IPv6 the network, in which each has as many addresses as he likes. */
const neighbour = (address: string): string => {
  if (!isIPv6(address)) return address;
  if (address.startsWith("::ffff:")) return address.slice("::ffff:".length);
  return address.startsWith("::") ? address : address.split(":").slice(0, 4).join(":");
};

/**
 * The connections of the port. A new one is always taken, so that no crowd of idle ones shuts out a scrape or the question whether
 * the agent is alive: where there are too many, in all or from one address, the one that has been idle longest gives way; if none is
 * idle, the one whose client has been reading its answer longest.
 */
class Connections {
  /** by when they became so, the first one first */
  readonly #idle = new Map<Socket, string>();
  readonly #busy = new Map<Socket, { readonly from: string; readonly answers: number }>();

  /** Takes a new connection. */
  take(socket: Socket): void {
    const from = neighbour(socket.remoteAddress ?? "");
    const connections = [...this.#all()];
    const fromThere = connections.filter(([, other]) => other === from);
    const tooMany = fromThere.length >= MOST_FROM_ADDRESS ? fromThere : connections.length >= MOST ? connections : [];
    const [givesWay] = tooMany[0] ?? [];
    if (givesWay !== undefined) {
      this.#forget(givesWay);
      givesWay.destroy();
    }
    this.#idle.set(socket, from);
    socket.once("close", () => this.#forget(socket));
  }

  /** Notes that a connection is at work until its answer has been sent. */
  answering(socket: Socket, response: ServerResponse): void {
    const from = this.#idle.get(socket) ?? this.#busy.get(socket)?.from;
    if (from === undefined) return;
    this.#idle.delete(socket);
    this.#busy.set(socket, { from, answers: (this.#busy.get(socket)?.answers ?? 0) + 1 });
    response.once("close", () => this.#answered(socket));
  }

  #answered(socket: Socket): void {
    const busy = this.#busy.get(socket);
    if (busy === undefined) return;
    if (busy.answers > 1) {
      this.#busy.set(socket, { ...busy, answers: busy.answers - 1 });
      return;
    }
    this.#busy.delete(socket);
    if (!socket.destroyed) this.#idle.set(socket, busy.from);
  }

  #forget(socket: Socket): void {
    this.#idle.delete(socket);
    this.#busy.delete(socket);
  }

  /** In the order in which they give way, with where they come from. */
  *#all(): Generator<readonly [Socket, string]> {
    yield* this.#idle;
    for (const [socket, { from }] of this.#busy) yield [socket, from];
  }
}
