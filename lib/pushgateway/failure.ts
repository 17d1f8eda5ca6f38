import { GridmeterError } from "../errors.ts";

/**
 * How an exchange failed: `refused` by the gateway (4xx), `redirected` (which is not followed), `timeout` at the deadline, and
 * `failed` for the rest: no connection, a broken one, a 5xx.
 */
export type GatewayFailure = "refused" | "redirected" | "timeout" | "failed";

/** An exchange with a gateway that failed. */
export class PushgatewayError extends GridmeterError {
  readonly failure: GatewayFailure;
  /** the status of the answer, if there was one */
  readonly status: number | undefined;

  constructor(failure: GatewayFailure, status: number | undefined, message: string, options: ErrorOptions = {}) {
    super("pushgateway_failed", message, options);
    this.failure = failure;
    this.status = status;
  }
}

/** What a status other than 2xx comes to. */
export function failureOf(status: number): GatewayFailure {
  if (status >= 300 && status < 400) return "redirected";
  return status >= 400 && status < 500 ? "refused" : "failed";
}
