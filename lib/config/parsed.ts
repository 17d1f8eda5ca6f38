import { z } from "zod";

/** What came of reading a text: its value, or what is wrong with it and what to write instead. */
export type Parsed<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly problem: string };

export function good<T>(value: T): Parsed<T> {
  return { ok: true, value };
}

export function bad(problem: string): { readonly ok: false; readonly problem: string } {
  return { ok: false, problem };
}

/** A parser as a zod schema, so that the table of settings carries types and texts alike. */
export function parsedBy<T>(parse: (text: string) => Parsed<T>) {
  return z.string().transform((text, context): T => {
    const parsed = parse(text);
    if (parsed.ok) return parsed.value;
    context.addIssue({ code: "custom", message: parsed.problem });
    return z.NEVER;
  });
}
