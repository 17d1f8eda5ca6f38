import type { LogFn, Logger, LoggerOptions } from "pino";
import { plainText } from "../../lib/shared/text.ts";

/** A log of plain texts: what reads it prints them on a terminal. For all of pino's loggers. */
export const plainLog: NonNullable<LoggerOptions["hooks"]> = {
  logMethod(this: Logger, args: Parameters<LogFn>, method: LogFn): void {
    for (const [index, value] of args.entries()) args[index] = plainData(value);
    method.apply(this, args);
  },
};

/** The same data with every text in it made plain. */
function plainData(value: unknown): unknown {
  if (typeof value === "string") return plainText(value);
  if (Array.isArray(value)) return value.map(plainData);
  if (typeof value !== "object" || value === null || value instanceof Error) return value;
  return Object.fromEntries(Object.entries(value).map(([key, held]) => [plainText(key), plainData(held)]));
}
