import { rmSync } from "node:fs";
import { copyFile, cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildSync } from "esbuild";
import { z } from "zod";
import { bundle } from "../../scripts/build.ts";
import { gap, leastSettings } from "../../test/support/run-cli.ts";
import type { Figures } from "./jobs.ts";
import { type Program, type Run, measure } from "./measure.ts";
import type { Recorded } from "./record.ts";
import { NAMESPACE } from "./series.ts";
import { type Stretch, plusMonths, startOfMonth } from "./shape.ts";

/** How many queries gridmeter sends at once: the default of QUERY_CONCURRENCY. */
export const CONCURRENCY = 4;

/** A measured run and the figures that came of it, month by month. */
export type Counted = Run & { readonly figures: readonly Figures[] };

export type AccountOptions = {
  readonly url: string;
  /** where it keeps ledger and queue */
  readonly place: string;
  readonly now: number;
  /** first month and number of months, as whole months; absent: auto, as a scheduled run */
  readonly months?: { readonly first: string; readonly count: number };
};

const referenceFigures = z.array(z.object({ jobs: z.number(), coreSeconds: z.number() }));
const ourFigures = z.object({
  months: z.array(z.object({ tenants: z.array(z.object({ jobs: z.number(), coreHours: z.number() })) })),
});

/** The programs that are compared, with a scratch folder of their own. */
export class Contestants {
  readonly #folder: string;
  readonly #cli: string;

  private constructor(folder: string, cli: string) {
    this.#folder = folder;
    this.#cli = cli;
  }

  /**
   * Builds what is shipped, from the tree as it is, and bundles the programs beside it: understanding
   * TypeScript would cost each of them 40 MB and a part of a second.
   */
  static async open(): Promise<Contestants> {
    const folder = await mkdtemp(join(tmpdir(), "gridmeter-bench-run-"));
    process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
    const cli = join(folder, "gridmeter.cjs");
    for (const { name, file } of await bundle()) await copyFile(file, join(folder, `${name}.cjs`));
    buildSync({
      absWorkingDir: import.meta.dirname,
      entryPoints: ["probe.ts", "run-reference.ts", "run-replay.ts"],
      outdir: folder,
      outExtension: { ".js": ".mjs" },
      bundle: true,
      platform: "node",
      format: "esm",
      target: "node24",
    });
    return new Contestants(folder, cli);
  }

  async close(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** An empty folder, or a copy of another one. */
  async place(copyOf?: string): Promise<string> {
    const place = await mkdtemp(join(this.#folder, "place-"));
    if (copyOf !== undefined) await cp(copyOf, place, { recursive: true });
    return place;
  }

  /** (a) KAPEL's way: each period in turn, each query over the whole of it. */
  async reference(url: string, periods: readonly Stretch[], meters = url): Promise<Counted> {
    const stretches = periods.map(({ from, to }) => `${from}:${to}`);
    const run = await this.#measure(await this.#own("run-reference.mjs", url, NAMESPACE, ...stretches), meters);
    return { ...run, figures: referenceFigures.parse(JSON.parse(run.stdout)) };
  }

  /** (b) and (c) `gridmeter account`. @param meters Prometheus itself, where `url` is a proxy before it */
  async account({ url, place, now, months }: AccountOptions, meters = url): Promise<Counted> {
    const mode = months === undefined ? [] : gap(months.first, plusMonths(months.first, months.count));
    const settings = leastSettings(url, { NAMESPACE, QUERY_CONCURRENCY: `${CONCURRENCY}` });
    const args = [this.#cli, "account", "--json", ...mode];
    const run = await this.#measure({ args, cwd: place, env: { ...settings, TZ: "UTC", HOME: place }, now }, meters);
    const figures = ourFigures.parse(JSON.parse(run.stdout)).months.map(({ tenants }) => ({
      jobs: tenants.reduce((sum, tenant) => sum + tenant.jobs, 0),
      coreSeconds: Math.round(tenants.reduce((sum, tenant) => sum + tenant.coreHours, 0) * 3600),
    }));
    return { ...run, figures };
  }

  /** (d) What no client can be faster than: the same requests, the answers thrown away. */
  async replay(url: string, requests: readonly Recorded[]): Promise<Run> {
    const file = join(await this.place(), "requests.json");
    await writeFile(file, JSON.stringify(requests));
    return this.#measure(await this.#own("run-replay.mjs", url, file, `${CONCURRENCY}`), url);
  }

  /** What the program takes to start and do nothing. @param meters Prometheus */
  async start(meters: string): Promise<Run> {
    return this.#measure({ args: [this.#cli, "--version"], cwd: await this.place() }, meters);
  }

  #measure(program: Program, meters: string): Promise<Run> {
    return measure(program, join(this.#folder, "probe.mjs"), meters);
  }

  async #own(name: string, ...args: readonly string[]): Promise<Program> {
    return { args: [join(this.#folder, name), ...args], cwd: await this.place() };
  }
}

/** A month as a stretch of time. */
export function monthStretch(month: string): Stretch {
  return { from: startOfMonth(month), to: startOfMonth(plusMonths(month, 1)) };
}
