import { Logger } from "@aws-lambda-powertools/logger";
import { Metrics } from "@aws-lambda-powertools/metrics";
import { plainText } from "../plain-text.ts";
import type { Damage } from "../accounting/ledger.ts";

const serviceName = process.env["POWERTOOLS_SERVICE_NAME"] ?? "gridmeter";

/** The functions' log: one JSON object a line; POWERTOOLS_LOG_LEVEL sets how much. */
export const logger = new Logger({
  serviceName,
  // What reads the log prints it on a terminal.
  jsonReplacerFn: (_key, value) => (typeof value === "string" ? plainText(value) : value),
});

/** CloudWatch metrics in the log (EMF), under the dimension `service` alone; the alarms go by them. */
export const metrics = new Metrics({
  namespace: process.env["POWERTOOLS_METRICS_NAMESPACE"] ?? "gridmeter",
  serviceName,
});

/** A stored object that was damaged and set aside is a warning: what it held is made anew. */
export function warnDamaged({ key, setAside, what }: Damage): void {
  logger.warn(`${key} was damaged; it is set aside and made anew`, { key, setAside, what });
}
