import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { finished } from "node:stream/promises";
import { errorText } from "../errors.ts";
import { LONGEST_BODY, PushgatewayError, authorities, nameOf, parseUrl } from "./gateway.ts";
import type { GatewayFailure, GatewayOptions } from "./gateway.ts";

/** A gateway needs seconds to write a list of hundreds of megabytes, before it sends the first byte of it. */
const DEADLINE_MS = 300_000;

/**
 * Asks a gateway and hands its answer over while it arrives, so that memory does not depend on its size. Returns once all of it was
 * there; what `take` throws comes out as it is.
 * @param lost what did not happen if this fails, for the error
 * @throws GridmeterError `pushgateway_failed`, also for an answer that was cut off, and `config_invalid`
 */
export async function readAnswer(
  url: string,
  path: string,
  options: GatewayOptions,
  lost: string,
  take: (chunk: Buffer) => void,
): Promise<void> {
  const { deadlineMs = DEADLINE_MS } = options;
  const base = parseUrl(url, lost);
  const deadline = AbortSignal.timeout(deadlineMs);
  const signal = options.signal === undefined ? deadline : AbortSignal.any([deadline, options.signal]);
  const failed = (failure: GatewayFailure, status: number | undefined, why: string, cause?: unknown) =>
    new PushgatewayError(
      failure,
      status,
      `${nameOf(base)} ${why}. ${lost}; nothing else was affected. Check PUSHGATEWAY_URL and the gateway.`,
      { cause: cause instanceof Error ? cause.message : cause },
    );
  const broken = (status: number | undefined, thrown: unknown): PushgatewayError => {
    if (signal.aborted) return failed("timeout", status, `did not answer within ${deadlineMs / 1000} s`);
    const what = status === undefined ? "could not be reached" : "broke its answer off";
    return failed("failed", status, `${what}: ${errorText(thrown)}`, thrown);
  };

  let answer: IncomingMessage;
  try {
    answer = await open(new URL(base.href.replace(/\/+$/, "") + path), options, signal);
  } catch (thrown) {
    throw broken(undefined, thrown);
  }
  const status = answer.statusCode ?? 0;
  if (status !== 200) {
    const said = (await beginningOf(answer)).trim();
    const failure = status >= 300 && status < 400 ? "redirected" : status >= 400 && status < 500 ? "refused" : "failed";
    throw failed(failure, status, `answered ${status}${said === "" ? "" : ` (${said})`}`);
  }
  let refusal: unknown;
  answer.on("data", (chunk: Buffer) => {
    try {
      if (refusal === undefined) take(chunk);
    } catch (thrown) {
      refusal = thrown;
      answer.destroy();
    }
  });
  await finished(answer).catch((thrown: unknown) => (refusal ??= broken(status, thrown)));
  if (refusal !== undefined) throw refusal;
}

/** A redirect is not followed: it would take the credentials elsewhere. */
async function open(url: URL, options: GatewayOptions, signal: AbortSignal): Promise<IncomingMessage> {
  const { authHeader, caFile, connections } = options;
  const headers = authHeader === undefined ? {} : { authorization: authHeader };
  const asked =
    url.protocol === "https:"
      ? httpsRequest(url, { headers, signal, ...(connections ? { agent: connections.https } : authorities(caFile)) })
      : httpRequest(url, { headers, signal, ...(connections ? { agent: connections.http } : {}) });
  // Once the answer has begun, what breaks is an error of the answer's too, and there it is dealt with.
  asked.on("error", () => {});
  asked.end();
  const [answer] = await once(asked, "response");
  return answer;
}

/** The first words of an answer; of one that breaks, what was there. */
async function beginningOf(answer: IncomingMessage): Promise<string> {
  let text = "";
  try {
    for await (const chunk of answer.setEncoding("utf8")) {
      text += String(chunk);
      if (text.length >= LONGEST_BODY) break;
    }
  } catch {
    // What it said so far has to do.
  }
  return text.slice(0, LONGEST_BODY);
}
