import { ownText } from "../accounting/columns.ts";
import type { Fact, Monitoring, Only, Row, Window } from "../accounting/ports.ts";
import type { Selection } from "../accounting/tenant.ts";
import { chunks } from "../chunks.ts";
import type { Client } from "./connection.ts";
import { QueryTooLong } from "./failures.ts";
import { evidenceOf, evidenceQuery, findSeen } from "./evidence.ts";
import { findNamespaces, glanceQuery, namespacesQuery } from "./namespaces.ts";
import { uidPattern } from "./labels.ts";
import { factQuery, failedQuery, voLabelQuery } from "./queries.ts";
import { rowReader } from "./rows.ts";
import type { RowReader } from "./rows.ts";
import { findVoLabel } from "./vo-label.ts";

/** Pods named one by one in a query: VictoriaMetrics takes no query longer than 16 KiB, and some facts name them twice or more. */
const NAMED_AT_ONCE = 400;
/** Where more than this share of the pods did not succeed, all are asked for failures rather than each by name. */
const MOST_BY_NAME = 0.25;

/**
 * The monitoring of one tenant over a Prometheus HTTP API. Values are handed on as they are: NaN and infinities are the
 * caller's to refuse (`sample_invalid`). Errors: the `prometheus_*` codes; `config_invalid` for `vo` without a VO label.
 */
export function createMonitoring(client: Client, selection: Selection): Monitoring {
  return {
    facts: async (fact, window, take, only) => {
      const reader = rowReader(fact, selection);
      await inQueries(only, async (part) => {
        const query = factQuery(fact, selection, window, part);
        const open = await gatherRows(client, reader, query, window.to, noneOpen, (into, row) => {
          take(row);
          into.pods += 1;
          if (fact === "finished" && row.value < 1) into.uids.push(ownText(row.uid));
        });
        if (fact === "finished") await takeFailed(client, selection, window, part, open, take);
      });
    },
    clock: () => performance.now() / 1000,
    seen: (window) => findSeen(client, selection, window),
    namespaces: (window) => findNamespaces(client, selection, window),
    voLabelSeen: async (window) => selection.voLabel !== undefined && findVoLabel(client, selection, window),
  };
}

/** Hands over the rows of an answer; every try begins anew with what `begin` gives. */
function gatherRows<T>(
  client: Client,
  reader: RowReader,
  query: string,
  at: number,
  begin: () => T,
  add: (into: T, row: Row) => void,
): Promise<T> {
  const addAny = (into: T, row: Row | undefined): void => {
    if (row !== undefined) add(into, row);
  };
  if (reader.label === undefined)
    return client.gather(query, at, begin, (into, sample) => addAny(into, reader.ofSample(sample)));
  return client.gatherBy(reader.label, query, at, begin, (into, text, value) =>
    addAny(into, reader.ofText(text, value)),
  );
}

/**
 * Asks about pods in parts that fit into a query: where the server finds a query too long, its pods are asked for in halves.
 * Rows of such a part may come again.
 */
async function inQueries(only: Only | undefined, ask: (part: Only | undefined) => Promise<void>): Promise<void> {
  if (only === undefined || !("uids" in only)) return ask(only);
  for (const uids of chunks(only.uids, NAMED_AT_ONCE)) {
    try {
      await ask({ uids });
    } catch (thrown) {
      if (!(thrown instanceof QueryTooLong) || uids.length === 1) throw thrown;
      for (const half of chunks(uids, Math.ceil(uids.length / 2))) await inQueries({ uids: half }, ask);
    }
  }
}

/** How many pods there are, and those that did not succeed. */
type Open = { pods: number; readonly uids: string[] };
const noneOpen = (): Open => ({ pods: 0, uids: [] });
const nothing = (): undefined => undefined;

/** Takes those that failed among the pods that did not succeed. */
async function takeFailed(
  client: Client,
  selection: Selection,
  window: Window,
  only: Only | undefined,
  open: Open,
  take: (row: Row) => void,
): Promise<void> {
  const all = open.uids.length > NAMED_AT_ONCE && open.uids.length > open.pods * MOST_BY_NAME;
  const reader = rowReader("finished", selection);
  await inQueries(all ? only : { uids: open.uids }, async (part) => {
    const query = failedQuery(selection, window, uidPattern(part));
    await gatherRows(client, reader, query, window.to, nothing, (_into, row) => take(row));
  });
}

const FACTS: readonly Fact[] = [
  "end",
  "name",
  "start",
  "finished",
  "cores",
  "unscheduledCores",
  "vo",
  "cpu",
  "memoryRequest",
  "unscheduledMemoryRequest",
  "memoryUsed",
];

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
    { asks: "finished", query: failedQuery(selection, window, undefined) },
  ];
}
