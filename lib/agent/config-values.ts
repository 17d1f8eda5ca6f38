import { isIPv4, isIPv6 } from "node:net";
import { z } from "zod";
import { type Parsed, bad, good } from "../shared/config-values.ts";
import { withoutEnd } from "../shared/text.ts";

/** A parser of any value of YAML as a zod schema; what it says is wrong follows the quoted value. */
export function read<T>(parse: (value: unknown) => Parsed<T>) {
  return z.unknown().transform((value, context): T => {
    const parsed = parse(value);
    if (parsed.ok) return parsed.value;
    context.addIssue({ code: "custom", message: parsed.problem });
    return z.NEVER;
  });
}

/** A text that is not empty. Numbers are taken as they are written in decimal: an instance may be called 12. */
export function text(example: string) {
  return read((value): Parsed<string> => {
    const written = typeof value === "number" ? String(value) : value;
    return typeof written === "string" && written.trim() !== "" && !written.includes("\0")
      ? good(written.trim())
      : bad(`is no text, or empty. Write for example ${example}`);
  });
}

const Argv = z.tuple([z.string().min(1)], z.string());

/** A program and its arguments, which no shell will see. */
export const command = read((value): Parsed<readonly [string, ...string[]]> => {
  const listed = Array.isArray(value) ? value.map((one) => (typeof one === "number" ? String(one) : one)) : value;
  const parsed = Argv.safeParse(listed);
  return parsed.success && !parsed.data.some((argument) => argument.includes("\0"))
    ? good(parsed.data)
    : bad(
        "is no list of a program and its arguments. No shell reads it, so a pipe or a variable means nothing. " +
          'Write for example ["nvidia-smi", "-q", "-x"]',
      );
});

const LISTEN = /^(?:\[(?<six>[^\]]*)\]|(?<host>[^[\]:]*)):(?<port>\d{1,5})$/;

/** `host:port`, `:port`, `[::1]:port`, or `off` for no port; port 0 takes a free one. */
export const listen = read((value): Parsed<string> => {
  if (value === "off" || value === false) return good("off");
  const written = typeof value === "number" ? `:${value}` : value;
  const parts = typeof written === "string" ? LISTEN.exec(written.trim())?.groups : undefined;
  const host = parts?.["six"] ?? parts?.["host"] ?? "";
  const isAddress = parts?.["six"] === undefined ? isIPv4(host) || /^[A-Za-z0-9.-]*$/.test(host) : isIPv6(host);
  return typeof written === "string" && parts !== undefined && isAddress && Number(parts["port"]) <= 65_535
    ? good(written.trim())
    : bad('is no address to listen on. Write for example ":9102", "127.0.0.1:9102", "[::1]:9102" or off');
});

/** The address of a Pushgateway, credentials included if there are any. */
export const gatewayUrl = read((value): Parsed<string> => {
  const url = typeof value === "string" && URL.canParse(value.trim()) ? new URL(value.trim()) : undefined;
  if (url === undefined || (url.protocol !== "http:" && url.protocol !== "https:")) {
    return bad("is no http:// or https:// address. Write for example http://pushgateway:9091");
  }
  if (url.search !== "" || url.hash !== "") {
    return bad("has a query or a fragment. Write only the address; the path of the group is added here");
  }
  return /\/metrics(\/|$)/.test(url.pathname)
    ? bad("ends in the path of a group. Write what comes before /metrics")
    : good(withoutEnd(url.href, "/"));
});

/**
 * A mapping with these settings and no others. One that is there without a value is as if it were not there, and a mapping
 * without anything below it is empty.
 */
export function mapping<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.preprocess((value) => withoutEmpty(value, Object.keys(shape)), z.strictObject(shape));
}

export function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function withoutEmpty(value: unknown, known: readonly string[]): unknown {
  if (value === null) return {};
  if (!isMapping(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([key, one]) => one !== null || !known.includes(key)));
}
