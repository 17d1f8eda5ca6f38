import { once } from "node:events";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { listen } from "./fault-proxy.ts";

/** One request to Prometheus and what it got. */
export type Watched = {
  readonly method: string;
  readonly path: string;
  readonly form: URLSearchParams;
  readonly status: number;
};

export type WatchProxy = { readonly url: string; readonly requests: Watched[]; stop(): Promise<void> };

/**
 * A real HTTP server before a real Prometheus that notes every request and the status it got. `change` may alter the
 * form before it is passed on, such as to give the server less time for it.
 */
export async function startWatchProxy(
  upstream: string,
  change: (form: URLSearchParams) => void = () => undefined,
): Promise<WatchProxy> {
  const requests: Watched[] = [];
  const server = createServer((incoming, outgoing) => {
    void (async () => {
      const form = new URLSearchParams(await text(incoming));
      change(form);
      const path = incoming.url ?? "";
      const method = incoming.method ?? "GET";
      const answer = await fetch(`${upstream}${path}`, { method, ...(method === "POST" ? { body: form } : {}) });
      requests.push({ method, path, form, status: answer.status });
      outgoing.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "" });
      outgoing.end(await answer.text());
    })().catch(() => outgoing.destroy());
  });
  const port = await listen(server);
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    stop: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** A change that drops the body of a POST, as some proxies do. */
export function withoutBody(form: URLSearchParams): void {
  for (const field of Object.keys(Object.fromEntries(form))) form.delete(field);
}

/** Seconds that the longest range in a query reaches back, e.g. 3900 for `[3900s]`; 0 for a plain selector. */
export function longestRange(query: string): number {
  return Math.max(0, ...[...query.matchAll(/\[(\d+)s\]/g)].map(([, seconds]) => Number(seconds)));
}
