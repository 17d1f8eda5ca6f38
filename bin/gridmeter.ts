import { existsSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { AccountOptions } from "./commands/account.ts";
import { Argument, Option } from "@commander-js/extra-typings";
import { AGENT_COMMANDS, json, newProgram, parse, run } from "./command-line.ts";
import { SHELLS, type Shell } from "./commands/completion.ts";
import { several } from "./commands/options.ts";
import { plainText } from "../lib/shared/text.ts";

const envFile = () => new Option("-e, --env-file <file>", "read settings from this file; the environment wins over it");
const ledger = (unset = "else ./gridmeter-data/ledger") =>
  new Option(
    "--ledger <place>",
    `where days and state are kept: a directory, s3://BUCKET/PREFIX, or none: a one-off that remembers nothing (default: LEDGER_PATH, ${unset})`,
  );
const output = (unset = "else ./gridmeter-data/outgoing") =>
  new Option(
    "--output <place>",
    `where messages go: dirq:DIR, dir:DIR, a path, which is a dirq, or s3://BUCKET/PREFIX, for gridmeter spool to take from there (default: OUTPUT_PATH, ${unset})`,
  );
/** By hand nobody is to write beside the working directory by mistake. */
const NEEDED = "one of the two is needed";
const queue = () =>
  new Option(
    "--queue <url>",
    "with --output s3://...: the SQS queue that notifies the spooler; without it the spooler's sweep finds the messages",
  );
const mode = () =>
  new Option(
    "--mode <mode>",
    "auto: the previous and the current month; gap: the months from --start to --end",
  ).choices(["auto", "gap"]);
const start = () => new Option("--start <time>", "start of the gap, ISO 8601 with zone; widened to whole months");
const end = () => new Option("--end <time>", "end of the gap, ISO 8601 with zone");
const recount = () => new Option("--recount", "ask for every day again, settled ones too");

const ssmConfig = () =>
  new Option(
    "--ssm-config <file>",
    "read host, project, topic, certificate, key, authorities and queue from ssmsend's configuration, such as /etc/apel/sender.cfg; AMS_... and options win over it",
  );
/** An option that gives the setting of the same name. */
const ams = (name: string, what: string) => new Option(`--ams-${name}`, what);

const program = newProgram();

const accountOf = async (options: AccountOptions): Promise<number> =>
  (await import("./commands/account.ts")).account(options);

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
  .option("--pushgateway <url>", "push the run's own metrics there (default: PUSHGATEWAY_URL)")
  .option("--metrics-file <file>", "write them into a file for node_exporter (default: METRICS_FILE)")
  .option(
    "--exit-code-to <file>",
    "write the exit code there and end with 0, so that in a pod a sender starts next, which gridmeter outcome then follows",
  )
  .option(
    "--send",
    "then send what lies in the output to APEL's messaging service, as gridmeter send does (AMS_HOST ...)",
  )
  .addOption(ssmConfig())
  .addOption(json())
  .action((options) =>
    run(
      async () =>
        (await import("./commands/outcome.ts")).keptIn(options.exitCodeTo, () => accountOf(options), options.json),
      options.json,
    ),
  );

program
  .command("outcome")
  .description("end with the exit code that account --exit-code-to wrote")
  .argument("<file>", "the file")
  .action((file) => run(async () => (await import("./commands/outcome.ts")).outcome(file), false));

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
  .description(
    "ask Prometheus what should be known, count the months that account would publish, and say what to do; writes nothing",
  )
  .addOption(envFile())
  .addOption(mode())
  .addOption(start())
  .addOption(end())
  .addOption(ledger())
  .option("--allow-decrease", "judge as account --allow-decrease would")
  .option("--allow-incomplete", "judge as account --allow-incomplete would")
  .addOption(ssmConfig())
  .addOption(json())
  .action((options) => run(async () => (await import("./commands/check.ts")).check(options), options.json));

program
  .command("report")
  .description(
    "show what the ledger has: usage by tenant, VO, day and month, what was left out, and what was published; asks and sends nothing",
  )
  .addOption(envFile())
  .addOption(ledger())
  .option("--from <yyyy-mm>", "the first month (default: eleven months before --to, or the first one in the ledger)")
  .option("--to <yyyy-mm>", "the last month (default: the current one)")
  .option("--html <file>", "write one self-contained page, and nothing on stdout")
  .option(
    "--csv [table]",
    "print one table as CSV: tenants, vos, byMonth, monthly, byDay, daily, leftOut, gaps, published or units (default: monthly)",
  )
  .option("--demo", "report on a made-up ledger; needs no settings")
  .addOption(json())
  .action((options) => run(async () => (await import("./commands/report.ts")).report(options), options.json));

program
  .command("manual")
  .description(
    "check hand-written APEL messages and put each record into the queue once; their months are pinned until --unpin",
  )
  .argument("[file...]", "APEL messages, one header line a file")
  .addOption(envFile())
  .addOption(output(NEEDED))
  .addOption(queue())
  .addOption(ledger(NEEDED))
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
  .option("--queue <url>", "the SQS queue that announces new messages; without it only sweeps find them")
  .option("--output <place>", "ssmsend's queue on this host: dirq:DIR or dir:DIR")
  .option("--take-over", "say to the bucket that from now on a spooler takes its messages, and not gridmeter send")
  .option("--once", "one sweep, then the queue until it is empty; for cron or a systemd timer")
  .option("--sweep-interval <duration>", "how often to look for messages that the queue did not announce", "10m")
  .option("--visibility <duration>", "how long others do not see a queue message that is being dealt with", "5m")
  .action((options) => run(async () => (await import("./commands/spool.ts")).spool(options), false));

program
  .command("version")
  .description("print the version, and what it runs on")
  .addOption(json())
  .action((options) =>
    run(async () => (await import("./commands/version.ts")).version(options.json === true), options.json),
  );

program
  .command("completion")
  .description("print the script that completes commands, options and values in a shell")
  .addArgument(new Argument("<shell>", "the shell").choices(SHELLS))
  .action((shell) => run(() => printCompletion(shell), false));

program
  .command("send")
  .description("sign APEL messages and send them to APEL's messaging service (AMS), without ssmsend")
  .addOption(envFile())
  .option(
    "--source <place>",
    "where the messages are: dirq:DIR, dir:DIR, or s3://BUCKET/PREFIX (default: the queue of --ssm-config)",
  )
  .addOption(ssmConfig())
  .addOption(ams("host <name>", "host of the messaging service (default: AMS_HOST)"))
  .addOption(ams("port <number>", "its port (default: AMS_PORT, else 443)"))
  .addOption(
    ams("authn-port <number>", "port that gives a token for a certificate (default: AMS_AUTHN_PORT, else 8443)"),
  )
  .addOption(ams("project <name>", "project of the messaging service (default: AMS_PROJECT, else accounting)"))
  .addOption(ams("topic <name>", "topic of the messaging service (default: AMS_TOPIC, else gLite-APEL)"))
  .addOption(ams("certificate <file>", "host certificate, PEM (default: AMS_CERTIFICATE)"))
  .addOption(ams("key <file>", "its private key, PEM (default: AMS_KEY)"))
  .addOption(
    ams("token-file <file>", "a token that was given to you (default: AMS_TOKEN_FILE, else the certificate gets one)"),
  )
  .addOption(ams("ca-file <file>", "further authorities to trust, PEM (default: AMS_CA_FILE)"))
  .option(
    "--take-over",
    "with s3://...: say to the bucket that from now on its messages are sent from here, and not spooled",
  )
  .option("--dry-run", "check certificate, key, token and topic, sign, and show what would be sent; send nothing")
  .addOption(json())
  .action((options) => run(async () => (await import("./commands/send.ts")).send(options), options.json));

for (const [name, description] of Object.entries(AGENT_COMMANDS)) program.command(name).description(description);

const [, self = "", command = "", topic = ""] = process.argv;
if (Object.hasOwn(AGENT_COMMANDS, command)) runAgent();
else if (command === "help" && Object.hasOwn(AGENT_COMMANDS, topic)) runAgent([topic, "--help"]);
else void parse(program);

/**
 * Runs the agent's program, which lies beside the real file of this one: an agent lives long, and has no use for the code of the
 * accounting in its memory.
 */
function runAgent(args = process.argv.slice(2)): void {
  const folder = dirname(realpathSync(self));
  const names = ["gridmeter-agent.cjs", "gridmeter-agent", "gridmeter-agent.ts"];
  const file = names.map((name) => join(folder, name)).find((path) => existsSync(path));
  if (file === undefined) {
    process.stderr.write(
      `gridmeter: ${command} is a command of the node agent, whose program is not there: neither gridmeter-agent.cjs nor gridmeter-agent ` +
        `is in ${plainText(folder)}. Nothing was started. Copy dist/gridmeter-agent.cjs beside gridmeter.\n`,
    );
    process.exitCode = 2;
    return;
  }
  process.argv = [process.argv[0] ?? "", self, ...args];
  createRequire(file)(file);
}

/** The agent's commands are those of its own program, which knows their options. */
async function printCompletion(shell: Shell): Promise<number> {
  const [{ completion }, { addAgentCommands }] = await Promise.all([
    import("./commands/completion.ts"),
    import("./agent-commands.ts"),
  ]);
  const agent = newProgram();
  addAgentCommands(agent);
  const own = program.commands.filter((each) => !Object.hasOwn(AGENT_COMMANDS, each.name()));
  process.stdout.write(completion(shell, [...own, ...agent.commands]));
  return 0;
}
