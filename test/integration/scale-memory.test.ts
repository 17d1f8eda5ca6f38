// Memory does not depend on the size of an answer: a child with a small heap reads a large one.
import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { listen } from "../support/fault-proxy.ts";

const ROWS = 600_000;
/** MB of old objects that the child may hold: the answer's text alone is more than that. */
const HEAP = 32;

const CHILD = `
import { createClient } from ${JSON.stringify(new URL("../../lib/accounting/prometheus/client.ts", import.meta.url).href)};
import { createMonitoring } from ${JSON.stringify(new URL("../../lib/accounting/prometheus/monitoring.ts", import.meta.url).href)};
const client = createClient({ url: process.argv[1], timeoutSeconds: 120, concurrency: 1 });
const monitoring = createMonitoring(client, { namespace: "grid", matchers: [], labelPrefix: "" });
let rows = 0;
let sum = 0;
await monitoring.facts("end", { from: 0, to: 86400 }, ({ value }) => {
  rows += 1;
  sum += value;
});
console.log(JSON.stringify({ rows, sum }));
`;

const NOTHING = ['{"status":"success","data":{"resultType":"vector","result":[]}}'];

/** An answer of many rows, made while it is sent. */
function* answer(): Generator<string> {
  yield `{"status":"success","data":{"resultType":"vector","result":[`;
  let text = "";
  for (let row = 0; row < ROWS; row += 1) {
    const uid = `${row.toString(16).padStart(8, "0")}-1111-4222-8333-444455556666`;
    text += `${row === 0 ? "" : ","}{"metric":{"uid":"${uid}"},"value":[86400,"${row}"]}`;
    if (text.length < 1 << 16) continue;
    yield text;
    text = "";
  }
  yield `${text}]}}`;
}

test(`an answer of ${ROWS} pods is read with a heap of ${HEAP} MB`, async () => {
  let bytes = 0;
  const server = createServer((incoming, outgoing) => {
    void (async () => {
      const form = new URLSearchParams(await text(incoming));
      // Of labels that were renamed there are none.
      const isRenamed = form.get("query")?.includes('exported_namespace="grid"') === true;
      for (const part of isRenamed ? NOTHING : answer()) {
        bytes += part.length;
        if (!outgoing.write(part)) await once(outgoing, "drain");
      }
      outgoing.end();
    })();
  });
  const port = await listen(server);
  try {
    const flags = [`--max-old-space-size=${HEAP}`, "--max-semi-space-size=4", "--input-type=module", "--eval", CHILD];
    const { stdout } = await promisify(execFile)(process.execPath, [...flags, `http://127.0.0.1:${port}`]);
    expect(JSON.parse(stdout)).toEqual({ rows: ROWS, sum: (ROWS * (ROWS - 1)) / 2 });
    expect(bytes).toBeGreaterThan(1.25 * HEAP * 2 ** 20);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}, 60_000);
