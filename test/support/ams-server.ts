import { readFileSync } from "node:fs";
import { type IncomingMessage, type ServerResponse } from "node:http";
import { createServer } from "node:https";
import { type AddressInfo } from "node:net";
import { TLSSocket } from "node:tls";
import { once } from "node:events";
import { z } from "zod";
import type { Authority } from "./tls.ts";

/** A message that the stand-in took. */
export type Published = { readonly id: string; readonly empaid: string; readonly signed: string };

/** What the stand-in does instead of answering as it should. `lost`: it takes the message, and the answer gets lost. */
export type AmsFault =
  | { readonly kind: "status"; readonly status: number; readonly message?: string }
  | { readonly kind: "text"; readonly status?: number; readonly type?: string; readonly text: string }
  | { readonly kind: "redirect"; readonly location: string }
  | { readonly kind: "reset" }
  | { readonly kind: "lost" }
  | { readonly kind: "lost-status"; readonly status: number }
  | { readonly kind: "cut" }
  | { readonly kind: "silence" };

export type AmsRequest = { readonly what: "token" | "publish" | "topic"; readonly path: string; readonly body: string };

/** Stands in for APEL's messaging service: its authn and its AMS, over HTTPS, with the answers of design/ams-sending.md. */
export type AmsServer = {
  readonly host: string;
  readonly port: number;
  readonly authnPort: number;
  /** in the order in which they were taken */
  readonly published: readonly Published[];
  readonly requests: readonly AmsRequest[];
  /** what each further request meets; undefined: it is answered as it should be */
  misbehave(fault: (request: AmsRequest) => AmsFault | undefined | Promise<AmsFault | undefined>): void;
  /** names (common names) that are registered; all where it is undefined */
  registered(names: readonly string[] | undefined): void;
  /** no token given so far is taken any more */
  endTokens(): void;
  /** a token that is taken beside those that it gave */
  allow(token: string): void;
  stop(): Promise<void>;
};

/** Larger bodies are refused with 413. */
const LARGEST = 1_100_000;
const publishBody = z.strictObject({
  messages: z.tuple([
    z.strictObject({
      attributes: z.strictObject({ empaid: z.string().regex(/^[0-9a-f]{8}\/[0-9a-f]{14}$/) }),
      data: z.string().regex(/^[A-Za-z0-9+/]+=*$/),
    }),
  ]),
});

export async function startAms(
  authority: Authority,
  { project = "accounting", topic = "gLite-APEL" } = {},
): Promise<AmsServer> {
  const own = authority.issue("ams-server");
  const tls = { cert: readFileSync(own.certFile), key: readFileSync(own.keyFile), ca: readFileSync(authority.caFile) };
  const published: Published[] = [];
  const requests: AmsRequest[] = [];
  const tokens = new Set<string>();
  let given = 0;
  let names: readonly string[] | undefined;
  let misbehave: (request: AmsRequest) => AmsFault | undefined | Promise<AmsFault | undefined> = () => undefined;

  function json(response: ServerResponse, status: number, body: unknown): void {
    response.writeHead(status, { "Content-Type": "application/json" });
    response.end(JSON.stringify(body));
  }
  const error = (response: ServerResponse, code: number, message: string): void =>
    json(response, code, { error: { code, message, status: message.toUpperCase().replaceAll(/\W+/g, "_") } });

  function answerToken(request: IncomingMessage, response: ServerResponse): void {
    const peer = request.socket instanceof TLSSocket ? request.socket.getPeerCertificate() : undefined;
    if (peer === undefined || Object.keys(peer).length === 0) return error(response, 400, "No certificate provided");
    if (request.socket instanceof TLSSocket && !request.socket.authorized)
      return error(response, 403, "Certificate not valid");
    const { CN } = peer.subject;
    if (names !== undefined && !names.includes(String(CN))) return error(response, 404, "Binding was not found");
    const token = `token-${(given += 1)}-${"f".repeat(30)}`;
    tokens.add(token);
    json(response, 200, { token });
  }

  function take({ body }: AmsRequest): string {
    const { messages } = publishBody.parse(JSON.parse(body));
    const [{ attributes, data }] = messages;
    const id = String(published.length + 1);
    published.push({ id, empaid: attributes.empaid, signed: Buffer.from(data, "base64").toString("latin1") });
    return id;
  }

  function answerAms(request: IncomingMessage, asked: AmsRequest, response: ServerResponse): void {
    if (!tokens.has(String(request.headers["x-api-key"]))) return error(response, 401, "Unauthorized");
    if (asked.path.split(":")[0] !== `/v1/projects/${project}/topics/${topic}`)
      return error(response, 404, "Topic doesn't exist");
    if (asked.what === "topic") return json(response, 200, { name: `/projects/${project}/topics/${topic}` });
    if (asked.body.length > LARGEST) return error(response, 413, "Message size is too large");
    json(response, 200, { messageIds: [take(asked)] });
  }

  function act(fault: AmsFault, request: IncomingMessage, asked: AmsRequest, response: ServerResponse): void {
    switch (fault.kind) {
      case "status":
        return error(response, fault.status, fault.message ?? "Scripted");
      case "text":
        response.writeHead(fault.status ?? 200, { "Content-Type": fault.type ?? "text/html" });
        response.end(fault.text);
        return;
      case "redirect":
        response.writeHead(302, { Location: fault.location });
        response.end();
        return;
      case "lost":
        take(asked);
        request.socket.destroy();
        return;
      case "lost-status":
        take(asked);
        return error(response, fault.status, "Scripted after the message was taken");
      case "cut":
        response.writeHead(200, { "Content-Type": "application/json", "Content-Length": "100" });
        response.write('{"messageIds": [');
        response.once("close", () => undefined);
        setImmediate(() => request.socket.destroy());
        return;
      case "reset":
        request.socket.destroy();
        return;
      case "silence":
    }
  }

  async function serve(isAuthn: boolean, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(Buffer.from(chunk));
    const path = request.url ?? "";
    const what = isAuthn ? "token" : path.endsWith(":publish") ? "publish" : "topic";
    const asked: AmsRequest = { what, path, body: Buffer.concat(chunks).toString("utf8") };
    requests.push(asked);
    const fault = await misbehave(asked);
    if (fault !== undefined) return act(fault, request, asked, response);
    if (!isAuthn) return answerAms(request, asked, response);
    if (/^\/v1\/service-types\/ams\/hosts\/[^/]+:authx509$/.test(path)) return answerToken(request, response);
    error(response, 404, "Not found");
  }

  const servers = [false, true].map((isAuthn) => {
    const options = { ...tls, requestCert: isAuthn, rejectUnauthorized: false };
    return createServer(options, (request, response) => {
      request.on("error", () => undefined);
      serve(isAuthn, request, response).catch((thrown: unknown) => error(response, 400, String(thrown)));
    }).listen(0, "127.0.0.1");
  });
  await Promise.all(servers.map((server) => once(server, "listening")));
  const [port = 0, authnPort = 0] = servers.map((server) => (server.address() as AddressInfo).port);
  return {
    host: "127.0.0.1",
    port,
    authnPort,
    published,
    requests,
    misbehave: (fault) => void (misbehave = fault),
    registered: (registered) => void (names = registered),
    endTokens: () => tokens.clear(),
    allow: (token) => void tokens.add(token),
    stop: async () => {
      for (const server of servers) {
        server.close();
        server.closeAllConnections();
        await once(server, "close");
      }
    },
  };
}
