import { once } from "node:events";
import { createServer } from "node:http";
import type { IncomingHttpHeaders } from "node:http";
import { buffer } from "node:stream/consumers";
import { listen } from "./fault-proxy.ts";

/** A request that came to the gate, and the status it got. */
export type Passing = {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly form: URLSearchParams;
};

/** What is answered in place of the real server. */
export type Refusal = { readonly status: number; readonly type?: string; readonly body: string };

export type Gate = {
  readonly url: string;
  readonly seen: (Passing & { readonly status: number })[];
  stop(): Promise<void>;
};

export type GateRules = {
  /** before the real server is asked */
  readonly request?: (passing: Passing) => Refusal | undefined;
  /** after it has answered */
  readonly answer?: (passing: Passing, body: string) => Refusal | undefined;
  /** path on the real server; undefined: there is no such path */
  readonly path?: (path: string) => string | undefined;
};

/** A Prometheus error as the servers write it. */
export function apiError(status: number, errorType: string, error: string): Refusal {
  return { status, type: "application/json", body: JSON.stringify({ status: "error", errorType, error }) };
}

/** A real HTTP server before the real Prometheus which refuses what its rules say, and passes on the rest. */
export async function startGate(upstream: string, rules: GateRules): Promise<Gate> {
  const seen: (Passing & { status: number })[] = [];
  const pass = async (passing: Passing): Promise<Refusal> => {
    const refused = rules.request?.(passing);
    if (refused !== undefined) return refused;
    const path = rules.path === undefined ? passing.path : rules.path(passing.path);
    if (path === undefined) return { status: 404, type: "text/plain", body: "404 page not found" };
    const { method, form } = passing;
    const answer = await fetch(upstream + path, { method, ...(method === "POST" ? { body: form } : {}) });
    const body = await answer.text();
    const type = answer.headers.get("content-type") ?? "";
    return rules.answer?.(passing, body) ?? { status: answer.status, type, body };
  };
  const server = createServer((incoming, outgoing) => {
    void (async () => {
      const body = await buffer(incoming);
      const { method = "", url: path = "", headers } = incoming;
      const form = new URLSearchParams(method === "GET" ? path.replace(/^[^?]*/, "") : body.toString());
      const passing = { method, path, headers, body, form };
      const answer = await pass(passing);
      seen.push({ ...passing, status: answer.status });
      outgoing.writeHead(answer.status, { "content-type": answer.type ?? "text/plain" });
      outgoing.end(answer.body);
    })().catch(() => outgoing.destroy());
  });
  const port = await listen(server);
  return {
    url: `http://127.0.0.1:${port}`,
    seen,
    stop: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
