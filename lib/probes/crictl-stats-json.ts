import * as z from "zod";
import type { Output } from "../agent/types.ts";
import type { ContainerNames } from "./container.ts";
import { Texts, parseJson } from "./json.ts";
import { ParseError } from "./parse-error.ts";

/** A 64-bit number, which protobuf's JSON prints as a text. Undefined, as for null, where there is none. */
const Uint64 = z
  .union([z.string().regex(/^\d{1,20}$/), z.number().nonnegative()])
  .transform(Number)
  .optional()
  .catch(undefined);

/** The wrapper of a number that may not be known. */
export const Wrapped = z
  .object({ value: Uint64 })
  .transform(({ value }) => value)
  .optional()
  .catch(undefined);

export { Uint64 };

const Metadata = z
  .object({ name: z.string().optional().catch(undefined), attempt: z.int().nonnegative().optional().catch(undefined) })
  .catch({ name: undefined, attempt: undefined });

export const Attributes = z.object({ id: z.string().min(1), metadata: Metadata, labels: Texts });

/** What a container is called: the kubelet's labels say which pod it belongs to. */
export const namesOf = ({ id, metadata, labels }: z.infer<typeof Attributes>): ContainerNames => ({
  id,
  name: metadata.name ?? labels.get("io.kubernetes.container.name"),
  namespace: labels.get("io.kubernetes.pod.namespace"),
  pod: labels.get("io.kubernetes.pod.name"),
  container: labels.get("io.kubernetes.container.name"),
});

/**
 * The list under a key of the JSON object that crictl printed.
 *
 * @throws {ParseError} when crictl failed, or printed no JSON object with that list
 */
export const crictlList = (output: Output, key: "stats" | "containers"): readonly unknown[] => {
  const printed = JSON.stringify((output.stderr.trim() || output.stdout.trim()).slice(0, 200));
  if (output.exitCode !== 0) throw new ParseError(`crictl exited with ${output.exitCode} and printed ${printed}`);
  const json = z.record(z.string(), z.unknown()).safeParse(parseJson(output.stdout));
  const list = json.success ? json.data[key] : undefined;
  if (list === null) return [];
  if (Array.isArray(list)) return list;
  throw new ParseError(`crictl printed no JSON with a list of ${key}: ${printed}`);
};
