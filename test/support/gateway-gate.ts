import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, request } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import { buffer } from "node:stream/consumers";
import { listen } from "./fault-proxy.ts";
import type { Identity } from "./tls.ts";

/** What a request meets on its way to the Pushgateway. */
export type Gate = "pass" | "reset" | "hang" | { readonly status: number } | { readonly seconds: number };

export type Passed = {
  readonly method: string;
  readonly path: string;
  readonly body: string;
  readonly authorization: string | undefined;
};

export type GatewayGate = {
  readonly url: string;
  /** in the order in which they came */
  readonly seen: Passed[];
  /** how many requests are here */
  readonly here: number;
  /** the most requests that were here at the same time, in all and of one path; set to 0 to count again */
  most: { all: number; ofOnePath: number };
  gate: Gate;
  /** what requests for the list of all groups meet, if it is something else */
  lists: Gate | undefined;
  /** that were made so far */
  connections: number;
  stop(): Promise<void>;
};

/** A real server before a Pushgateway that lets requests pass, slowly or not at all, as it is told; with an identity, by TLS. */
export async function startGate(upstream: string, identity?: Identity): Promise<GatewayGate> {
  const here: string[] = [];
  const listener = (incoming: IncomingMessage, outgoing: ServerResponse): void => {
    const path = incoming.url ?? "";
    here.push(path);
    own.most.all = Math.max(own.most.all, here.length);
    own.most.ofOnePath = Math.max(own.most.ofOnePath, here.filter((other) => other === path).length);
    outgoing.once("close", () => here.splice(here.indexOf(path), 1));
    void meet(own, incoming, outgoing, upstream).catch(() => outgoing.destroy());
  };
  const server =
    identity === undefined
      ? createServer(listener)
      : createSecureServer({ cert: readFileSync(identity.certFile), key: readFileSync(identity.keyFile) }, listener);
  const own: GatewayGate = {
    url: `${identity === undefined ? "http" : "https"}://127.0.0.1:${await listen(server)}`,
    seen: [],
    get here() {
      return here.length;
    },
    most: { all: 0, ofOnePath: 0 },
    gate: "pass",
    lists: undefined,
    connections: 0,
    stop: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
  server.on("connection", () => (own.connections += 1));
  return own;
}

async function meet(
  { gate: usual, lists, seen }: GatewayGate,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  upstream: string,
): Promise<void> {
  const { method = "GET", url: path = "" } = incoming;
  const gate = path.startsWith("/api/") ? (lists ?? usual) : usual;
  const body = await buffer(incoming);
  seen.push({ method, path, body: body.toString(), authorization: incoming.headers.authorization });
  if (gate === "hang") return;
  if (gate === "reset") {
    incoming.socket.resetAndDestroy();
    return;
  }
  if (typeof gate === "object" && "status" in gate) {
    outgoing.writeHead(gate.status, { location: "/elsewhere" }).end(`the gate says ${gate.status}`);
    return;
  }
  if (gate !== "pass") await new Promise((resolve) => setTimeout(resolve, gate.seconds * 1000));
  const onward = request(`${upstream}${path}`, { method, headers: { "content-length": body.length } });
  onward.end(body);
  const [answer] = await once(onward, "response");
  outgoing.writeHead(answer.statusCode, { "content-type": answer.headers["content-type"] ?? "text/plain" });
  answer.pipe(outgoing);
}
