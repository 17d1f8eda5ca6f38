import { exchange } from "./exchange.ts";
import type { GatewayOptions } from "./exchange.ts";
import { groupPath } from "./grouping.ts";
import type { Grouping } from "./grouping.ts";

export type PushOptions = GatewayOptions & {
  /** PUT (the default) replaces the whole group; POST only the metrics of the same names, and leaves the others */
  readonly method?: "PUT" | "POST";
};

/** The answers to these are short, whatever stands in between. */
const LIMITS = { usualDeadlineMs: 10_000, largestAnswer: 2 ** 20 };
const HEADERS = { "Content-Type": "text/plain; version=0.0.4; charset=utf-8" };

/**
 * Pushes metrics in Prometheus' text format into exactly one group.
 * @throws GridmeterError `pushgateway_failed` with what the gateway said (a type that clashes with another group, say)
 */
export async function push(url: string, grouping: Grouping, text: string, options: PushOptions = {}): Promise<void> {
  const { method = "PUT" } = options;
  const lost = "The metrics were not pushed";
  const request = { ...LIMITS, method, path: groupPath(grouping), headers: HEADERS, body: text, lost };
  await exchange(url, request, options, forget);
}

/** Deletes exactly one group; no error if there is none. @throws GridmeterError `pushgateway_failed` */
export async function deleteGroup(url: string, grouping: Grouping, options: GatewayOptions = {}): Promise<void> {
  const request = {
    ...LIMITS,
    method: "DELETE",
    path: groupPath(grouping),
    lost: "The group was not deleted",
  } as const;
  await exchange(url, request, options, forget);
}

/** What the gateway says when it took something. */
const forget = (): void => undefined;
