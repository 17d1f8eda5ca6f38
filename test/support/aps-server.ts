import { type Key, signatureProblem } from "./aps-signature.ts";
import { type Gate, type Refusal, apiError, startGate } from "./gate.ts";
import { longestRange } from "./watch-proxy.ts";

export type ApsOptions = {
  readonly region?: string;
  readonly keys: Readonly<Record<string, Key>>;
  /** milliseconds by which the server's clock is ahead of this machine's */
  readonly ahead?: number;
  /** bytes of the largest answer under a path; Amazon's are 50 MiB */
  readonly largest?: (path: string) => number;
  /** of the requests so far, counted from 1, those that come too fast */
  readonly throttled?: (count: number) => boolean;
  /** the status with which what is before it refuses POST */
  readonly post?: number;
};

const DAYS = 86_400;
const LIMIT = 32 * DAYS;
const WORKSPACE = "/workspaces/ws-0f1e2d3c";

const amazonError = (status: number, message: string): Refusal => ({
  status,
  type: "application/json",
  body: JSON.stringify({ message }),
});

/**
 * A workspace of Amazon Managed Service for Prometheus, as far as queries go, before a real Prometheus: it verifies
 * signatures, takes queries under its own path only, and keeps Amazon's limits of range and answer in Amazon's words.
 */
export async function startAps(upstream: string, options: ApsOptions): Promise<Gate> {
  const { region = "eu-west-1", keys, ahead = 0, largest = () => 50 * 2 ** 20, throttled = () => false } = options;
  let count = 0;
  const gate = await startGate(upstream, {
    path: (path) => (path.startsWith(`${WORKSPACE}/api/v1/query`) ? path.slice(WORKSPACE.length) : undefined),
    request: (passing) => {
      if (passing.method === "POST" && options.post !== undefined)
        return { status: options.post, body: "no POST here" };
      const problem = signatureProblem(passing, keys, region, Date.now() + ahead);
      if (problem !== undefined) return amazonError(403, problem);
      count += 1;
      if (throttled(count)) return amazonError(429, "Rate exceeded");
      const { form } = passing;
      const reach = longestRange((form.get("query") ?? "").replace(/"[^"]*"/g, ""));
      const span = Number(form.get("end") ?? 0) - Number(form.get("start") ?? 0) + reach;
      if (form.has("time") && reach >= LIMIT) {
        const text = "queries with long day range (32d to 95d) are currently only supported for range type queries";
        return apiError(422, "execution", text);
      }
      if (span <= LIMIT) return undefined;
      const text = `the query time range exceeds the limit (query length: ${span / 3600}h0m0s, limit: 768h0m0s)`;
      return apiError(422, "execution", text);
    },
    answer: ({ path }, body) => {
      const size = Buffer.byteLength(body);
      if (size <= largest(path)) return undefined;
      return { status: 413, body: `response larger than the max (${size} vs ${largest(path)})` };
    },
  });
  return { ...gate, url: gate.url + WORKSPACE };
}
