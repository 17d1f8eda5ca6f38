import { errorText } from "../../shared/errors.ts";
import { type Block, type Known, type Laid, type Metric, agree, encode, render } from "../../shared/exposition.ts";
import type { Probe, ProbeRun } from "../probes/common/probe.ts";
import type { JoinedMetrics, Readings } from "../probes/registry.ts";
import type { SelfMetrics, ProbeFigures } from "./self.ts";

export type MetricStoreOptions = {
  readonly probes: readonly Pick<Probe, "name" | "interval" | "timeout">[];
  readonly meta: SelfMetrics;
  readonly joins: readonly Join[];
  readonly extras?: readonly Extra[];
  /** what the program itself knows of a metric's name */
  readonly catalogue: (name: string) => Known | undefined;
  /** seconds; never goes back, and goes on while the machine is suspended */
  readonly clock: () => number;
  /** called once for each fault of a join, which a join should not have */
  readonly fault: (text: string) => void;
};

/** What one group is to hold now. */
export type GroupNow = {
  /** the whole group */
  readonly text: string;
  /** the group without its data: the account of its probe */
  readonly account: string;
};

/** So many different faults of joins are logged: a hostile output must not fill the log. */
const MOST_FAULTS = 20;

type View = { readonly blocks: ReadonlyMap<string, readonly Block[]>; readonly dropped: ReadonlyMap<string, number> };

/**
 * What the agent shows: the data of probes whose last run was ok and is not too old, and the account of all. Probes' runs come
 * in; a scrape and the Pushgateway read. Data are laid out once a run, so that a scrape only puts texts together.
 */
export class MetricStore {
  readonly #options: MetricStoreOptions;
  readonly #held = new Map<string, Held>();
  readonly #laid: Laid = new WeakMap();
  readonly #faults = new Set<string>();
  #view: View = { blocks: new Map(), dropped: new Map() };
  /** when the next of the data shown grow too old */
  #expires = Infinity;

  constructor(options: MetricStoreOptions) {
    this.#options = options;
  }

  /** All groups: the probes' and the agent's own. */
  get groups(): readonly string[] {
    return this.#options.meta.groups;
  }

  /** Takes in a run. Returns the groups to publish: the probe's own, and others whose joined data changed by it. */
  settled(probe: string, run: ProbeRun<Readings>): readonly string[] {
    const settings = this.#options.probes.find(({ name }) => name === probe);
    if (settings === undefined) return [];
    this.#options.meta.settled(probe, run);
    this.#held.set(probe, { probe, run, until: shownUntil(settings, this.#options.clock()) });
    const changed = this.#refresh();
    this.#options.meta.dropped(probe, this.#view.dropped.get(probe) ?? 0);
    return [...new Set([probe, ...changed])];
  }

  /** A probe runs from now on, or does not: then its data go. Returns the groups to publish. */
  enabled(probe: string, enabled: boolean): readonly string[] {
    this.#options.meta.enable(probe, enabled);
    this.#held.delete(probe);
    return [...new Set([probe, ...this.#refresh()])];
  }

  /** Takes away data that grew too old without a new run. Returns the groups that changed by it. */
  expire(): readonly string[] {
    return this.#options.clock() > this.#expires ? this.#refresh() : [];
  }

  /** The group's text for a push. */
  group(name: string): GroupNow {
    this.expire();
    const data = this.#view.blocks.get(name) ?? [];
    const account = this.#account(name);
    return { text: render([...data, ...account]), account: render(account) };
  }

  /** Whether the group has data now, beside the account of its probe. */
  hasData(name: string): boolean {
    const held = this.#held.get(name);
    return held !== undefined && isFresh(held, this.#options.clock());
  }

  /** The text of all groups for a scrape. */
  exposition(): string {
    this.expire();
    const data = this.groups.flatMap((name) => this.#view.blocks.get(name) ?? []);
    return render([...data, ...this.groups.flatMap((name) => this.#account(name))]);
  }

  #account(name: string): readonly Block[] {
    return this.#options.meta.families(name).map((family) => encode(name, family));
  }

  /** Lays out the data again. Returns the groups whose data are others than before. */
  #refresh(): readonly string[] {
    const { probes, clock, catalogue } = this.#options;
    const now = clock();
    // Always in the probes' order: which of two is the first must not hang on which of them ran last.
    const held = probes.flatMap(({ name }) => this.#held.get(name) ?? []);
    this.#expires = Math.min(Infinity, ...held.filter((each) => isFresh(each, now)).map(({ until }) => until));
    const before = this.#view.blocks;
    this.#view = agree(this.#data(held, now), catalogue, this.#laid);
    return probes.map(({ name }) => name).filter((name) => !equal(before.get(name), this.#view.blocks.get(name)));
  }

  #data(held: readonly Held[], now: number): ReadonlyMap<string, readonly Metric[]> {
    const { joins, extras = [], meta, probes } = this.#options;
    const joined = joins.map<Join>((join) => (fresh) => this.#guard(() => join(fresh)));
    const data = new Map(freshData(held, now, joined));
    if (extras.length === 0) return data;
    const readings = freshReadings(held, now);
    const figures = meta.figures();
    const more = extras.map((extra) => this.#guard(() => extra(readings, figures)));
    return new Map(
      probes.map(({ name }) => [name, [data.get(name) ?? [], ...more.map((each) => each.get(name) ?? [])].flat()]),
    );
  }

  /** A join that throws costs what it joins, not the probes' own data. */
  #guard(join: () => JoinedMetrics): JoinedMetrics {
    try {
      return join();
    } catch (thrown) {
      const text = errorText(thrown);
      if (!this.#faults.has(text) && this.#faults.size < MOST_FAULTS) this.#options.fault(text);
      if (this.#faults.size < MOST_FAULTS) this.#faults.add(text);
      return new Map();
    }
  }
}

const equal = (one: readonly Block[] = [], other: readonly Block[] = []): boolean =>
  one.length === other.length &&
  one.every(({ name, type, lines }, index) => {
    const twin = other[index];
    return twin !== undefined && twin.name === name && twin.type === type && twin.lines === lines;
  });

/** Makes metrics of several probes' readings. All that it is given is fresh; what is not is not there. Pure. */
export type Join = (fresh: Readings) => JoinedMetrics;

/**
 * Makes further metrics, which may say something about a probe without data (that it timed out), from what is fresh and from
 * the account of all probes. It sees to it by itself that nothing in them is old.
 */
export type Extra = (fresh: Readings, figures: ReadonlyMap<string, ProbeFigures>) => JoinedMetrics;

/** The last run of a probe. */
type Held = {
  readonly probe: string;
  readonly run: ProbeRun<Readings>;
  /** until when it may be shown at the longest; seconds of the monotonic clock */
  readonly until: number;
};

/** Beyond interval and timeout a run's data are still shown for so long, seconds: timers are late on a busy machine. */
const MARGIN = 5;

/**
 * Until when a run's data may be shown. The next run settles before that unless the program or the whole machine was paused:
 * then what was read is old, and nobody was there to take it back.
 */
export const shownUntil = ({ interval, timeout }: Pick<Probe, "interval" | "timeout">, settledAt: number): number =>
  settledAt + interval + timeout + MARGIN;

/** Whether data of the run may be shown: only those of a run that was ok, and only for so long. */
const isFresh = ({ run, until }: Held, now: number): boolean => run.kind === "ok" && now <= until;

/** What may be joined at this time. */
const freshReadings = (held: readonly Held[], now: number): Readings =>
  held.filter((each) => isFresh(each, now)).reduce<Readings>((all, { run }) => ({ ...all, ...run.readings }), {});

/**
 * The data of all probes: each one's own metrics, and what the joins make of the readings of those that are fresh. A probe that
 * is not fresh has none, not even joined ones. In the order of `held`; probes without data are missing. Pure, if the joins are.
 */
export function freshData(
  held: readonly Held[],
  now: number,
  joins: readonly Join[],
): ReadonlyMap<string, readonly Metric[]> {
  const own = held.filter((each) => isFresh(each, now)).map(({ probe, run }) => [probe, run.metrics] as const);
  const readings = freshReadings(held, now);
  const data = new Map<string, readonly Metric[]>(own);
  for (const join of joins) {
    for (const [probe, metrics] of join(readings)) {
      const before = data.get(probe);
      if (before !== undefined) data.set(probe, [...before, ...metrics]);
    }
  }
  return data;
}
