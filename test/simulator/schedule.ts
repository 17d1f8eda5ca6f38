/** [from, to) */
export type Stretch = { readonly from: number; readonly to: number };

/** When one monitoring stack scrapes: every `interval` seconds, shifted by `offset`, inside the stretches in which it works. */
export class Schedule {
  readonly interval: number;
  readonly offset: number;
  readonly working: readonly Stretch[];

  constructor(interval: number, offset: number, life: Stretch, outages: readonly Stretch[]) {
    this.interval = interval;
    this.offset = offset;
    this.working = outages.reduce((working, outage) => without(working, outage), [life]);
  }

  /** The last scrape in [from, to), or undefined if there is none. */
  last(from: number, to: number): number | undefined {
    for (let index = this.working.length - 1; index >= 0; index -= 1) {
      const stretch = this.working[index]!;
      const end = Math.min(stretch.to, to);
      const time = this.offset + Math.floor((Math.ceil(end) - 1 - this.offset) / this.interval) * this.interval;
      if (time >= Math.max(stretch.from, from)) return time;
    }
    return undefined;
  }

  /** All scrapes in [from, to), ascending. */
  *times(from: number, to: number): Generator<number> {
    for (const stretch of this.working) {
      const start = Math.max(stretch.from, from);
      const end = Math.min(stretch.to, to);
      let time = this.offset + Math.ceil((start - this.offset) / this.interval) * this.interval;
      for (; time < end; time += this.interval) yield time;
    }
  }
}

function without(working: readonly Stretch[], outage: Stretch): Stretch[] {
  return working.flatMap(({ from, to }) =>
    [
      { from, to: Math.min(to, outage.from) },
      { from: Math.max(from, outage.to), to },
    ].filter((part) => part.to > part.from),
  );
}
