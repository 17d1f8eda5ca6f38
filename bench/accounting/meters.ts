/** Prometheus' own counters at one moment. */
export type Meters = ReadonlyMap<string, number>;

/** What Prometheus spent on somebody between two readings. */
export type Cost = {
  readonly queries: number;
  /** the engine's time for them, added up over queries that ran side by side; encoding the answer is not in it */
  readonly querySeconds: number;
  /** CPU time of the whole server, encoding and compressing included */
  readonly cpuSeconds: number;
  /** bytes of the answers as they went over the wire, compressed if the client takes that */
  readonly sentBytes: number;
};

/**
 * Reads the counters that matter. Prometheus counts for itself, so that nothing stands between it and what is timed. It
 * is the same time that `stats=all` gives query by query.
 */
export async function readMeters(url: string): Promise<Meters> {
  const answer = await fetch(`${url}/metrics`);
  return parseMeters(await answer.text());
}

/** The samples of an exposition, by name and labels as they stand there. */
export function parseMeters(text: string): Meters {
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(
    lines.map((line) => {
      const cut = line.lastIndexOf(" ");
      return [line.slice(0, cut), Number(line.slice(cut + 1))];
    }),
  );
}

const SLICES = ["prepare_time", "inner_eval", "result_sort"] as const;
const ASKED = ["query", "query_range"] as const;

export function costBetween(before: Meters, after: Meters): Cost {
  const grown = (name: string): number => (after.get(name) ?? 0) - (before.get(name) ?? 0);
  const sum = (names: readonly string[]): number => names.reduce((total, name) => total + grown(name), 0);
  const http = (part: "sum" | "count"): readonly string[] =>
    ASKED.map((path) => `prometheus_http_response_size_bytes_${part}{handler="/api/v1/${path}"}`);
  return {
    queries: sum(http("count")),
    querySeconds: sum(SLICES.map((slice) => `prometheus_engine_query_duration_seconds_sum{slice="${slice}"}`)),
    cpuSeconds: grown("process_cpu_seconds_total"),
    sentBytes: sum(http("sum")),
  };
}
