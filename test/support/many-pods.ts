import { once } from "node:events";
import { createServer } from "node:http";
import type { ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { listen } from "./fault-proxy.ts";

const HOUR = 3600;

export type ManyPods = {
  readonly pods: number;
  /** when the first of them ends, epoch seconds, and seconds from one end to the next; all ran for an hour, and linger as long */
  readonly from: number;
  readonly every: number;
  /** characters of their names */
  readonly nameLength: number;
};

const uidOf = (index: number): string => `${index.toString(16).padStart(8, "0")}-1111-4222-8333-444455556666`;

/** The labels and the value of a pod's row in the answer to a query; undefined where no pod has one. */
function rowOf(query: string, { from, every, nameLength }: ManyPods): ((index: number) => string) | undefined {
  const id = (index: number): string => `"id":"/kubepods/pod${uidOf(index)}/${index.toString(16).padStart(64, "0")}"`;
  const row = (labels: string, value: number): string => `{"metric":{${labels}},"value":[0,"${value}"]}`;
  const uid = (index: number): string => `"uid":"${uidOf(index)}"`;
  const name = (index: number): string => `"pod":"${`job-${index}-`.padEnd(nameLength, "x")}"`;
  if (query.includes("container_cpu")) return (index) => row(id(index), 1200 + (index % 100));
  if (query.includes("container_memory")) return (index) => row(`"container":"main",${id(index)}`, 2 ** 20 * 50);
  // Labels have their own names, and no copy differs from another.
  if (/node=""|Failed|exported_namespace="[^"]|topk/.test(query)) return undefined;
  const request = (value: number) => (index: number) =>
    row(`${uid(index)},"container":"main","gridmeter_value":"${value}"`, 1);
  if (query.includes('resource="memory"')) return request(2 ** 30);
  if (query.includes('resource="cpu"')) return request(1);
  if (query.includes("status_phase")) return (index) => row(uid(index), 1);
  if (query.includes("start_time")) return (index) => row(uid(index), from + index * every - HOUR);
  if (query.includes("completion_time")) return (index) => row(`${name(index)},${uid(index)}`, from + index * every);
  return undefined;
}

/** A stand-in of Prometheus that makes its answers about any number of pods while it sends them. */
export async function serveManyPods(many: ManyPods): Promise<{ readonly url: string; close(): void }> {
  const { from, every, pods } = many;
  const answer = async (response: ServerResponse, query: string, at: number): Promise<void> => {
    const row = query.includes("group by") ? undefined : rowOf(query, many);
    const seconds = Number(/\[(\d+)s\]/.exec(query)?.[1]);
    response.write('{"status":"success","data":{"resultType":"vector","result":[');
    let [before, held] = ["", ""];
    const first = Math.max(0, Math.ceil((at - seconds - HOUR - from) / every));
    const last = row === undefined ? -1 : Math.min(pods - 1, Math.floor((at - from) / every));
    for (let index = first; index <= last; index += 1) {
      held += before + (row?.(index) ?? "");
      before = ",";
      if (held.length < 1 << 16) continue;
      if (!response.write(held)) await once(response, "drain");
      held = "";
    }
    response.end(`${held}]}}`);
  };
  const server = createServer((request, response) => {
    void (async () => {
      const form = new URLSearchParams(await text(request));
      const of = (field: string): number => Number(form.get(field));
      if (request.url?.includes("query_range") !== true) return answer(response, form.get("query") ?? "", of("time"));
      const times = Array.from(
        { length: (of("end") - of("start")) / of("step") + 1 },
        (_, n) => of("start") + n * of("step"),
      );
      const values = times.map((time) => [time, "1"]);
      return response.end(
        JSON.stringify({ status: "success", data: { resultType: "matrix", result: [{ metric: {}, values }] } }),
      );
    })();
  });
  const port = await listen(server);
  return {
    url: `http://127.0.0.1:${port}`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
