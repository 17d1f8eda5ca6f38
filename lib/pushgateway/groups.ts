import { z } from "zod";
import { PushgatewayError, ask } from "./gateway.ts";
import type { GatewayOptions } from "./gateway.ts";
import { groupPath } from "./grouping.ts";
import type { Grouping } from "./grouping.ts";

/** A group of the gateway. `pushedAt`: last push that the gateway took, epoch seconds; 0 if it never took one. */
export type Group = { readonly grouping: Grouping; readonly pushedAt: number };

const answer = z.object({
  data: z.array(
    z.object({
      labels: z.record(z.string(), z.string()),
      push_time_seconds: z.object({ metrics: z.array(z.object({ value: z.coerce.number() })) }),
    }),
  ),
});

/** All groups of a gateway, sorted. @throws GridmeterError `pushgateway_failed` */
export async function listGroups(url: string, options: GatewayOptions = {}): Promise<readonly Group[]> {
  const parsed = answer.safeParse(await ask(url, "/api/v1/metrics", options));
  if (!parsed.success) {
    throw new PushgatewayError(
      "failed",
      200,
      `The Pushgateway's list of groups has another shape: ${z.prettifyError(parsed.error).slice(0, 300)}. No group was deleted. Check PUSHGATEWAY_URL.`,
    );
  }
  const groups = parsed.data.data.map(({ labels, push_time_seconds: pushed }) => ({
    grouping: labels,
    pushedAt: pushed.metrics[0]?.value ?? 0,
  }));
  // The gateway lists them in no order.
  return groups.toSorted((a, b) => (groupPath(a.grouping) < groupPath(b.grouping) ? -1 : 1));
}
