import { Agent } from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import { rootCertificates } from "node:tls";
import { type AxiosResponse, create } from "axios";
import { z } from "zod";
import { GridmeterError } from "../../shared/errors.ts";
import { hiderOfRequest } from "../../shared/proxy.ts";
import { parseJson } from "../../shared/text.ts";
import type { HostIdentity } from "./host-certificate.ts";
import { type AmsPlace, type Asked, badAnswer, broken, isPassing, refused } from "./ams-errors.ts";

export type AmsOptions = {
  /** A token that somebody gave, asked for each time that one is needed; without it the certificate gets one. */
  readonly token?: () => string;
  /** PEM texts of further authorities to trust */
  readonly authorities?: readonly string[];
  /** of the first wait before a request is repeated, milliseconds; it doubles each time */
  readonly firstWaitMs?: number;
  /** for one request and its answer, milliseconds */
  readonly deadlineMs?: number;
};

/** One request and its answer take no longer, seconds. A lease on a unit is longer (`delivery/lease.ts`). */
export const REQUEST_SECONDS = 60;
/** A message of the service is a few hundred bytes; a web page in its place is longer, and not needed. */
const LARGEST_ANSWER = 1_000_000;
const TRIES = 4;
const FIRST_WAIT = 1000;

const tokenAnswer = z.object({ token: z.string().min(1) });
const publishAnswer = z.object({ messageIds: z.tuple([z.string().min(1)]) });
const topicAnswer = z.object({ name: z.string() });

/** A signed message, and the id by which the receiver's log calls it: hexadecimal digits and `/` only. */
export type AmsMessage = { readonly id: string; readonly signed: string };

/** What comes before each request: a lease that is to outlive it, say. What it throws ends the sending. */
type BeforeRequest = () => Promise<void>;

/** The answer to "is the topic there": `hidden` where the token may publish and not ask. */
export type TopicAnswer = "there" | "hidden";

/** A client of the Argo messaging service (v1). A token is fetched once, and once more where it is refused. */
export class AmsClient {
  readonly place: AmsPlace;
  readonly #identity: HostIdentity;
  readonly #options: AmsOptions;
  readonly #authn: Agent;
  readonly #publishing: Agent;
  readonly #http;
  #token: string | undefined;

  constructor(place: AmsPlace, identity: HostIdentity, options: AmsOptions = {}) {
    this.place = place;
    this.#identity = identity;
    this.#options = options;
    const { authorities = [] } = options;
    const trust = authorities.length === 0 ? {} : { ca: [...rootCertificates, ...authorities] };
    this.#publishing = new Agent({ keepAlive: true, ...trust });
    // The certificate is shown where it is asked for, and nowhere else.
    this.#authn = new Agent({ ...trust, ...identity.pem });
    this.#http = create({
      // A redirect would take the token elsewhere.
      maxRedirects: 0,
      validateStatus: () => true,
      responseType: "text",
      transformResponse: (data: unknown) => data,
      maxContentLength: LARGEST_ANSWER,
      headers: { "Accept-Encoding": "identity", Accept: "application/json" },
    });
  }

  /** Frees the connections. */
  close(): void {
    this.#publishing.destroy();
    this.#authn.destroy();
  }

  /**
   * Publishes one message and gives the id that AMS gave it. Where an answer is lost it may be there twice, which is harmless (APEL:
   * records replace).
   * @throws GridmeterError `ams_...`; `message_too_large` where AMS says so
   */
  async publish({ id, signed }: AmsMessage, before: BeforeRequest = async () => undefined): Promise<string> {
    const data = Buffer.from(signed, "latin1").toString("base64");
    const body = JSON.stringify({ messages: [{ attributes: { empaid: id }, data }] });
    const path = `${this.#topicPath()}:publish`;
    const answer = await this.#withToken({ what: "publish", method: "POST", path, body }, before);
    return this.#read(answer, publishAnswer, "publish").messageIds[0];
  }

  /** Asks for a token and for the topic, and sends nothing. @throws GridmeterError `ams_...` */
  async look(): Promise<TopicAnswer> {
    const answer = await this.#withToken({ what: "topic", method: "GET", path: this.#topicPath() });
    if (answer.status === 403) return "hidden";
    this.#read(answer, topicAnswer, "topic");
    return "there";
  }

  #topicPath(): string {
    const { project, topic } = this.place;
    return `/v1/projects/${encodeURIComponent(project)}/topics/${encodeURIComponent(topic)}`;
  }

  async #withToken(request: Request, before?: BeforeRequest): Promise<AxiosResponse<string>> {
    for (let first = true; ; first = false) {
      const token = (this.#token ??= await this.#newToken(before));
      const answer = await this.#ask({ ...request, token }, before);
      const { status } = answer;
      if (status >= 200 && status < 300) return answer;
      if (status === 403 && request.what === "topic") return answer;
      if (status !== 401) throw refused(request.what, answer, this.#source(token));
      this.#token = undefined;
      // A token may have ended in the middle.
      if (!first || this.#options.token?.() === token) throw refused(request.what, answer, this.#source(token));
    }
  }

  async #newToken(before?: BeforeRequest): Promise<string> {
    const { token } = this.#options;
    if (token !== undefined) return token();
    const path = `/v1/service-types/ams/hosts/${encodeURIComponent(this.place.host)}:authx509`;
    const answer = await this.#ask({ what: "token", method: "GET", path }, before);
    if (answer.status !== 200) throw refused("token", answer, this.#source());
    return this.#read(answer, tokenAnswer, "token").token;
  }

  /** Asks, and asks again where that may help. */
  async #ask(request: Request & { readonly token?: string }, before?: BeforeRequest): Promise<AxiosResponse<string>> {
    const { firstWaitMs = FIRST_WAIT } = this.#options;
    for (let tries = 1; ; tries += 1) {
      await before?.();
      const result = await this.#once(request);
      const passing = result instanceof GridmeterError ? result.retryable : isPassing(result.status);
      if (!passing || tries === TRIES) {
        if (result instanceof GridmeterError) throw result;
        return result;
      }
      // Random, so that several senders do not knock together at a service that comes back.
      await sleep(firstWaitMs * 2 ** (tries - 1) * (0.5 + Math.random() / 2));
    }
  }

  async #once({ what, method, path, body, token }: Request & { readonly token?: string }) {
    const { deadlineMs = REQUEST_SECONDS * 1000 } = this.#options;
    const { host } = this.place;
    const isAuthn = what === "token";
    const url = `https://${host}:${isAuthn ? this.place.authnPort : this.place.port}${path}`;
    const signal = AbortSignal.timeout(deadlineMs);
    try {
      return await this.#http.request<string>({
        method,
        url,
        signal,
        httpsAgent: isAuthn ? this.#authn : this.#publishing,
        ...(body === undefined ? {} : { data: body }),
        headers: {
          ...(body === undefined ? {} : { "Content-Type": "application/json" }),
          ...(token === undefined ? {} : { "x-api-key": token }),
        },
      });
    } catch (thrown) {
      return broken(what, thrown, this.#source(token), signal.aborted ? deadlineMs / 1000 : undefined);
    }
  }

  #read<T>(answer: AxiosResponse<string>, schema: z.ZodType<T>, what: Asked): T {
    const parsed = schema.safeParse(parseJson(answer.data));
    if (parsed.success) return parsed.data;
    throw badAnswer(what, answer, this.#source(this.#token));
  }

  #source(token?: string) {
    return {
      place: this.place,
      name: this.#identity.name,
      hide: hiderOfRequest(new URL(`https://${this.place.host}`), token),
      given: this.#options.token !== undefined,
    };
  }
}

type Request = {
  readonly what: Asked;
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: string;
};
