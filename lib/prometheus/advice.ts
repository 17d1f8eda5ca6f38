import type { ErrorCode } from "../errors.ts";
import { judgeRefusal } from "./refusals.ts";

const TLS = /CERT|TLS|SSL|UNABLE_TO_|EPROTO/;
/** Go's servers say so with a 400. */
const PLAIN_TO_TLS = /HTTP request to an HTTPS server/i;

/** The error code for a refusal, and what a person can do about it. */
export type Judged = { readonly code: ErrorCode; readonly advice: string };

/**
 * Judges an answer other than 2xx. `target` is where a redirect leads; `signed`: the request was signed for Amazon, so no
 * header or token of the settings counts.
 */
export function adviseOn(status: number, text: string, target: string, signed: boolean): Judged {
  const verdict = judgeRefusal(status, text);
  if (verdict === "too_large" || status === 504) {
    return {
      code: "prometheus_too_large",
      advice:
        "Raise the server's limits of a query (Prometheus: --query.max-samples, --query.timeout) and QUERY_TIMEOUT, or lower " +
        "QUERY_CONCURRENCY.",
    };
  }
  if (status === 401 || status === 403) return { code: "prometheus_auth", advice: authAdvice(text, signed) };
  if (status === 407) {
    return {
      code: "prometheus_auth",
      advice: "Write the proxy's user and password into the variable that names it: http://user:password@host:port.",
    };
  }
  if (PLAIN_TO_TLS.test(text)) {
    return { code: "prometheus_bad_answer", advice: "Write https:// instead of http:// in PROMETHEUS_SERVER." };
  }
  if (verdict === "passing" && status === 422) {
    return { code: "prometheus_unavailable", advice: "See that all its stores are up, then run again." };
  }
  if (status === 400 || status === 422) {
    return {
      code: "prometheus_bad_query",
      advice:
        "Check PROMETHEUS_LABELS, PROMETHEUS_LABEL_PREFIX and MONITORING_SELECTOR; `gridmeter plan` shows the queries.",
    };
  }
  if (status === 414)
    return { code: "prometheus_bad_query", advice: "Let the server, or the proxy before it, take POST." };
  if (status === 405 || status === 501) {
    return {
      code: "prometheus_bad_answer",
      advice:
        "Set PROMETHEUS_SERVER to the base of the Prometheus HTTP API, the part before /api/v1, and let the server, or the " +
        "proxy before it, take POST or GET there.",
    };
  }
  if (status === 429) {
    return { code: "prometheus_unavailable", advice: "Lower QUERY_CONCURRENCY, or run again later." };
  }
  if (status >= 500) return { code: "prometheus_unavailable", advice: "See that the server is up, then run again." };
  if (status < 400) {
    return {
      code: "prometheus_bad_answer",
      advice:
        `It redirects to ${target}, which is not followed because of the credentials. Set PROMETHEUS_SERVER to the ` +
        "final address; a redirect to a sign-in page means that PROMETHEUS_AUTH_HEADER is missing.",
    };
  }
  return {
    code: "prometheus_bad_answer",
    advice: "Set PROMETHEUS_SERVER to the base of the Prometheus HTTP API, the part before /api/v1.",
  };
}

function authAdvice(text: string, signed: boolean): string {
  if (/no org id/i.test(text)) return "Set PROMETHEUS_ORG_ID to the tenant's id (Mimir's X-Scope-OrgID).";
  if (!signed) return "Check PROMETHEUS_AUTH_HEADER or PROMETHEUS_TOKEN_FILE.";
  if (/signature (?:expired|not yet current)/i.test(text)) return "Set the clock of this machine.";
  return (
    "Check the AWS credentials that this program finds, their right aps:QueryMetrics on the workspace, and that " +
    "PROMETHEUS_SIGV4_REGION is the workspace's region."
  );
}

/** What to do about a TLS connection that was not made; undefined where the code is not about TLS. */
export function tlsAdvice(code: string, message: string): string | undefined {
  if (!TLS.test(code)) return undefined;
  if (/wrong version number|packet length too long/i.test(message)) {
    return "The server does not speak TLS there: check the port, or write http:// in PROMETHEUS_SERVER.";
  }
  if (/alert/i.test(`${code} ${message}`)) {
    return (
      "The server broke off the TLS handshake: it asks for a certificate of this client, or does not take the one it got. " +
      "Name a pair that its authority has signed in PROMETHEUS_CLIENT_CERT_FILE and PROMETHEUS_CLIENT_KEY_FILE."
    );
  }
  if (code === "CERT_HAS_EXPIRED") return "The server's certificate has expired: it must be renewed there.";
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") {
    return "The server's certificate is for other names: write one of them in PROMETHEUS_SERVER.";
  }
  return "The TLS connection failed: if the certificate is signed by an own CA, name its PEM file in PROMETHEUS_CA_FILE.";
}
