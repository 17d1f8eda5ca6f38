import { MultiBar, Presets } from "cli-progress";
import type { SingleBar } from "cli-progress";

/** Progress bars on stderr, one a tenant, say; nothing where stderr is no terminal. */
export class Progress {
  readonly #bars = new Map<string, SingleBar>();
  readonly #all: MultiBar | undefined;

  /** @param counted what is counted, as a plural */
  constructor(counted = "days") {
    const options = {
      format: `{name} [{bar}] {value}/{total} ${counted}`,
      stream: process.stderr,
      clearOnComplete: true,
      hideCursor: true,
    };
    this.#all = process.stderr.isTTY ? new MultiBar(options, Presets.shades_classic) : undefined;
  }

  show(name: string, done: number, total: number): void {
    if (this.#all === undefined || total === 0) return;
    const bar = this.#bars.get(name) ?? this.#all.create(total, 0, { name });
    this.#bars.set(name, bar);
    bar.setTotal(total);
    bar.update(done);
  }

  end(): void {
    this.#all?.stop();
  }
}
