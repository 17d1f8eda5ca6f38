import { once } from "node:events";
import { request as httpRequest } from "node:http";
import type { IncomingMessage, RequestOptions } from "node:http";
import { below } from "./address.ts";
import type { Connections } from "./connections.ts";

/** What is asked of a gateway. */
export type GatewayRequest = {
  readonly method: "GET" | "PUT" | "POST" | "DELETE";
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** milliseconds, where `deadlineMs` is not given */
  readonly usualDeadlineMs: number;
  /** bytes of the answer that are taken in; default: all */
  readonly largestAnswer?: number;
  /** what did not happen if this fails, for the error */
  readonly lost: string;
};

/**
 * Sends a request, and gives the answer once its head is there. A redirect is not followed: it would take the credentials
 * elsewhere, and turn a PUT into a GET that changes nothing. Rejects as Node does, also when the signal aborts.
 */
export async function send(
  base: URL,
  { method, path, headers, body }: Pick<GatewayRequest, "method" | "path" | "headers" | "body">,
  connections: Connections,
  signal: AbortSignal,
  authHeader: string | undefined,
): Promise<IncomingMessage> {
  const url = below(base, path);
  const options: RequestOptions = {
    method,
    headers: { ...headers, ...(authHeader === undefined ? {} : { Authorization: authHeader }) },
    agent: await connections.agentFor(url),
    signal,
  };
  const asked =
    url.protocol === "https:" ? (await import("node:https")).request(url, options) : httpRequest(url, options);
  // Once the answer has begun, what breaks is an error of the answer's too, and there it is dealt with.
  asked.on("error", () => {});
  asked.end(body);
  // An answer of 101 is neither a response to Node nor an error: the connection is closed, and that is all.
  const closed = once(asked, "close", { signal }).then(() => {
    throw new Error("the connection was closed without an answer");
  });
  const [answer] = await Promise.race([once(asked, "response", { signal }), closed]);
  return answer;
}

/** The first words of an answer; of one that breaks, what was there. */
export async function beginningOf(answer: IncomingMessage, characters: number): Promise<string> {
  let text = "";
  try {
    for await (const chunk of answer.setEncoding("utf8")) {
      text += String(chunk);
      if (text.length >= characters) break;
    }
  } catch {
    // What it said so far has to do.
  }
  return text.slice(0, characters);
}
