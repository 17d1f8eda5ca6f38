import { chunks } from "../../shared/lists.ts";
import type { Fact, Monitoring, Only, Presence, Row, Window } from "../model/monitoring.ts";
import type { Selection } from "../model/tenant.ts";
import { type Spelling, labelValue, narrowedTo, renamedPrefix, spellings, uidLabels } from "./labels.ts";
import { inParts } from "../model/split.ts";
import { DAY, HOUR } from "../model/time.ts";
import type { Client } from "./client.ts";
import { QueryTooLong } from "./errors.ts";
import { findNamespaces, findStrayPrefix } from "./namespaces.ts";
import {
  type SeriesOf,
  copyQueries,
  factQuery,
  presenceQueries,
  sampleQuery,
  sightQuery,
  splitLabelQuery,
  voLabelQuery,
} from "./queries.ts";
import type { Sample } from "./response.ts";
import { checkedUid, rowReader } from "./rows.ts";
import { findSeen } from "./seen.ts";

/** Pods named one by one in a query: VictoriaMetrics takes no query longer than 16 KiB, and some facts name them twice or more. */
const NAMED_AT_ONCE = 400;
/** A sample of uids is taken from so many parts of a window. */
const SAMPLED_AT = 4;

/**
 * The monitoring of one tenant over a Prometheus HTTP API. Values are handed on as they are: NaN and infinities are the
 * caller's to refuse (`sample_invalid`). Errors: the `prometheus_*` codes; `config_invalid` for `vo` without a VO label.
 * @param tenantNamespaces the namespaces of all tenants, whose pods may stop at any time
 */
export function createMonitoring(
  client: Client,
  selection: Selection,
  tenantNamespaces: readonly string[] = [selection.namespace],
): Monitoring {
  return {
    facts: async (fact, window, take, only) => {
      for (const spelling of spellings(selection))
        await inQueries(only, (part) => askFact(client, selection, spelling, fact, window, take, part));
    },
    seen: (window) => findSeen(client, selection, window, tenantNamespaces),
    presence: (of, window) => findPresence(client, selection, of, window),
    sample: (window, most) => findSample(client, selection, window, most),
    namespaces: (window) => findNamespaces(client, selection, window),
    strayPrefix: (window) => findStrayPrefix(client, selection, window),
    voLabelSeen: async (window) => selection.voLabel !== undefined && findVoLabel(client, selection, window),
    voLabelSplit: async (window) => (selection.voLabel === undefined ? 0 : countSplitLabels(client, selection, window)),
  };
}

/**
 * Asks about pods in parts that fit into a query: where the server finds a query too long, its pods are asked for in halves.
 * Rows of such a part may come again.
 */
async function inQueries(only: Only | undefined, ask: (part: Only | undefined) => Promise<void>): Promise<void> {
  if (only === undefined || !("uids" in only)) return ask(only);
  const askPart = async (uids: readonly string[]): Promise<void> => {
    try {
      await ask({ uids });
    } catch (thrown) {
      if (!(thrown instanceof QueryTooLong) || uids.length === 1) throw thrown;
      for (const half of chunks(uids, Math.ceil(uids.length / 2))) await askPart(half);
    }
  };
  // The first shows how the server takes questions; the others need not find that out again.
  const [first = [], ...others] = chunks(only.uids, NAMED_AT_ONCE);
  await askPart(first);
  await Promise.all(others.map(askPart));
}

/** Asks one fact in one spelling. */
async function askFact(
  client: Client,
  selection: Selection,
  spelling: Spelling,
  fact: Fact,
  window: Window,
  take: (row: Row) => void,
  only: Only | undefined,
): Promise<void> {
  switch (fact) {
    case "lastDay":
      return askLastDay(client, selection, spelling, window, take, only);
    case "coresAt":
      return askCopies(client, selection, spelling, "cpu", window, take, only);
    case "memoryRequestAt":
      return askCopies(client, selection, spelling, "memory", window, take, only);
    default: {
      const rowOf = rowReader(fact, selection, spelling);
      const query = factQuery(fact, selection, spelling, window, only);
      await client.stream(query, window.to, (sample) => {
        const row = rowOf(sample);
        if (row !== undefined) take(row);
      });
    }
  }
}

/** A range query has a point at the end of each day on which a pod was seen. Of less than a day, no more than that is asked. */
async function askLastDay(
  client: Client,
  selection: Selection,
  spelling: Spelling,
  { from, to }: Window,
  take: (row: Row) => void,
  only: Only | undefined,
): Promise<void> {
  const first = (Math.floor(from / DAY) + 1) * DAY;
  const last = Math.ceil(to / DAY) * DAY;
  const asked =
    to - from < DAY
      ? [
          { from, to: Math.min(to, first) },
          { from: first, to },
        ].map((part) => ({ first: part.to, last: part.to, seconds: part.to - part.from }))
      : [{ first, last, seconds: DAY }];
  for (const part of asked.filter(({ seconds }) => seconds > 0)) {
    const query = sightQuery(selection, spelling, only, part.seconds);
    for (const { labels, values } of await client.range(query, part.first, part.last, DAY)) {
      const [at] = values.at(-1) ?? [];
      const uid = checkedUid(labelValue(labels, "uid", spelling), selection);
      if (at !== undefined) take({ uid, value: (Math.ceil(at / DAY) - 1) * DAY });
    }
  }
}

/** Requests copy by copy: the copies' values and the moments of their last samples are two answers, joined by all labels. */
async function askCopies(
  client: Client,
  selection: Selection,
  spelling: Spelling,
  resource: "cpu" | "memory",
  window: Window,
  take: (row: Row) => void,
  only: Only | undefined,
): Promise<void> {
  const { values, moments } = copyQueries(resource, selection, spelling, window, only);
  const at = new Map((await client.instant(moments, window.to)).map(({ labels, value }) => [keyOf(labels), value]));
  for (const { labels, value } of await client.instant(values, window.to)) {
    const copy = keyOf(labels);
    const uid = checkedUid(labelValue(labels, "uid", spelling), selection);
    // A series without a moment has its only samples right after the window's beginning.
    take({ uid, value, part: labelValue(labels, "container", spelling), at: at.get(copy) ?? window.from, copy });
  }
}

/** All labels of a series but its name, which functions over time drop. */
function keyOf(labels: Sample["labels"]): string {
  const { __name__: _name, ...others } = labels;
  return JSON.stringify(Object.entries(others).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** See `Monitoring.presence`. */
async function findPresence(
  client: Client,
  selection: Selection,
  of: Presence,
  window: Window,
): Promise<ReadonlySet<number>> {
  if (of !== "both phases") return findSeries(client, selection, of, window);
  const succeeded = await findSeries(client, selection, "Succeeded", window);
  if (succeeded.size === 0) return succeeded;
  const failed = await findSeries(client, selection, "Failed", window);
  return new Set([...succeeded].filter((day) => failed.has(day)));
}

/** Days on which a series was there; a later query is asked only for days that the ones before leave open. */
async function findSeries(
  client: Client,
  selection: Selection,
  of: SeriesOf,
  window: Window,
): Promise<ReadonlySet<number>> {
  const found = new Set<number>();
  const parting = { asked: `whether there is any series of ${of}`, uidLabels: uidLabels(selection) };
  for (const index of presenceQueries(of, selection).keys()) {
    const ask = async ({ from, to }: Window, uids: readonly string[]): Promise<readonly never[]> => {
      // Days are asked for as such, what is less by the hour.
      const step = (to - from) % DAY === 0 ? DAY : HOUR;
      const query = presenceQueries(of, narrowedTo(selection, uids), step)[index] ?? "";
      for (const { values } of await client.range(query, from + step, to, step))
        for (const [at] of values) found.add((Math.ceil(at / DAY) - 1) * DAY);
      return [];
    };
    const isKnown = ({ from, to }: Window): boolean => {
      for (let day = Math.floor(from / DAY) * DAY; day < to; day += DAY) if (!found.has(day)) return false;
      return true;
    };
    await inParts([window], ask, { ...parting, shortest: HOUR, known: isKnown });
  }
  return found;
}

async function findSample(
  client: Client,
  selection: Selection,
  { from, to }: Window,
  most: number,
): Promise<readonly string[]> {
  const sampled = new Set<string>();
  const each = Math.ceil(most / SAMPLED_AT);
  const step = Math.ceil((to - from) / SAMPLED_AT);
  for (let end = to; end > from; end -= step) {
    const found = new Set<string>();
    const ask = async (part: Window, uids: readonly string[]): Promise<readonly never[]> => {
      const narrow = narrowedTo(selection, uids);
      for (const spelling of spellings(narrow)) {
        const samples = await client.instant(sampleQuery(narrow, spelling, part, each), part.to);
        for (const { labels } of samples) found.add(labelValue(labels, "uid", spelling));
      }
      return [];
    };
    const window = { from: Math.max(from, end - step), to: end };
    const enough = (): boolean => found.size >= each;
    await inParts([window], ask, { asked: "some pods", uidLabels: uidLabels(selection), known: enough });
    for (const uid of found) if (uid !== "") sampled.add(uid);
  }
  return [...sampled].slice(0, most);
}

/**
 * Whether any pod of the namespace carried the VO label in the window; asked in parts where it must be, until one did.
 * Throws `config_invalid` for what cannot be a label, and as `inParts`.
 */
export async function findVoLabel(client: Client, selection: Selection, window: Window): Promise<boolean> {
  let seen = false;
  const ask = async (part: Window, uids: readonly string[]): Promise<readonly never[]> => {
    const query = voLabelQuery(narrowedTo(selection, uids), part);
    seen ||= (await client.instant(query, part.to)).length > 0;
    return [];
  };
  await inParts([window], ask, {
    asked: `the label ${selection.voLabel ?? ""}`,
    uidLabels: uidLabels(selection),
    known: () => seen,
  });
  return seen;
}

/** How many pods have the VO label split in two; see `Monitoring.voLabelSplit`. Throws as `findVoLabel`. */
async function countSplitLabels(client: Client, selection: Selection, window: Window): Promise<number> {
  const uids = new Set<string>();
  const spelling = { prefix: renamedPrefix(selection) };
  const ask = async (part: Window, matchers: readonly string[]): Promise<readonly never[]> => {
    const query = splitLabelQuery(narrowedTo(selection, matchers), part);
    for (const { labels } of await client.instant(query, part.to)) uids.add(labelValue(labels, "uid", spelling));
    return [];
  };
  const asked = `whether the label ${selection.voLabel ?? ""} was split`;
  await inParts([window], ask, { asked, uidLabels: uidLabels(selection) });
  return uids.size;
}
