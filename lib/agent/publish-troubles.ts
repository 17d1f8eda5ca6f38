import type { Outcome } from "./publish-gateway.ts";
import type { AgentLog } from "./schedule-log.ts";

/** Whom a trouble is with: one group, or the gateway as a whole. */
export type Whom = { readonly group?: string };

const keyOf = ({ group }: Whom): string => (group === undefined ? "gateway" : `group ${group}`);

/** Tells of what goes wrong with pushes, with what the gateway said: once, and again only when it is something else. */
export class Troubles {
  readonly #log: AgentLog;
  readonly #said = new Map<string, string>();

  constructor(log: AgentLog) {
    this.#log = log;
  }

  met(whom: Whom, { result, status, message }: Outcome): void {
    // The gateway quotes the series with its value, which is another each time.
    const said = `${result} ${status ?? ""} ${message.replaceAll(/\d+(?:\.\d+)?/g, "#")}`;
    if (this.#said.get(keyOf(whom)) === said) return;
    this.#said.set(keyOf(whom), said);
    const text =
      whom.group === undefined
        ? "the Pushgateway does not take what is pushed; its newest values follow when it does"
        : "the Pushgateway does not take the data of this group; they were taken off it, and are tried again";
    this.#log.warn({ ...whom, result, ...(status === undefined ? {} : { status }), reason: message }, text);
  }

  over(whom: Whom): void {
    if (!this.#said.delete(keyOf(whom))) return;
    const what = whom.group === undefined ? "what is pushed" : "the data of this group";
    this.#log.info(whom, `the Pushgateway takes ${what} again`);
  }
}
