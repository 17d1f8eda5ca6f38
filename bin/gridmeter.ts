import { Command, Option } from "@commander-js/extra-typings";
import { account } from "./commands/account.ts";
import { check } from "./commands/check.ts";
import { manual } from "./commands/manual.ts";
import { report, several } from "./commands/options.ts";
import { plan } from "./commands/plan.ts";

declare const __GRIDMETER_VERSION__: string | undefined;

const version = typeof __GRIDMETER_VERSION__ === "undefined" ? "development" : __GRIDMETER_VERSION__;

/** Runs a command and ends with its exit code: 0 done, 1 unexpected, 2 usage or configuration, 3 refused, 4 Prometheus or store failed. */
async function run(command: () => Promise<number>, json: boolean | undefined): Promise<void> {
  try {
    process.exitCode = await command();
  } catch (error) {
    process.exitCode = report(error, json === true);
  }
}

const envFile = () => new Option("-e, --env-file <file>", "read settings from this file; the environment wins over it");
const json = () => new Option("--json", "print one JSON object on stdout");
const ledger = () =>
  new Option(
    "--ledger <dir|none>",
    "where days, state and outgoing messages are kept (default: ./gridmeter-data/ledger); none: a one-off that remembers nothing",
  );
const output = () =>
  new Option(
    "--output <place>",
    "dirq:DIR, dir:DIR, or a path, which is a dirq (default: OUTPUT_PATH, else ./gridmeter-data/outgoing)",
  );
const mode = () =>
  new Option(
    "--mode <mode>",
    "auto: the previous and the current month; gap: the months from --start to --end",
  ).choices(["auto", "gap"]);
const start = () => new Option("--start <time>", "start of the gap, ISO 8601 with zone; widened to whole months");
const end = () => new Option("--end <time>", "end of the gap, ISO 8601 with zone");
const recount = () => new Option("--recount", "ask for every day again, settled ones too");

const program = new Command()
  .name("gridmeter")
  .description(
    "Accounting of Kubernetes jobs for APEL. Settings are environment variables (docs/configuration.md), KAPEL's under their own names.",
  )
  .version(version)
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2));

program
  .command("account")
  .description("count the jobs of each month and put APEL messages into ssmsend's queue")
  .addOption(envFile())
  .addOption(mode())
  .addOption(start())
  .addOption(end())
  .option("--tenant <name>", "count only this tenant (repeatable); the others' figures come from the ledger", several)
  .addOption(output())
  .addOption(ledger())
  .option("--dry-run", "do everything but write, and print the messages")
  .addOption(recount())
  .option("--force", "publish unchanged months too, and months that hand-written records pin")
  .option("--allow-decrease", "publish figures lower than before")
  .option("--allow-incomplete", "publish months of which monitoring missed whole days")
  .addOption(json())
  .action((options) => run(() => account(options), options.json));

program
  .command("plan")
  .description("show which months, days and pieces a run would ask for, with which queries; asks and writes nothing")
  .addOption(envFile())
  .addOption(mode())
  .addOption(start())
  .addOption(end())
  .addOption(ledger())
  .addOption(recount())
  .addOption(json())
  .action((options) => run(() => plan(options), options.json));

program
  .command("check")
  .description("ask Prometheus what should be known before the first run, and say what to do")
  .addOption(envFile())
  .addOption(json())
  .action((options) => run(() => check(options), options.json));

program
  .command("manual")
  .description(
    "check hand-written APEL messages and put each record into the queue once; their months are pinned until --unpin",
  )
  .argument("[file...]", "APEL messages, one header line a file")
  .addOption(output())
  .addOption(ledger())
  .option(
    "--unpin",
    "lift the pins of these files, or of the unit given with --site, --submit-host and --month; sends nothing",
  )
  .option("--site <name>", "with --unpin: the unit's site")
  .option("--submit-host <name>", "with --unpin: the unit's submit host")
  .option("--month <yyyy-mm>", "with --unpin: the unit's month")
  .addOption(json())
  .action((files, options) => run(() => manual(files, options), options.json));

void program.parseAsync();
