import { Option } from "@commander-js/extra-typings";
import type { Command } from "@commander-js/extra-typings";
import { json, run, version } from "./command-line.ts";
import { saveMemory } from "./little-memory.ts";

const agentConfig = () =>
  new Option("--config <file>", "the agent's configuration, YAML or JSON (default: GRIDMETER_AGENT_CONFIG, else none)");
const pushgateway = () =>
  new Option(
    "--pushgateway <url>",
    "the Pushgateway (default: PUSHGATEWAY_URL, else pushgateway.url of the configuration)",
  );

/** Adds the commands of the node agent. Each is loaded when it is run. */
export function addAgentCommands(program: Command): void {
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
    .action((name, options) =>
      run(async () => (await import("./commands/probe.ts")).probe(name, options), options.json),
    );

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
}
