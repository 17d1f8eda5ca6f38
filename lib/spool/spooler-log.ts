import type { DeliveryReport } from "./report.ts";

/** Where the spooler tells what it does; pino's loggers are such. */
export type SpoolLog = Readonly<Record<"info" | "warn" | "error", (fields: object, text: string) => void>>;

/** Tells what became of each message: refused ones as errors, waiting ones as warnings. */
export function logDelivery(log: SpoolLog, { unit, messages }: DeliveryReport): void {
  for (const { key, status, reason } of messages) {
    const level = status === "refused" ? "error" : status === "waiting" ? "warn" : "info";
    log[level]({ ...unit, key, status, ...(reason === undefined ? {} : { reason }) }, status);
  }
}
