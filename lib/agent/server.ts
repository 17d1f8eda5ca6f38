import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import { GridmeterError, errorText } from "../errors.ts";
import { CONTENT_TYPE } from "./exposition.ts";
import type { Health, Readiness } from "./schedule.ts";
import type { AgentLog } from "./schedule-log.ts";
import { type Address, parseAddress } from "./server-address.ts";
import { Connections } from "./server-connections.ts";

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
  /** Ends at once, whoever is connected. */
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
