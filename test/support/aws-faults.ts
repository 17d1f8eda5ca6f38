import { once } from "node:events";
import { type IncomingMessage, type ServerResponse, createServer } from "node:http";
import { buffer } from "node:stream/consumers";
import { listen } from "./fault-proxy.ts";

/** A request to S3 or SQS. SQS is told by its target, e.g. `AmazonSQS.ReceiveMessage`. */
export type AwsRequest = {
  readonly method: string;
  readonly path: string;
  readonly target: string | undefined;
  readonly body: string;
};

export type AwsFault =
  /** refused with this error; it never came to the service */
  | { readonly kind: "error"; readonly status: number; readonly code: string }
  /** carried out, but the answer is lost: an error of the server, or none at all */
  | { readonly kind: "lost"; readonly how: "500" | "reset" }
  /** carried out; the answer breaks off in its middle */
  | { readonly kind: "cut" };

export type AwsFaults = {
  readonly url: string;
  readonly requests: AwsRequest[];
  /** Decides about each request from now on; undefined: passed on as it is. */
  set(decide: (request: AwsRequest) => AwsFault | undefined): void;
  stop(): Promise<void>;
};

/** A real HTTP server on a free port of 127.0.0.1 before S3 and SQS. */
export async function startAwsFaults(upstream: string): Promise<AwsFaults> {
  const requests: AwsRequest[] = [];
  let decide: (request: AwsRequest) => AwsFault | undefined = () => undefined;
  const server = createServer((incoming, outgoing) => {
    void answer(incoming, outgoing).catch(() => outgoing.destroy());
  });

  async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const body = await buffer(incoming);
    const target = incoming.headers["x-amz-target"];
    const request: AwsRequest = {
      method: incoming.method ?? "",
      path: incoming.url ?? "",
      target: typeof target === "string" ? target : undefined,
      body: body.toString(),
    };
    requests.push(request);
    const fault = decide(request);
    if (fault?.kind === "error") {
      refuse(outgoing, request, fault.status, fault.code);
      return;
    }
    const { status, headers, bytes } = await passOn(upstream, incoming, body);
    if (fault?.kind === "lost") {
      if (fault.how === "500") refuse(outgoing, request, 500, "InternalError");
      else incoming.socket.resetAndDestroy();
      return;
    }
    outgoing.writeHead(status, { ...headers, "content-length": String(bytes.length) });
    if (fault?.kind !== "cut" || bytes.length < 2) {
      outgoing.end(bytes);
      return;
    }
    outgoing.write(bytes.subarray(0, bytes.length / 2), () => incoming.socket.end());
  }

  const port = await listen(server);
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    set: (next) => {
      decide = next;
      requests.length = 0;
    },
    stop: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

function refuse(outgoing: ServerResponse, { method, target }: AwsRequest, status: number, code: string): void {
  if (target !== undefined) {
    outgoing.writeHead(status, { "content-type": "application/x-amz-json-1.0" });
    outgoing.end(JSON.stringify({ __type: `com.amazonaws.sqs#${code}`, message: "a fault for a test" }));
    return;
  }
  outgoing.writeHead(status, { "content-type": "application/xml" });
  outgoing.end(
    method === "HEAD" ? undefined : `<Error><Code>${code}</Code><Message>a fault for a test</Message></Error>`,
  );
}

async function passOn(upstream: string, incoming: IncomingMessage, body: Buffer) {
  const headers = new Headers();
  for (const [name, value] of Object.entries(incoming.headers)) {
    if (typeof value === "string" && !/^(host|connection|content-length|expect|transfer-encoding)$/.test(name)) {
      headers.set(name, value);
    }
  }
  const method = incoming.method ?? "GET";
  const withBody = method !== "GET" && method !== "HEAD";
  const answer = await fetch(`${upstream}${incoming.url ?? ""}`, {
    method,
    headers,
    ...(withBody ? { body: new Uint8Array(body) } : {}),
  });
  const answered = [...answer.headers].filter(
    ([name]) => !/^(connection|content-length|transfer-encoding|content-encoding)$/.test(name),
  );
  return {
    status: answer.status,
    headers: Object.fromEntries(answered),
    bytes: Buffer.from(await answer.arrayBuffer()),
  };
}
