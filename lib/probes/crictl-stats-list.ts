import * as z from "zod";
import type { Command, Output, Parsed } from "../agent/types.ts";
import { isContainerId, shortId, type ContainerNames } from "./container.ts";
import { Attributes, Uint64, crictlList, namesOf } from "./crictl-stats-json.ts";
import { Text } from "./json.ts";
import { ParseError } from "./parse-error.ts";

/** Lists the containers that run. */
export const CRICTL_PS_COMMAND: Command = {
  argv: ["crictl", "ps", "--output", "json"],
  timeout: 10,
  maxBytes: 16 * 1024 * 1024,
};

/** One container in crictl ps. What is not known is undefined. */
export type CrictlContainer = ContainerNames & {
  readonly podUid: string | undefined;
  readonly image: string | undefined;
  readonly running: boolean;
  /** seconds since 1970 */
  readonly createdAt: number | undefined;
  /** how often the kubelet started it before */
  readonly attempt: number | undefined;
};

const Listed = Attributes.extend({
  image: z.object({ image: Text }).optional().catch(undefined),
  state: Text,
  createdAt: Uint64,
});

/**
 * Reads `crictl ps --output json`. What is no container, and the second one of an id, is left out and counted.
 *
 * @throws {ParseError} when crictl failed, or no container can be read at all
 */
export const parseCrictlPs = (output: Output): Parsed<readonly CrictlContainer[]> => {
  const items = crictlList(output, "containers");
  const rows = new Map<string, CrictlContainer>();
  for (const item of items) {
    const found = Listed.safeParse(item);
    if (!found.success || !isContainerId(found.data.id) || rows.has(shortId(found.data.id))) continue;
    const { data } = found;
    rows.set(shortId(data.id), {
      ...namesOf(data),
      podUid: data.labels.get("io.kubernetes.pod.uid"),
      image: data.image?.image,
      running: data.state === "CONTAINER_RUNNING",
      createdAt: data.createdAt === undefined ? undefined : data.createdAt / 1e9,
      attempt: data.metadata.attempt,
    });
  }
  if (items.length > 0 && rows.size === 0) {
    throw new ParseError(`crictl ps printed no container: ${JSON.stringify(output.stdout.slice(0, 200))}`);
  }
  return { value: [...rows.values()], rejected: items.length - rows.size };
};
