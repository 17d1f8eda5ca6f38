import { checkMessage } from "../../lib/apel/check.ts";
import { messageKeys } from "../../lib/apel/keys.ts";

/** What a reader took from ssmsend's queue, in order, and what writers had reported as written. */
export type ReaderLog = {
  readonly sent: readonly { readonly name: string; readonly body: string }[];
  readonly written: readonly { readonly keys: readonly string[]; readonly generation: number }[];
  readonly generationOf: (body: string) => number;
};

/**
 * What the rules of spooling promise, whatever was killed and when; the violations, none if all is well:
 * no torn message; no older generation of an APEL key after a newer one (a repetition is harmless); and of each key
 * nothing older was sent last than what was reported as written.
 */
export function spoolingViolations(log: ReaderLog): string[] {
  const violations: string[] = [];
  const newest = new Map<string, number>();
  for (const { name, body } of log.sent) {
    const { problems } = checkMessage(body, Infinity);
    if (problems.length > 0) {
      violations.push(`${name} is torn or broken: ${problems[0]!.reason}`);
      continue;
    }
    const generation = log.generationOf(body);
    for (const key of messageKeys(body)) {
      const before = newest.get(key) ?? generation;
      if (generation < before) violations.push(`${name}: generation ${generation} after ${before} of ${key}`);
      newest.set(key, Math.max(before, generation));
    }
  }
  for (const { keys, generation } of log.written) {
    for (const key of keys) {
      const sent = newest.get(key);
      if (sent === undefined || sent < generation) {
        violations.push(`generation ${generation} of ${key} was written and lost; the last sent is ${sent}`);
      }
    }
  }
  return violations;
}
