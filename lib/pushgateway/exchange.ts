import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { finished } from "node:stream/promises";
import { errorText } from "../errors.ts";
import { hiderOf, secretsOfAddress, secretsOfHeader } from "../secrets.ts";
import { nameOf, parseUrl } from "./address.ts";
import { keepConnections } from "./connections.ts";
import type { Connections } from "./connections.ts";
import { PushgatewayError, failureOf } from "./failure.ts";
import type { GatewayFailure } from "./failure.ts";
import { beginningOf, send } from "./request.ts";
import type { GatewayRequest } from "./request.ts";

export type GatewayOptions = {
  /** value of the Authorization header, e.g. `Bearer ...`; user and password in the URL are sent as Basic authentication */
  readonly authHeader?: string;
  /** PEM file of a further authority to trust */
  readonly caFile?: string;
  /** for the whole exchange, connecting included, milliseconds */
  readonly deadlineMs?: number;
  /** connections that are kept for the next exchange; they bring their own authorities, and `caFile` does not count then */
  readonly connections?: Connections;
  /** gives the exchange up before its deadline */
  readonly signal?: AbortSignal;
};

/** Characters of an answer that are quoted. */
const LONGEST_BODY = 300;
/** Characters of an answer that are looked at for secrets. */
const LOOKED_AT = 10_000;

/**
 * Asks a gateway and hands its answer over while it arrives, so that memory does not depend on its size. Returns once all of it
 * was there, and gives its headers; what `take` throws comes out as it is. On Node's own client: the agent lives long, and axios takes 5 MB.
 * @throws GridmeterError `pushgateway_failed`, also for an answer that was cut off, and `config_invalid`
 */
export async function exchange(
  url: string,
  request: GatewayRequest,
  options: GatewayOptions,
  take: (chunk: Buffer) => void,
): Promise<IncomingHttpHeaders> {
  const { lost, largestAnswer = Infinity } = request;
  const { deadlineMs = request.usualDeadlineMs, authHeader } = options;
  const base = parseUrl(url, lost);
  const connections = options.connections ?? keepConnections(options.caFile);
  const deadline = AbortSignal.timeout(deadlineMs);
  const signal = options.signal === undefined ? deadline : AbortSignal.any([deadline, options.signal]);
  // A gateway, or what stands before it, may repeat what it was sent. Made where something failed: an agent pushes all the time.
  const hide = (text: string): string => hiderOf([...secretsOfHeader(authHeader), ...secretsOfAddress(base)])(text);
  const failed = (failure: GatewayFailure, status: number | undefined, why: string, cause?: unknown) =>
    new PushgatewayError(
      failure,
      status,
      `${nameOf(base)} ${hide(why)}. ${lost}; nothing else was affected. Check PUSHGATEWAY_URL and the gateway.`,
      { cause: cause instanceof Error ? hide(cause.message) : cause },
    );
  const broken = (status: number | undefined, thrown: unknown): PushgatewayError => {
    if (signal.aborted) return failed("timeout", status, `did not answer within ${deadlineMs / 1000} s`);
    const what = status === undefined ? "could not be reached" : "broke its answer off";
    return failed("failed", status, `${what}: ${wordsOf(thrown)}`, thrown);
  };

  let answer: IncomingMessage | undefined;
  try {
    answer = await send(base, request, connections, signal, authHeader).catch((thrown: unknown) => {
      throw broken(undefined, thrown);
    });
    const status = answer.statusCode ?? 0;
    if (status < 200 || status >= 300) {
      // Hidden before it is cut, or the beginning of a secret could be left.
      const said = hide(await beginningOf(answer, LOOKED_AT))
        .trim()
        .slice(0, LONGEST_BODY);
      throw failed(failureOf(status), status, `answered ${status}${said === "" ? "" : ` (${said})`}`);
    }
    let bytes = 0;
    let refusal: unknown;
    answer.on("data", (chunk: Buffer) => {
      if (refusal !== undefined) return;
      bytes += chunk.length;
      try {
        if (bytes > largestAnswer)
          throw failed("failed", status, `answered with more than ${megabytes(largestAnswer)}`);
        take(chunk);
      } catch (thrown) {
        refusal = thrown;
        answer?.destroy();
      }
    });
    await finished(answer).catch((thrown: unknown) => (refusal ??= broken(status, thrown)));
    if (refusal !== undefined) throw refusal;
    return answer.headers;
  } finally {
    answer?.destroy();
    if (options.connections === undefined) connections.close();
  }
}

const megabytes = (bytes: number): string => `${Math.floor(bytes / 2 ** 20)} MiB`;

/** Where a name has several addresses and none answers, the error's own text is empty. */
const wordsOf = (thrown: unknown): string =>
  thrown instanceof AggregateError ? thrown.errors.map(errorText).join(", ") : errorText(thrown);
