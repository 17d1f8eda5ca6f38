import { once } from "node:events";
import { createServer, request } from "node:http";
import { text } from "node:stream/consumers";
import { z } from "zod";
import { listen } from "../../test/support/fault-proxy.ts";

const recorded = z.object({
  method: z.string(),
  path: z.string(),
  body: z.string(),
  /** the Accept-Encoding that the client sent */
  encodings: z.string(),
});
export const recordedRequests = z.array(recorded);
export type Recorded = z.infer<typeof recorded>;

const stats = z.object({
  timings: z.object({ execTotalTime: z.number() }),
  samples: z.object({ totalQueryableSamples: z.number(), peakSamples: z.number() }),
});

/** What a program asked, and what Prometheus says it cost. */
export type Recording = {
  requests: Recorded[];
  /** bytes of the answers, not compressed */
  bytes: number;
  /** samples that the queries looked at */
  samples: number;
  /** the most samples that one query held in memory */
  peakSamples: number;
};

export type Recorder = {
  readonly url: string;
  readonly recording: Recording;
  /** forgets what was recorded so far */
  clear(): void;
  stop(): Promise<void>;
};

/** Enough of an answer's end to hold its statistics, which for a range are told step by step. */
const TAIL = 1 << 20;

/**
 * A proxy before Prometheus that notes each request and adds `stats=all`. It is not in the way of what is timed: one run
 * goes through it, the timed ones go straight to Prometheus.
 */
export async function startRecorder(upstream: string): Promise<Recorder> {
  const recording: Recording = { requests: [], bytes: 0, samples: 0, peakSamples: 0 };
  const server = createServer((incoming, outgoing) => {
    void (async () => {
      const [path, method] = [incoming.url ?? "", incoming.method ?? "GET"];
      const encodings = String(incoming.headers["accept-encoding"] ?? "identity");
      const body = await text(incoming);
      recording.requests.push({ method, path, body, encodings });
      const asked = `${path}${path.includes("?") ? "&" : "?"}stats=all`;
      const headers = { "content-type": incoming.headers["content-type"] ?? "", "accept-encoding": "identity" };
      const onward = request(`${upstream}${asked}`, { method, headers }, (answer) => {
        let tail = Buffer.alloc(0);
        outgoing.writeHead(answer.statusCode ?? 502, { "content-type": answer.headers["content-type"] ?? "" });
        answer.on("data", (chunk: Buffer) => {
          recording.bytes += chunk.length;
          tail = Buffer.concat([tail, chunk]).subarray(-TAIL);
        });
        answer.on("end", () => note(recording, tail.toString()));
        answer.pipe(outgoing);
      });
      onward.on("error", () => outgoing.destroy());
      onward.end(body);
    })().catch(() => outgoing.destroy());
  });
  const port = await listen(server);
  return {
    url: `http://127.0.0.1:${port}`,
    recording,
    clear: () => Object.assign(recording, { requests: [], bytes: 0, samples: 0, peakSamples: 0 }),
    stop: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

function note(recording: Recording, tail: string): void {
  const at = tail.lastIndexOf(`"stats":{`);
  // What is not a query (the server's version) has none.
  if (at < 0) return;
  const { samples } = stats.parse(JSON.parse(tail.trimEnd().slice(at + `"stats":`.length, -2)));
  recording.samples += samples.totalQueryableSamples;
  recording.peakSamples = Math.max(recording.peakSamples, samples.peakSamples);
}
