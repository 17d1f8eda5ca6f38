// The measured program of the reference way: `node run-reference.ts URL NAMESPACE FROM:TO...` (epoch seconds). One period
// after the other, one query after the other, each over the whole period, as KAPEL does. Prints the figures as JSON.
import { ASKED, type Asked, referenceFigures, referenceQueries, valuesByPod } from "./reference.ts";

const [url = "", namespace = "", ...periods] = process.argv.slice(2);

const figures = [];
for (const period of periods) {
  const [from = 0, to = 0] = period.split(":").map(Number);
  const queries = referenceQueries(namespace, to - from);
  const none: ReadonlyMap<string, number> = new Map();
  const results: Record<Asked, ReadonlyMap<string, number>> = {
    cputime: none,
    endtime: none,
    starttime: none,
    cores: none,
    memory: none,
    cpuusage: none,
  };
  for (const asked of ASKED) {
    const form = new URLSearchParams({ query: queries[asked], time: `${to}`, timeout: "1800s" });
    const response = await fetch(`${url}/api/v1/query?${form.toString()}`);
    const body = await response.text();
    if (!response.ok) throw new Error(`Prometheus answered ${response.status} to ${asked}: ${body.slice(0, 300)}`);
    results[asked] = valuesByPod(body);
  }
  figures.push(referenceFigures(results, { from }));
}
process.stdout.write(`${JSON.stringify(figures)}\n`);
