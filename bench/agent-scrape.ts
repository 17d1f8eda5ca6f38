import { Agent, get } from "node:http";

/** A scraper that keeps its connection, as Prometheus does. */
export class Scraper {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  readonly #url: string;

  constructor(url: string | undefined) {
    if (url === undefined) throw new Error("the agent has no port");
    this.#url = `${url}/metrics`;
  }

  /** One scrape: its bytes, and how long it took from asking to the last byte, in seconds. */
  scrape(): Promise<{ readonly bytes: number; readonly seconds: number }> {
    const started = performance.now();
    return new Promise((resolve, reject) => {
      get(this.#url, { agent: this.#agent }, (response) => {
        let bytes = 0;
        response.on("data", (part: Buffer) => (bytes += part.length));
        response.once("end", () => resolve({ bytes, seconds: (performance.now() - started) / 1000 }));
        response.once("error", reject);
      }).once("error", reject);
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

/** A share of the values are at most this. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}
