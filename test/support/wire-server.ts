import { once } from "node:events";
import { type Socket, createServer } from "node:net";
import { setTimeout } from "node:timers/promises";
import { listen } from "./fault-proxy.ts";

/** Answers one request; `tries` counts those with this path, from 1 on. */
export type Answerer = (socket: Socket, path: string, tries: number) => void;

export type WireServer = {
  readonly url: string;
  tries(path: string): number;
  /** Once every connection is closed; throws if one is still open after ten seconds. */
  idle(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
};

/** A server that says byte by byte what goes over the wire, so that it can break HTTP itself. */
export async function startWireServer(answer: Answerer): Promise<WireServer> {
  const sockets = new Set<Socket>();
  const tries = new Map<string, number>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    // The client may hang up at any moment.
    socket.on("error", () => undefined);
    let text = "";
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
      const request = /^POST (?<path>\S+) HTTP[^]*?content-length: (?<length>\d+)[^]*?\r\n\r\n/i.exec(text);
      if (request === null || text.length < request[0].length + Number(request.groups!["length"])) return;
      text = "";
      const path = request.groups!["path"]!;
      tries.set(path, (tries.get(path) ?? 0) + 1);
      answer(socket, path, tries.get(path)!);
    });
  });
  const port = await listen(server);
  return {
    url: `http://127.0.0.1:${port}`,
    tries: (path) => tries.get(path) ?? 0,
    idle: async () => {
      for (let waits = 0; sockets.size > 0; waits += 1) {
        if (waits === 500) throw new Error(`${sockets.size} connections are still open.`);
        await setTimeout(20);
      }
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

/** The bytes of a response; the length is told, or chunks of so many bytes are sent, or its end is that of the connection. */
export function response(
  body: string | Buffer,
  options: {
    readonly length?: number;
    readonly chunks?: number;
    readonly headers?: readonly string[];
    readonly status?: number;
  } = {},
): Buffer {
  const bytes = Buffer.from(body);
  const { length, chunks, headers = [], status = 200 } = options;
  const framing =
    chunks === undefined ? (length === undefined ? [] : [`Content-Length: ${length}`]) : ["Transfer-Encoding: chunked"];
  const head = [`HTTP/1.1 ${status} Status`, "Content-Type: application/json", ...framing, ...headers, "", ""].join(
    "\r\n",
  );
  if (chunks === undefined) return Buffer.concat([Buffer.from(head), bytes]);
  const parts: Buffer[] = [Buffer.from(head)];
  for (let at = 0; at < bytes.length; at += chunks) {
    const chunk = bytes.subarray(at, at + chunks);
    parts.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from("\r\n"));
  }
  return Buffer.concat([...parts, Buffer.from("0\r\n\r\n")]);
}
