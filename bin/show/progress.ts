import { MultiBar, Presets } from "cli-progress";
import type { SingleBar } from "cli-progress";

/** Progress bars on stderr, one a tenant; nothing where stderr is no terminal. */
export class Progress {
  readonly #bars = new Map<string, SingleBar>();
  readonly #all = process.stderr.isTTY
    ? new MultiBar(
        {
          format: "{tenant} [{bar}] {value}/{total} days",
          stream: process.stderr,
          clearOnComplete: true,
          hideCursor: true,
        },
        Presets.shades_classic,
      )
    : undefined;

  show(tenant: string, done: number, days: number): void {
    if (this.#all === undefined || days === 0) return;
    const bar = this.#bars.get(tenant) ?? this.#all.create(days, 0, { tenant });
    this.#bars.set(tenant, bar);
    bar.update(done);
  }

  end(): void {
    this.#all?.stop();
  }
}
