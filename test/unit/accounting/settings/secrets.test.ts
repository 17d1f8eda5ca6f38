import * as fc from "fast-check";
import { expect, test } from "vitest";
import { parseSettings } from "../../../../lib/accounting/settings/load.ts";
import { maskServer } from "../../../../lib/shared/server-url.ts";

const PIECE = 6;

// Printable ASCII with everything that URLs and YAML treat specially; long enough that no piece turns up by chance.
const secret = fc
  .tuple(
    fc.string({
      unit: fc.constantFrom(..."abcXYZ0189:/?#@%&=+-_.~!$'()*,;[]{}|\\^`\"<> ".split("")),
      minLength: 8,
      maxLength: 30,
    }),
    fc.constantFrom("q7Zk9w", "0", "[", "1/"),
  )
  .map(([text, first]) => (first + text).trim())
  .filter((text) => text.length >= 8 && !/(.)\1{3}/.test(text));

const BASE = {
  PROMETHEUS_SERVER: "https://prometheus.internal",
  NAMESPACE: "grid",
  SITE_NAME: "T2",
  SUBMIT_HOST: "k8s",
  VO_NAME: "cms",
  BENCHMARK_VALUE: "12",
};

const PLACES: Readonly<Record<string, (value: string) => readonly [Record<string, string>, string?]>> = {
  "the header": (value) => [{ PROMETHEUS_AUTH_HEADER: value }],
  "a header with a line break": (value) => [{ PROMETHEUS_AUTH_HEADER: `Bearer ${value}\nX: y` }],
  "a header beside credentials": (value) => [{ PROMETHEUS_AUTH_HEADER: value, PROMETHEUS_SERVER: "http://me:pw@p" }],
  "a password, encoded": (value) => [{ PROMETHEUS_SERVER: `https://me:${encodeURIComponent(value)}@p/?query` }],
  "a password as it is": (value) => [{ PROMETHEUS_SERVER: `https://me:${value}@p` }],
  "a password in a malformed URL": (value) => [{ PROMETHEUS_SERVER: `https//me:${value}@p:x` }],
  "a user name": (value) => [{ PROMETHEUS_SERVER: `ftp://${encodeURIComponent(value)}@p` }],
  "a query": (value) => [{ PROMETHEUS_SERVER: `https://p/?token=${value}` }],
  "a tenant's header": (value) => [
    {},
    `tenants: [{name: a, PROMETHEUS_AUTH_HEADER: ${JSON.stringify(`${value}\u0001`)}}]`,
  ],
  "a tenant's header without quotes": (value) => [{}, `tenants:\n - name: a\n   PROMETHEUS_AUTH_HEADER: ${value}\n`],
};

function said(env: Record<string, string | undefined>, file?: string): string {
  try {
    return parseSettings(env, file).warnings.join("\n");
  } catch (error) {
    return String(error);
  }
}

/** All pieces of the secret that the text shows and would not show with a harmless value in the same place. */
function leaks(text: string, value: string, harmless: string): string[] {
  const pieces = Array.from({ length: value.length - PIECE + 1 }, (_, index) => value.slice(index, index + PIECE));
  return pieces.filter((piece) => text.includes(piece) && !harmless.includes(piece));
}

test.each(Object.entries(PLACES))("no piece of a secret shows in any message: %s", (_, place) => {
  fc.assert(
    fc.property(secret, fc.boolean(), (value, isOtherwiseWrong) => {
      const other = isOtherwiseWrong ? { NODECOUNT: "many", QUERY_TIMEOUT: "soon" } : {};
      const [env, file] = place(value);
      const [plainEnv, plainFile] = place("plain-value");
      const text = said({ ...BASE, ...other, ...env }, file);
      expect(leaks(text, value, said({ ...BASE, ...other, ...plainEnv }, plainFile))).toEqual([]);
      expect(!isOtherwiseWrong || /NODECOUNT="many"|TENANTS_FILE: line/.test(text)).toBe(true);
    }),
    { numRuns: 300 },
  );
});

test.each([
  ["http://me:pw@host:1/x", "http://***@host:1/x"],
  ["http://me:p/w@host", "***"],
  ["http://host/?a=b#c", "http://host/?***#***"],
  ["me:pw@host", "***"],
  ["prometheus:9090", "prometheus:9090"],
  ["no url", "no url"],
])("the address %s is quoted as %s", (text, shown) => {
  expect(maskServer(text)).toBe(shown);
});

test("a value that begins with * and has no quotes is named by its place, and not shown", () => {
  const text = said({ ...BASE }, "tenants:\n - name: a\n   PROMETHEUS_AUTH_HEADER: *s3cret\n");
  expect(text).toContain("TENANTS_FILE: line 3, column 28 has an alias of YAML (*) that names nothing");
  expect(text).not.toContain("s3cret");
});
