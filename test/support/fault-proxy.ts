import { once } from "node:events";
import { type IncomingMessage, type ServerResponse, createServer, request } from "node:http";
import type { Server } from "node:net";
import { buffer } from "node:stream/consumers";

/** What a request meets instead of Prometheus. */
export type Fault =
  | {
      readonly kind: "answer";
      readonly status: number;
      readonly body: string;
      readonly headers?: Readonly<Record<string, string>>;
    }
  /** announces more than it sends, then closes */
  | { readonly kind: "cut"; readonly body: string }
  /** the real answer up to this share of it; `tells` the whole length beforehand, or none and ends as if that was all */
  | { readonly kind: "shortened"; readonly share: number; readonly tells: boolean }
  | { readonly kind: "reset" }
  | { readonly kind: "hang" };

export type SeenRequest = {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly form: URLSearchParams;
};

export type FaultProxy = {
  readonly url: string;
  readonly requests: SeenRequest[];
  /** From now on: these faults, one a request, and `then` for all later ones (undefined: passed on to the real server). */
  set(faults: readonly Fault[], then?: Fault): void;
  /** From now on: whatever this draws for each request (undefined: passed on). */
  draw(next: (request: SeenRequest) => Fault | undefined): void;
  stop(): Promise<void>;
};

/** A Prometheus error as the server writes it. */
export function prometheusError(status: number, errorType: string, error: string): Fault {
  return {
    kind: "answer",
    status,
    body: JSON.stringify({ status: "error", errorType, error }),
    headers: { "content-type": "application/json" },
  };
}

/** A real HTTP server on a free port of 127.0.0.1 that answers with faults, and passes on the rest to `upstream`. */
export async function startFaultProxy(upstream?: string): Promise<FaultProxy> {
  const requests: SeenRequest[] = [];
  let queue: Fault[] = [];
  let rest: Fault | undefined;
  let drawn: ((request: SeenRequest) => Fault | undefined) | undefined;

  const server = createServer((incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
    incoming.on("end", () => {
      const body = Buffer.concat(chunks);
      const seen: SeenRequest = {
        method: incoming.method ?? "",
        path: incoming.url ?? "",
        headers: incoming.headers,
        form: new URLSearchParams(incoming.method === "GET" ? incoming.url?.replace(/^[^?]*/, "") : body.toString()),
      };
      requests.push(seen);
      const fault = drawn === undefined ? (queue.shift() ?? rest) : drawn(seen);
      if (fault === undefined) passOn(upstream, incoming, body, outgoing);
      else if (fault.kind === "shortened") passOn(upstream, incoming, body, outgoing, fault);
      else apply(fault, incoming, outgoing);
    });
  });
  const port = await listen(server);
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    set: (faults, then) => {
      queue = [...faults];
      rest = then;
      drawn = undefined;
      requests.length = 0;
    },
    draw: (next) => {
      drawn = next;
      requests.length = 0;
    },
    stop: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** Starts to listen on a free port of 127.0.0.1, which it returns. */
export async function listen(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("The server has no port.");
  return address.port;
}

function apply(
  fault: Exclude<Fault, { kind: "shortened" }>,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): void {
  switch (fault.kind) {
    case "answer":
      outgoing.writeHead(fault.status, fault.headers);
      outgoing.end(fault.body);
      return;
    case "cut":
      outgoing.writeHead(200, { "content-type": "application/json", "content-length": `${fault.body.length + 100}` });
      outgoing.write(fault.body, () => incoming.socket.end());
      return;
    case "reset":
      incoming.socket.resetAndDestroy();
      return;
    case "hang":
  }
}

function passOn(
  upstream: string | undefined,
  incoming: IncomingMessage,
  body: Buffer,
  outgoing: ServerResponse,
  shortened?: { readonly share: number; readonly tells: boolean },
): void {
  if (upstream === undefined) {
    outgoing.writeHead(500);
    outgoing.end("no upstream");
    return;
  }
  const { host: _host, connection: _connection, ...headers } = incoming.headers;
  const onward = request(
    `${upstream}${incoming.url ?? ""}`,
    { method: incoming.method ?? "GET", headers },
    (answer) => {
      if (shortened === undefined) {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(outgoing);
        return;
      }
      void buffer(answer).then((whole) => {
        const part = whole.subarray(0, Math.floor(whole.length * shortened.share));
        outgoing.writeHead(200, {
          "content-type": "application/json",
          ...(shortened.tells ? { "content-length": `${whole.length}` } : {}),
        });
        outgoing.write(part, () => (shortened.tells ? incoming.socket.destroy() : outgoing.end()));
      });
    },
  );
  onward.on("error", () => outgoing.destroy());
  onward.end(body);
}
