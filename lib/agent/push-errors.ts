// What the log says of pushes that fail: an outage of a day is one line, not one for each push.
import type { Outcome } from "./own-groups.ts";
import type { AgentLog } from "./schedule.ts";

/** What a failure is of: one group, or the gateway as a whole. */
type Source = { readonly group?: string };

const keyOf = ({ group }: Source): string => (group === undefined ? "gateway" : `group ${group}`);

/** So many different messages are logged of one failure: what a gateway answers must not fill the log. */
const MOST_SAID = 5;

/** More of what a gateway answered is not compared. */
const LONGEST_MESSAGE = 4096;

/**
 * What distinguishes one failure from another. Of a clash the gateway names series in any order, with their values, and either type as
 * the wrong one: there the first metric's name says enough.
 */
function essence({ result, status, message }: Outcome): string {
  const said = message.slice(0, LONGEST_MESSAGE);
  const name = /collected metric "?([a-zA-Z_:][a-zA-Z0-9_:]*)/.exec(said)?.[1];
  return `${result} ${status ?? ""} ${name ?? said.replaceAll(/\d+(?:\.\d+)?/g, "#")}`;
}

/** Logs what goes wrong with pushes, with what the gateway said: each thing once until it is over. */
export class ErrorLog {
  readonly #log: AgentLog;
  readonly #said = new Map<string, Set<string>>();

  constructor(log: AgentLog) {
    this.#log = log;
  }

  met(source: Source, outcome: Outcome): void {
    const { result, status, message } = outcome;
    const said = this.#said.get(keyOf(source)) ?? new Set();
    this.#said.set(keyOf(source), said);
    if (said.has(essence(outcome)) || said.size >= MOST_SAID) return;
    said.add(essence(outcome));
    const text =
      source.group === undefined
        ? "the Pushgateway does not take what is pushed; its newest values follow when it does"
        : "the Pushgateway does not take the data of this group; they were taken off it, and are tried again";
    this.#log.warn({ ...source, result, ...(status === undefined ? {} : { status }), reason: message }, text);
  }

  over(source: Source): void {
    if (!this.#said.delete(keyOf(source))) return;
    const what = source.group === undefined ? "what is pushed" : "the data of this group";
    this.#log.info(source, `the Pushgateway takes ${what} again`);
  }
}
