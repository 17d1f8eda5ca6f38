import { Command, Option } from "@commander-js/extra-typings";
import { report, several } from "./commands/options.ts";
import { saveMemory } from "./little-memory.ts";

declare const __GRIDMETER_VERSION__: string | undefined;

// Node reads files with four threads, and a few commands on a file system that hangs would hold them all.
process.env["UV_THREADPOOL_SIZE"] ??= "16";

const version = typeof __GRIDMETER_VERSION__ === "undefined" ? "development" : __GRIDMETER_VERSION__;

// Each command is loaded when it is run: the agent lives long, and has no use for the accounting's code in its memory.

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
    "--ledger <place>",
    "where days and state are kept: a directory, s3://BUCKET/PREFIX, or none: a one-off that remembers nothing (default: ./gridmeter-data/ledger)",
  );
const output = () =>
  new Option(
    "--output <place>",
    "where messages go: dirq:DIR, dir:DIR, a path, which is a dirq, or s3://BUCKET/PREFIX, for gridmeter spool to take from there (default: OUTPUT_PATH, else ./gridmeter-data/outgoing)",
  );
const queue = () =>
  new Option(
    "--queue <url>",
    "with --output s3://...: the SQS queue that tells the spooler; without it the spooler's sweep finds the messages",
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
    "Accounting of Kubernetes jobs for APEL, and a node agent. Settings of the accounting are environment variables (docs/configuration.md), KAPEL's under their own names; those of the agent are a file (docs/agent.md).",
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
  .addOption(queue())
  .addOption(ledger())
  .option("--dry-run", "do everything but write, and print the messages")
  .addOption(recount())
  .option("--force", "publish unchanged months too, and months that hand-written records pin")
  .option("--allow-decrease", "publish figures lower than before")
  .option("--allow-incomplete", "publish months of which monitoring missed whole days")
  .addOption(json())
  .action((options) => run(async () => (await import("./commands/account.ts")).account(options), options.json));

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
  .action((options) => run(async () => (await import("./commands/plan.ts")).plan(options), options.json));

program
  .command("check")
  .description("ask Prometheus what should be known before the first run, and say what to do")
  .addOption(envFile())
  .addOption(json())
  .action((options) => run(async () => (await import("./commands/check.ts")).check(options), options.json));

program
  .command("manual")
  .description(
    "check hand-written APEL messages and put each record into the queue once; their months are pinned until --unpin",
  )
  .argument("[file...]", "APEL messages, one header line a file")
  .addOption(output())
  .addOption(queue())
  .addOption(ledger())
  .option(
    "--unpin",
    "lift the pins of these files, or of the unit given with --site, --submit-host and --month; sends nothing",
  )
  .option("--site <name>", "with --unpin: the unit's site")
  .option("--submit-host <name>", "with --unpin: the unit's submit host")
  .option("--month <yyyy-mm>", "with --unpin: the unit's month")
  .addOption(json())
  .action((files, options) =>
    run(async () => (await import("./commands/manual.ts")).manual(files, options), options.json),
  );

program
  .command("spool")
  .description("on ssmsend's host: take messages from a bucket into ssmsend's queue, until SIGTERM")
  .option("--source <s3://bucket/prefix>", "where gridmeter account put them (its --output)")
  .option("--queue <url>", "the SQS queue that tells of new messages; without it only sweeps find them")
  .option("--output <place>", "ssmsend's queue on this host: dirq:DIR or dir:DIR")
  .option("--once", "one sweep, then the queue until it is empty; for cron or a systemd timer")
  .option("--sweep-interval <duration>", "how often to look for messages that the queue did not tell of", "10m")
  .option("--visibility <duration>", "how long others do not see a queue message that is being dealt with", "5m")
  .action((options) => run(async () => (await import("./commands/spool.ts")).spool(options), false));

const agentConfig = () =>
  new Option("--config <file>", "the agent's configuration, YAML or JSON (default: GRIDMETER_AGENT_CONFIG, else none)");
const pushgateway = () =>
  new Option(
    "--pushgateway <url>",
    "the Pushgateway (default: PUSHGATEWAY_URL, else pushgateway.url of the configuration)",
  );

program
  .command("agent")
  .description("on each node: run probes and publish what they read, on a Pushgateway and a port, until SIGTERM")
  .addOption(agentConfig())
  .addOption(pushgateway())
  .option("--listen <address>", "host:port, :port, or off (default: listen of the configuration, else :9102)")
  .option(
    "--instance <name>",
    "the node's name (default: NODE_NAME, else instance of the configuration, else the host's)",
  )
  .option("--openpai-names", "job-exporter's metric names beside our own")
  .option("--once", "run each probe once and push; without a Pushgateway print the metrics on stdout")
  .action((options) => {
    saveMemory();
    return run(async () => (await import("./commands/agent.ts")).agent(options, version), false);
  });

program
  .command("probe")
  .description("run one probe once and print its metrics; publishes nothing")
  .argument("[name]", "the probe: see --list")
  .addOption(agentConfig())
  .option("--input <file>", "parse a saved output of its command (- for stdin) instead of running it")
  .option("--list", "show all probes, their commands, and whether each can run on this node")
  .addOption(new Option("--json", "print what was read as one JSON object on stdout"))
  .action((name, options) => run(async () => (await import("./commands/probe.ts")).probe(name, options), options.json));

program
  .command("reap")
  .description(
    "delete the groups of dead agents from a Pushgateway: those of their job with a label probe, and no others",
  )
  .addOption(agentConfig())
  .addOption(pushgateway())
  .option("--job <name>", "the agents' job (default: that of the configuration, else gridmeter_agent)")
  .option("--older-than <duration>", "only groups that were not pushed for so long", "1h")
  .option("--dry-run", "only show what would be deleted")
  .addOption(json())
  .action((options) => run(async () => (await import("./commands/reap.ts")).reap(options), options.json));

void program.parseAsync();
