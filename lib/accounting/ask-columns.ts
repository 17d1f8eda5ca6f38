import { GridmeterError } from "../errors.ts";
import { ask } from "./ask.ts";
import type { Fact, Monitoring, Window } from "./ports.ts";
import type { Tiling } from "./tiling.ts";

/** The uids of a piece, each once: several facts are asked about the same pods, and a uid is longer than all of them. */
export class Uids {
  readonly #places = new Map<string, number>();

  /** The place of a uid, from 0 on; a new one gets the next. */
  place(uid: string): number {
    const known = this.#places.get(uid);
    if (known !== undefined) return known;
    this.#places.set(uid, this.#places.size);
    return this.#places.size - 1;
  }

  /** All of them, with their places. */
  [Symbol.iterator](): Iterator<[uid: string, place: number]> {
    return this.#places[Symbol.iterator]();
  }
}

/** One number for each uid that has one, by its place. A month of jobs as objects would be ten times as large. */
export class Column {
  #values = new Float64Array(1024);
  #filled = new Uint8Array(1024);
  size = 0;

  get(place: number): number | undefined {
    return this.#filled[place] === 1 ? this.#values[place] : undefined;
  }

  set(place: number, value: number): void {
    if (place >= this.#values.length) this.#grow(place + 1);
    if (this.#filled[place] !== 1) this.size += 1;
    this.#filled[place] = 1;
    this.#values[place] = value;
  }

  /** The greater stays. NaN wins, so that it is seen. */
  raise(place: number, value: number): void {
    const held = this.get(place);
    if (held === undefined || value > held || Number.isNaN(value)) this.set(place, value);
  }

  #grow(atLeast: number): void {
    const length = Math.max(atLeast, 2 * this.#values.length);
    const values = new Float64Array(length);
    const filled = new Uint8Array(length);
    values.set(this.#values);
    filled.set(this.#filled);
    this.#values = values;
    this.#filled = filled;
  }
}

/**
 * A fact of which every pod has one number: latest end and start, whether it has finished, or the request in force at the
 * end, which the latest tile knows.
 * @throws sample_invalid for NaN and infinities: among times or cores they would silently drop the job
 */
export async function askColumn(
  monitoring: Monitoring,
  fact: Extract<Fact, "end" | "start" | "finished" | "cores" | "memoryRequest">,
  window: Window,
  uids: Uids,
  tiling?: Tiling,
): Promise<Column> {
  const column = new Column();
  const latest = fact === "cores" || fact === "memoryRequest";
  await ask(
    monitoring,
    fact,
    window,
    ({ uid, value }) => {
      if (latest) column.set(uids.place(uid), value);
      else column.raise(uids.place(uid), value);
    },
    tiling,
  );
  refuseInfinite(fact, column, uids);
  return column;
}

/** Latest ends and the names of the pods. Throws as `askColumn`. */
export async function askNames(
  monitoring: Monitoring,
  window: Window,
  uids: Uids,
  tiling?: Tiling,
): Promise<{ readonly ends: Column; readonly names: ReadonlyMap<string, string> }> {
  const ends = new Column();
  const names = new Map<string, string>();
  await ask(
    monitoring,
    "name",
    window,
    ({ uid, value, text = "" }) => {
      ends.raise(uids.place(uid), value);
      keepGreatest(names, uid, text);
    },
    tiling,
  );
  refuseInfinite("end", ends, uids);
  return { ends, names };
}

/** The VO label of each pod that has one. Of a label that changed any fixed choice will do that does not depend on tiles. */
export async function askVos(
  monitoring: Monitoring,
  window: Window,
  tiling?: Tiling,
): Promise<ReadonlyMap<string, string>> {
  const vos = new Map<string, string>();
  // There are few VOs, and a text out of an answer would be one of its own for each pod.
  const known = new Map<string, string>();
  await ask(
    monitoring,
    "vo",
    window,
    ({ uid, text = "" }) => {
      const shared = known.get(text) ?? text;
      known.set(text, shared);
      keepGreatest(vos, uid, shared);
    },
    tiling,
  );
  return vos;
}

/** A fact of which a pod has several parts: the greatest of each part, added up by uid. Throws `sample_invalid`. */
export async function askParts(
  monitoring: Monitoring,
  fact: Extract<Fact, "cpu" | "memoryUsed">,
  window: Window,
  tiling?: Tiling,
): Promise<ReadonlyMap<string, number>> {
  const parts = new Map<string, { readonly uid: string; readonly value: number }>();
  await ask(
    monitoring,
    fact,
    window,
    ({ uid, value, part = "" }) => {
      const key = `${uid} ${part}`;
      const held = parts.get(key);
      if (held === undefined || value > held.value || Number.isNaN(value)) parts.set(key, { uid, value });
    },
    tiling,
  );
  const sums = new Map<string, number>();
  for (const { uid, value } of parts.values()) {
    if (!Number.isFinite(value)) throw notFinite(fact, uid, value);
    sums.set(uid, (sums.get(uid) ?? 0) + value);
  }
  return sums;
}

function keepGreatest(into: Map<string, string>, uid: string, text: string): void {
  if (text > (into.get(uid) ?? "")) into.set(uid, text);
}

/** Of all pods, also of those that do not count: nobody knows what a series that has a NaN would say otherwise. */
function refuseInfinite(fact: Fact, column: Column, uids: Uids): void {
  for (const [uid, place] of uids) {
    const value = column.get(place);
    if (value !== undefined && !Number.isFinite(value)) throw notFinite(fact, uid, value);
  }
}

function notFinite(fact: Fact, uid: string, value: number): GridmeterError {
  return new GridmeterError(
    "sample_invalid",
    `Prometheus gives ${value} as ${fact} of the pod with uid ${uid}. Nothing of this month was published. ` +
      "Find and delete the bad series, or narrow PROMETHEUS_LABELS so that it is not selected.",
  );
}
