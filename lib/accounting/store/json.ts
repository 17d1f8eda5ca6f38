import { createHash } from "node:crypto";
import type { z } from "zod";
import { parseJson, shapeText } from "../../shared/text.ts";
import type { ObjectStore } from "./store.ts";

/** An object that could not be read: what is wrong with it, and the key under which its copy is kept. */
export type Damage = { readonly key: string; readonly setAside: string; readonly what: string };

/**
 * Reads an object as JSON of a schema.
 * @returns undefined where there is no object; `value` undefined where it is damaged: then a copy is set aside and reported
 */
export async function readJson<T>(
  store: ObjectStore,
  key: string,
  schema: z.ZodType<T>,
  damaged: (damage: Damage) => void,
): Promise<{ value: T | undefined; version: string } | undefined> {
  const held = await store.get(key);
  if (held === undefined) return undefined;
  const parsed = parse(held.body, schema);
  if (parsed.success) return { value: parsed.data, version: held.version };
  damaged(await setAsideDamaged(store, key, held.body, parsed.what));
  return { value: undefined, version: held.version };
}

/** Copies a damaged object to `damaged/`, which nothing reads, so that it is not lost when it is written again. */
export async function setAsideDamaged(store: ObjectStore, key: string, body: string, what: string): Promise<Damage> {
  const hash = createHash("sha256").update(body).digest("hex").slice(0, 16);
  const setAside = `damaged/${key.replaceAll("/", "=2F")}.${hash}`;
  await store.put(setAside, body, { absent: true });
  return { key, setAside, what };
}

function parse<T>(body: string, schema: z.ZodType<T>): { success: true; data: T } | { success: false; what: string } {
  const json = parseJson(body);
  if (json === undefined) return { success: false, what: `not JSON (${body.length} characters)` };
  const result = schema.safeParse(json);
  return result.success ? result : { success: false, what: shapeText(result.error) };
}
