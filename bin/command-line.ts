import { Command, type CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import { didYouMean } from "../lib/shared/config-values.ts";
import { DOCUMENTS } from "../lib/shared/errors.ts";
import { isErrno } from "../lib/shared/fs.ts";
import { plainLines } from "../lib/shared/text.ts";
import { report } from "./commands/options.ts";
import { examplesText } from "./show/examples.ts";
import { VERSION } from "./version.ts";

// Node reads files with four threads, and a few commands on a file system that hangs would hold them all.
process.env["UV_THREADPOOL_SIZE"] ??= "16";

// A reader that has seen enough (`| head`) closes the pipe. That is no fault: the command goes on to its end, as its work is not the printing.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error) => {
    if (!isErrno(error, "EPIPE")) throw error;
  });
}

/** The program without commands. */
export function newProgram(): Command {
  return (
    new Command()
      .name("gridmeter")
      .description(
        "Accounting of Kubernetes jobs for APEL, and a node agent. Settings of the accounting are environment variables (docs/configuration.md), KAPEL's under their own names; those of the agent are a file (docs/agent.md).",
      )
      .version(VERSION)
      // What is wrong with an argument is quoted; the texts of --help are our own lines.
      .configureOutput({ outputError: (text, write) => write(plainLines(text.trimEnd().split("\n"))) })
      .showHelpAfterError(`See gridmeter help COMMAND, and ${DOCUMENTS}errors.md#usage`)
      .addHelpText("after", `\nDocuments: ${DOCUMENTS}. Where to report a fault: ${DOCUMENTS}errors.md#unexpected`)
      .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  );
}

/**
 * Runs the command that the arguments name. A command that there is not is refused before anything else is looked at, since with --help
 * it would be taken for a question about the program.
 */
export async function parse(program: CommandUnknownOpts): Promise<void> {
  for (const command of program.commands) {
    const text = examplesText(command.name());
    if (text !== "") command.addHelpText("after", text);
  }
  const [first = "", second = ""] = process.argv.slice(2);
  const named = first === "help" ? second : first;
  const names = program.commands.map((command) => command.name());
  if (named !== "" && !named.startsWith("-") && named !== "help" && !names.includes(named))
    program.error(
      `error: there is no command ${JSON.stringify(named)}${didYouMean(named, names) || "."} Known are: ${names.join(", ")}.`,
    );
  await program.parseAsync();
}

// Each command is loaded when it is run: the agent lives long, and has no use for the accounting's code in its memory.

/** Runs a command and ends with its exit code: 0 done, 1 unexpected, 2 usage or configuration, 3 refused, 4 Prometheus or store failed. */
export async function run(command: () => Promise<number>, json: boolean | undefined): Promise<void> {
  try {
    process.exitCode = await command();
  } catch (error) {
    process.exitCode = report(error, json === true);
  }
}

export const json = () => new Option("--json", "print one JSON object on stdout");

/** The commands of the node agent, which is a program of its own: `gridmeter-agent`, beside this one. */
export const AGENT_COMMANDS = {
  agent: "on each node: run probes and publish what they read, on a Pushgateway and a port, until SIGTERM",
  probe: "run one probe once and print its metrics; publishes nothing",
  reap: "delete the groups of dead agents from a Pushgateway: those of their job with a label probe, and no others",
} as const;
