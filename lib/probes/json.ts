import * as z from "zod";

/** The parsed text; undefined where it is no JSON. */
export const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

/** A text that says something. Of another type, or empty, it is undefined: one bad value must not cost the whole object. */
export const Text = z.string().min(1).optional().catch(undefined);

/** A whole number of 0 or more, else undefined. */
export const Count = z.int().nonnegative().optional().catch(undefined);

/** True or false, else undefined. */
export const Flag = z.boolean().optional().catch(undefined);

/** An object of texts; what is no text is left out. */
export const Texts = z
  .record(z.string(), z.unknown())
  .catch({})
  .transform(
    (found) =>
      new Map(Object.entries(found).flatMap(([key, value]) => (typeof value === "string" ? [[key, value]] : []))),
  );
