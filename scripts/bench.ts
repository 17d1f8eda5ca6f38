// `npm run bench`: what accounting and the node agent cost, measured. Prints tables and writes bench/results.md.
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { Command, InvalidArgumentError, Option } from "@commander-js/extra-typings";
import { Presets, SingleBar } from "cli-progress";
import { z } from "zod";
import { benchAccounting } from "../bench/accounting/accounting.ts";
import { BLOCKS, type BlockHours } from "../bench/accounting/prepare.ts";
import { closingTables, markdownOf } from "../bench/accounting/report.ts";
import { withSection } from "../bench/accounting/results-file.ts";
import { type Table, forTerminal } from "../bench/accounting/tables.ts";
import { ensureTools } from "./setup.ts";

const root = resolve(import.meta.dirname, "..");
const resultsFile = join(root, "bench", "results.md");
const agentBench = join(root, "scripts", "bench-agent.ts");

function positive(text: string): number {
  const number = Number(text);
  if (Number.isInteger(number) && number > 0) return number;
  throw new InvalidArgumentError("it is not a whole number above 0");
}

function blocksOf(text: string): readonly BlockHours[] {
  const found = BLOCKS.filter((hours) => `${hours}` === text);
  if (found.length > 0) return found;
  throw new InvalidArgumentError(`there are blocks of ${BLOCKS.join(" and ")} hours`);
}

const program = new Command()
  .name("npm run bench --")
  .option("--jobs <number>", "jobs a month", positive, 100_000)
  .option("--months <number>", "months of data; the daily run needs two, the run over all of them three", positive, 3)
  .option("--scrape <seconds>", "time between scrapes", positive, 60)
  .option("--repeat <number>", "rounds in which all ways are measured in turns", positive, 3)
  .addOption(
    new Option("--growth <how>", "also a tenth and three times as many jobs; `normal` measures the latter once")
      .choices(["none", "normal", "full"])
      .default("normal"),
  )
  .addOption(new Option("--blocks <hours>", `only blocks of this length, ${BLOCKS.join(" or ")}`).argParser(blocksOf))
  .addOption(new Option("--only <part>", "one of the parts").choices(["accounting", "agent"]))
  .parse();

const { jobs, months, scrape, repeat, growth, blocks = BLOCKS, only } = program.opts();
const start = performance.now();
const say = (text: string): void => {
  process.stderr.write(`bench: ${((performance.now() - start) / 1000).toFixed(0)} s: ${text}\n`);
};

/** A bar on terminals; elsewhere a line at every tenth. */
function progress(): (step: string, done: number, of: number) => void {
  const bar = process.stderr.isTTY
    ? new SingleBar(
        { format: "{step} [{bar}] {value}/{total}", stream: process.stderr, clearOnComplete: true },
        Presets.shades_classic,
      )
    : undefined;
  let told = "";
  return (step, done, of) => {
    if (bar === undefined) {
      const tenth = `${step} ${Math.floor((done * 10) / of)}`;
      if (tenth !== told) say(`${step}: ${done} of ${of}`);
      told = tenth;
      return;
    }
    if (told !== step) bar.start(of, done, { step });
    told = done === of ? "" : step;
    bar.update(done, { step });
    if (done === of) bar.stop();
  };
}

async function save(section: string): Promise<void> {
  const held = await readFile(resultsFile, "utf8").catch(() => "");
  await writeFile(resultsFile, withSection(held, section, new Date()));
}

async function accounting(): Promise<void> {
  ensureTools(["prometheus"]);
  const show = (table: Table): void => void process.stdout.write(forTerminal(table));
  const shape = { jobs, months, scrapeSeconds: scrape };
  const results = await benchAccounting({ ...shape, repeat, growth, blocks, say, tell: progress(), show });
  closingTables(results).forEach(show);
  await save(markdownOf(results));
}

/** The agent's bench prints its own tables and gives its section of the results. */
async function agent(): Promise<void> {
  ensureTools(["pushgateway"]);
  const loaded: unknown = await import(pathToFileURL(agentBench).href);
  const { benchAgent } = z
    .object({ benchAgent: z.custom<() => Promise<string>>((given) => typeof given === "function") })
    .parse(loaded);
  await save(await benchAgent());
}

// Ended from outside, it must not leave a Prometheus behind: what it started is ended when it exits.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.once(signal, () => {
    say(`ended by ${signal}; bench/results.md is as it was`);
    process.exit(1);
  });
}
if (only !== "agent") await accounting();
if (only !== "accounting" && existsSync(agentBench)) await agent();
say("wrote bench/results.md");
