import { type AxiosResponse, isAxiosError } from "axios";
import { z } from "zod";
import { GridmeterError, errorText } from "../../shared/errors.ts";
import { proxyAdvice, unusableProxy } from "../../shared/proxy.ts";
import { parseJson } from "../../shared/text.ts";

/** APEL's messaging service, as the settings name it. */
export type AmsPlace = {
  readonly host: string;
  readonly port: number;
  /** of the service that gives a token for a certificate */
  readonly authnPort: number;
  readonly project: string;
  readonly topic: string;
};

/** What was asked for: a token for the certificate, the topic, or that a message be published. */
export type Asked = "token" | "topic" | "publish";

/** What an error says of the service, and how it hides the token. */
export type AmsSource = {
  readonly place: AmsPlace;
  /** of the certificate */
  readonly name: string;
  readonly hide: (text: string) => string;
  /** the token was given by the settings */
  readonly given: boolean;
};

/** Words of an answer that are quoted. */
const QUOTED = 300;
const NOTHING = "The message was not sent and stays where it is.";

/** Answers after which the same request may succeed. */
export function isPassing(status: number): boolean {
  return status === 408 || status === 429 || (status >= 500 && status !== 501 && status !== 505);
}

/** Where AMS was asked, as errors call it. */
function addressOf({ place }: AmsSource, what: Asked): string {
  return what === "token" ? `${place.host}:${place.authnPort} (authn)` : `${place.host}:${place.port}`;
}

/** The error for an answer that is no success. */
export function refused(what: Asked, answer: AxiosResponse<string>, source: AmsSource): GridmeterError {
  const { status } = answer;
  const said = wordsOf(answer, source);
  const start = `AMS at ${addressOf(source, what)} answered ${status}${said === "" ? "" : `: ${said}`}.`;
  const proxy = proxyAdvice(answer.request, new URL(`https://${source.place.host}`));
  const error = (code: "ams_auth" | "ams_refused" | "ams_unavailable" | "message_too_large", text: string) =>
    new GridmeterError(code, `${start} ${NOTHING} ${text}${proxy}`);
  if (isPassing(status)) return error("ams_unavailable", "The service is at fault or busy: send again later.");
  if (status >= 300 && status < 400) return badAnswer(what, answer, source);
  if (what === "token") return error("ams_auth", tokenAdvice(status, source));
  switch (status) {
    case 401:
      return error(
        "ams_auth",
        source.given
          ? "The token of AMS_TOKEN_FILE (or of ssmsend's configuration) is not taken: put a new one there, or leave it out, and the certificate gets one."
          : "A new token was fetched once and is not taken either: ask the service's operators (EGI helpdesk).",
      );
    case 403:
      return error(
        "ams_auth",
        `Let ${source.name} publish to ${source.place.project}/${source.place.topic}: see that GOCDB holds this name for the site's endpoint of the type gLite-APEL.`,
      );
    case 404:
      return error(
        "ams_refused",
        `There is no topic ${source.place.topic} in the project ${source.place.project} (AMS_TOPIC, AMS_PROJECT), or AMS_HOST is another service.`,
      );
    case 413:
      return error("message_too_large", "The message is larger than the service takes.");
    default:
      return error("ams_refused", "See to the cause named here and send again.");
  }
}

function tokenAdvice(status: number, { name, place }: AmsSource): string {
  switch (status) {
    case 400:
      return "No certificate came through: see whether a proxy in between ends the TLS connection, and name the host in NO_PROXY.";
    case 403:
      return `The certificate of ${name} has expired, is not valid yet, or was revoked: renew it.`;
    case 404:
      return `${name} is not registered with ${place.host}: GOCDB is to hold it for the site's endpoint of the type gLite-APEL, for some hours.`;
    default:
      return "See to the cause named here and send again.";
  }
}

/** The error for an answer that AMS does not give: a web page, a redirect, JSON of another shape. */
export function badAnswer(what: Asked, answer: AxiosResponse<string>, source: AmsSource): GridmeterError {
  const { status, headers } = answer;
  const { location } = locationOf.catch({}).parse(headers);
  const to = location === undefined ? "" : ` to ${JSON.stringify(location.split(/[?#]/, 1)[0])}`;
  const kind =
    status >= 300 && status < 400
      ? `sends elsewhere (${status}${to})`
      : `answered ${status} with what AMS does not say`;
  const said = wordsOf(answer, source);
  const proxy = proxyAdvice(answer.request, new URL(`https://${source.place.host}`));
  const text = `${addressOf(source, what)} ${kind}${said === "" ? "" : `: ${said}`}. ${NOTHING} See whether AMS_HOST and its ports name APEL's messaging service, and whether something in between answers in its place.${proxy}`;
  return new GridmeterError("ams_bad_answer", text);
}

const locationOf = z.object({ location: z.string().optional() });
const errorBody = z.object({ error: z.object({ message: z.string(), status: z.string().optional() }) });

/** The service's own words, or the beginning of whatever came. */
function wordsOf({ data }: AxiosResponse<string>, { hide }: AmsSource): string {
  const start = hide(data).slice(0, 10_000);
  const body = errorBody.safeParse(parseJson(start));
  if (!body.success) return start.trim() === "" ? "" : `"${start.replaceAll(/\s+/g, " ").trim().slice(0, QUOTED)}"`;
  const { status, message } = body.data.error;
  return [status, message]
    .filter((part) => part !== undefined && part !== "")
    .join(" ")
    .slice(0, QUOTED);
}

/**
 * The error for a request to which no whole answer came.
 * @param seconds the deadline, where it was that
 */
export function broken(what: Asked, thrown: unknown, source: AmsSource, seconds: number | undefined): GridmeterError {
  const base = new URL(`https://${source.place.host}`);
  const address = addressOf(source, what);
  const unusable = unusableProxy(thrown, base, "Nothing was sent");
  if (unusable !== undefined) return unusable;
  if (!isAxiosError(thrown)) throw thrown;
  const { code = "", message, response } = thrown;
  const text = source.hide(message.includes(code) ? message : `${code}: ${message}`);
  const proxy = proxyAdvice(thrown.request ?? response?.request, base, code);
  if (seconds !== undefined) {
    const slow = `${address} did not answer within ${seconds} s. ${NOTHING} Send again later.${proxy}`;
    return new GridmeterError("ams_unreachable", slow);
  }
  const tls = tlsAdvice(code, message, source);
  if (tls !== undefined)
    return new GridmeterError("ams_tls", `No TLS connection to ${address} (${text}). ${NOTHING} ${tls}${proxy}`);
  const advice = "See that AMS_HOST and its port are right and can be reached from here (network, firewall, NAT).";
  const error = `No answer from ${address} (${text}). ${NOTHING} ${advice}${proxy}`;
  return new GridmeterError("ams_unreachable", error, { cause: new Error(errorText(thrown)) });
}

/** What to do about a TLS handshake that the next one will not mend. */
function tlsAdvice(code: string, message: string, { name }: AmsSource): string | undefined {
  if (/wrong.version.number|packet length too long|http request/i.test(message))
    return "What answers there does not speak TLS: AMS does, so the port or the host is another one's.";
  if (/CERT_ALTNAME/.test(code)) return "The certificate there is of another host: correct AMS_HOST.";
  if (/CERT_HAS_EXPIRED|CERT_NOT_YET_VALID/.test(code))
    return "The certificate there is not valid now: see this host's clock.";
  if (/SELF_SIGNED|UNABLE_TO_(?:GET|VERIFY)|CERT_|ISSUER/.test(code))
    return "Its authority is not trusted here: name the file with the authority's certificate in AMS_CA_FILE.";
  if (/alert|_ALERT_/i.test(`${code} ${message}`))
    return `The service did not take the certificate of ${name}: see that it is valid and of an authority that the service trusts.`;
  return undefined;
}
