// The measured program of the bare limit: `node run-replay.ts URL FILE CONCURRENCY` sends the recorded requests again, as
// many at once, and throws away what comes. Prints the number of bytes.
import { readFile } from "node:fs/promises";
import { Agent, request } from "node:http";
import pLimit from "p-limit";
import { recordedRequests } from "./record.ts";
import type { Recorded } from "./record.ts";

const [url = "", file = "", concurrency = "1"] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true });

function replay({ method, path, body, encodings }: Recorded): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { "accept-encoding": encodings, "content-type": "application/x-www-form-urlencoded" };
    const outgoing = request(`${url}${path}`, { method, agent, headers }, (answer) => {
      let bytes = 0;
      answer.on("data", (chunk: Buffer) => (bytes += chunk.length));
      answer.on("end", () => {
        if (answer.statusCode === 200) resolve(bytes);
        else reject(new Error(`Prometheus answered ${String(answer.statusCode)} to a repeated query.`));
      });
      answer.on("error", reject);
    });
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}

const limit = pLimit(Number(concurrency));
const requests = recordedRequests.parse(JSON.parse(await readFile(file, "utf8")));
const sizes = await Promise.all(requests.map((one) => limit(() => replay(one))));
agent.destroy();
process.stdout.write(`${JSON.stringify(sizes.reduce((sum, size) => sum + size, 0))}\n`);
