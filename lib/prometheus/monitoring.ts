import { ownText } from "../accounting/columns.ts";
import type { Monitoring, Only, Row, Window } from "../accounting/ports.ts";
import type { Selection } from "../accounting/tenant.ts";
import { chunks } from "../chunks.ts";
import type { Client } from "./connection.ts";
import { findSeen } from "./evidence.ts";
import { findNamespaces } from "./namespaces.ts";
import { oneOf, uidPattern } from "./labels.ts";
import { factQuery, failedQuery } from "./queries.ts";
import { rowReader } from "./rows.ts";
import type { RowReader } from "./rows.ts";
import { findVoLabel } from "./vo-label.ts";

/** Pods named one by one in a query, with a prefix twice: VictoriaMetrics takes no query longer than 16 KiB. */
const NAMED_AT_ONCE = { plain: 400, prefixed: 200 };
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
      for (const part of asked(only, selection)) {
        const query = factQuery(fact, selection, window, part);
        const open = await gatherRows(client, reader, query, window.to, noneOpen, (into, row) => {
          take(row);
          into.pods += 1;
          if (fact === "finished" && row.value < 1) into.uids.push(ownText(row.uid));
        });
        if (fact === "finished") await takeFailed(client, selection, window, part, open, take);
      }
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

const mostNamed = ({ labelPrefix }: Selection): number =>
  labelPrefix === "" ? NAMED_AT_ONCE.plain : NAMED_AT_ONCE.prefixed;

/** The pods asked for, in parts that fit into a query. */
function asked(only: Only | undefined, selection: Selection): readonly (Only | undefined)[] {
  if (only === undefined || !("uids" in only)) return [only];
  return chunks(only.uids, mostNamed(selection)).map((uids) => ({ uids }));
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
  const most = mostNamed(selection);
  const all = open.uids.length > most && open.uids.length > open.pods * MOST_BY_NAME;
  const reader = rowReader("finished", selection);
  for (const uids of all ? [uidPattern(only)] : chunks(open.uids, most).map(oneOf)) {
    const query = failedQuery(selection, window, uids);
    await gatherRows(client, reader, query, window.to, nothing, (_into, row) => take(row));
  }
}
