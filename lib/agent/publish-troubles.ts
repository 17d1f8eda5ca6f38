import type { Outcome } from "./publish-gateway.ts";
import type { AgentLog } from "./schedule-log.ts";

/** Whom a trouble is with: one group, or the gateway as a whole. */
export type Whom = { readonly group?: string };

const keyOf = ({ group }: Whom): string => (group === undefined ? "gateway" : `group ${group}`);

/** So many different things are said of one trouble, lest what a gateway answers fill the log. */
const MOST_SAID = 5;

/** More of what a gateway answered is not compared. */
const LONGEST = 4096;

/**
 * What tells one trouble from another. Of a clash the gateway names series in any order, with their values, and either type as
 * the wrong one: there the first metric's name says enough.
 */
function essence({ result, status, message }: Outcome): string {
  const said = message.slice(0, LONGEST);
  const name = /collected metric "?([a-zA-Z_:][a-zA-Z0-9_:]*)/.exec(said)?.[1];
  return `${result} ${status ?? ""} ${name ?? said.replaceAll(/\d+(?:\.\d+)?/g, "#")}`;
}

/** Tells of what goes wrong with pushes, with what the gateway said: each thing once until it is over. */
export class Troubles {
  readonly #log: AgentLog;
  readonly #said = new Map<string, Set<string>>();

  constructor(log: AgentLog) {
    this.#log = log;
  }

  met(whom: Whom, outcome: Outcome): void {
    const { result, status, message } = outcome;
    const said = this.#said.get(keyOf(whom)) ?? new Set();
    this.#said.set(keyOf(whom), said);
    if (said.has(essence(outcome)) || said.size >= MOST_SAID) return;
    said.add(essence(outcome));
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
