import type { Fact, Monitoring, Window } from "../accounting/ports.ts";
import type { Selection } from "../accounting/tenant.ts";
import type { Client } from "./connection.ts";
import { evidenceOf, evidenceQuery, findSeen } from "./evidence.ts";
import { findNamespaces, glanceQuery, namespacesQuery } from "./namespaces.ts";
import { factQuery, voLabelQuery } from "./queries.ts";
import { rowsOf } from "./rows.ts";

/**
 * The monitoring of one tenant over a Prometheus HTTP API. Values are handed on as they are: NaN and infinities are the
 * caller's to refuse (`sample_invalid`). Errors: the `prometheus_*` codes; `config_invalid` for `vo` without a VO label.
 */
export function createMonitoring(client: Client, selection: Selection): Monitoring {
  return {
    facts: async (fact, window, prefixes) => {
      const query = factQuery(fact, selection, window, prefixes);
      return rowsOf(fact, selection, await client.instant(query, window.to));
    },
    seen: (window) => findSeen(client, selection, window),
    namespaces: (window) => findNamespaces(client, selection, window),
    voLabelSeen: async (window) => {
      if (selection.voLabel === undefined) return false;
      return (await client.instant(voLabelQuery(selection, window), window.to)).length > 0;
    },
  };
}

const FACTS: readonly Fact[] = ["end", "start", "finished", "cores", "vo", "cpu", "memoryRequest", "memoryUsed"];

/** The PromQL texts that a run may send about one tenant and window, each with what it asks for (for `gridmeter plan`). */
export function queriesFor(
  selection: Selection,
  window: Window,
): readonly { readonly asks: string; readonly query: string }[] {
  const facts = FACTS.filter((fact) => fact !== "vo" || selection.voLabel !== undefined);
  return [
    ...evidenceOf(selection).map((evidence) => ({ asks: "seen", query: evidenceQuery(evidence) })),
    { asks: "namespaces", query: namespacesQuery(selection, window) },
    { asks: "namespaces", query: glanceQuery(selection) },
    ...(selection.voLabel === undefined ? [] : [{ asks: "voLabelSeen", query: voLabelQuery(selection, window) }]),
    ...facts.map((fact) => ({ asks: fact, query: factQuery(fact, selection, window) })),
  ];
}
