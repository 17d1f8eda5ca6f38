const FLOOR_MS = 10;
const TRIES = 5;

/** CPU milliseconds of this process that some work takes; of a few tries the least, since others share the machine. */
function cost(work: () => unknown): number {
  let least = Infinity;
  for (let tries = 0; tries < 3; tries += 1) {
    const before = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(before);
    least = Math.min(least, (user + system) / 1000);
  }
  return least;
}

/** How many times as long a reader takes for twice the text. Where that takes a few milliseconds, nothing can be measured: 1. */
export function growth(read: (text: string) => unknown, textOf: (length: number) => string, length: number): number {
  let best = Infinity;
  for (let tries = 0; tries < TRIES && best > 3; tries += 1) {
    const twice = cost(() => read(textOf(2 * length)));
    if (twice < FLOOR_MS) return 1;
    best = Math.min(
      best,
      twice /
        Math.max(
          FLOOR_MS / 4,
          cost(() => read(textOf(length))),
        ),
    );
  }
  return best;
}
