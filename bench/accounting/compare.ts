import type { AccountOptions, Contestants, Counted } from "./contestants.ts";
import type { Figures } from "./jobs.ts";
import { type Run, middle } from "./measure.ts";
import { type Recording, startRecorder } from "./record.ts";
import type { Stretch } from "./shape.ts";

/** What a section of the bench works with. */
export type Bench = {
  readonly contestants: Contestants;
  /** Prometheus */
  readonly url: string;
  readonly repeat: number;
  readonly say: (text: string) => void;
};

/** One way to do a job: the medians of its runs, what Prometheus looked at for it, and what it counted. */
export type Way = {
  readonly middle: Omit<Run, "stdout">;
  readonly recording?: Recording;
  readonly figures?: readonly Figures[];
};

/** The three ways to count a period, measured in turns. */
export type Comparison = { readonly reference: Way; readonly ours: Way; readonly limit: Way };

export type Job = {
  readonly name: string;
  readonly periods: readonly Stretch[];
  /** what ours is asked to do, and the ledger it starts from, if any */
  readonly ours: Pick<AccountOptions, "now" | "months">;
  /** makes the ledger that ours starts from, for a server's address, since days counted from another server do not count; gives its place */
  readonly ledger?: (at: string) => Promise<string>;
};

/**
 * Runs the reference, ours and the bare limit in turns, so that whatever else the machine does meets all of them. First
 * each of the two goes through the recorder once, which also warms the server's caches for both.
 */
export async function compare(bench: Bench, job: Job): Promise<Comparison> {
  const { contestants, url, repeat, say } = bench;
  const reference = (at: string): Promise<Counted> => contestants.reference(at, job.periods, url);
  const ours = async (at: string, ledger: string | undefined): Promise<Counted> =>
    contestants.account({ ...job.ours, url: at, place: await contestants.place(ledger) }, url);

  say(`${job.name}: what each asks for`);
  const asked = {
    reference: await recorded(url, async (at) => () => reference(at)),
    ours: await recorded(url, async (at) => {
      const ledger = await job.ledger?.(at);
      return () => ours(at, ledger);
    }),
  };
  const ledger = await job.ledger?.(url);
  const runs = { reference: new Array<Counted>(), ours: new Array<Counted>(), limit: new Array<Run>() };
  for (let round = 1; round <= repeat; round += 1) {
    say(`${job.name}: round ${round} of ${repeat}`);
    runs.reference.push(await reference(url));
    runs.ours.push(await ours(url, ledger));
    runs.limit.push(await contestants.replay(url, asked.ours.requests));
  }
  return {
    reference: { middle: middle(runs.reference), recording: asked.reference, figures: figuresOf(runs.reference) },
    ours: { middle: middle(runs.ours), recording: asked.ours, figures: figuresOf(runs.ours) },
    limit: { middle: middle(runs.limit) },
  };
}

/** Lets a program get ready and run behind a recorder, and gives the recording of the run alone. */
async function recorded(url: string, ready: (at: string) => Promise<() => Promise<unknown>>): Promise<Recording> {
  const recorder = await startRecorder(url);
  try {
    const run = await ready(recorder.url);
    recorder.clear();
    await run();
    return recorder.recording;
  } finally {
    await recorder.stop();
  }
}

/** The figures that all runs agree on. */
function figuresOf(runs: readonly Counted[]): readonly Figures[] {
  const [first, ...others] = runs.map(({ figures }) => figures);
  if (first === undefined) throw new Error("Nothing was run.");
  for (const other of others) {
    if (JSON.stringify(other) !== JSON.stringify(first)) throw new Error("Two runs over the same data differ.");
  }
  return first;
}
