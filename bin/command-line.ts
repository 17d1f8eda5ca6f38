import { Command, Option } from "@commander-js/extra-typings";
import { plainLines } from "../lib/shared/text.ts";
import { report } from "./commands/options.ts";

declare const __GRIDMETER_VERSION__: string | undefined;

// Node reads files with four threads, and a few commands on a file system that hangs would hold them all.
process.env["UV_THREADPOOL_SIZE"] ??= "16";

export const version = typeof __GRIDMETER_VERSION__ === "undefined" ? "development" : __GRIDMETER_VERSION__;

/** The program without commands. */
export function newProgram(): Command {
  return (
    new Command()
      .name("gridmeter")
      .description(
        "Accounting of Kubernetes jobs for APEL, and a node agent. Settings of the accounting are environment variables (docs/configuration.md), KAPEL's under their own names; those of the agent are a file (docs/agent.md).",
      )
      .version(version)
      // What is wrong with an argument is quoted; the texts of --help are our own lines.
      .configureOutput({ outputError: (text, write) => write(plainLines(text.trimEnd().split("\n"))) })
      .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  );
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
