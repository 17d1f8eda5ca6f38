import { once } from "node:events";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { listen } from "./fault-proxy.ts";

/** A real HTTP server before a real Prometheus that answers everything later, by so many milliseconds. */
export async function startSlowProxy(
  upstream: string,
  delay: number,
): Promise<{ readonly url: string; stop(): Promise<void> }> {
  const server = createServer((incoming, outgoing) => {
    void (async () => {
      const body = await text(incoming);
      await new Promise((resolve) => setTimeout(resolve, delay));
      const headers = { "content-type": incoming.headers["content-type"] ?? "" };
      const method = incoming.method ?? "GET";
      const answer = await fetch(`${upstream}${incoming.url ?? ""}`, {
        method,
        headers,
        ...(method === "POST" ? { body } : {}),
      });
      outgoing.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "" });
      outgoing.end(await answer.text());
    })().catch(() => outgoing.destroy());
  });
  const port = await listen(server);
  return {
    url: `http://127.0.0.1:${port}`,
    stop: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
