import { setFlagsFromString } from "node:v8";
import { Option } from "@commander-js/extra-typings";
import type { Command } from "@commander-js/extra-typings";
import { AGENT_COMMANDS, json, run } from "./command-line.ts";
import { VERSION } from "./version.ts";

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
    .description(AGENT_COMMANDS.agent)
    .addOption(agentConfig())
    .addOption(pushgateway())
    .option("--listen <address>", "host:port, :port, or off (default: listen of the configuration, else :9102)")
    .option(
      "--instance <name>",
      "the node's name (default: NODE_NAME, else instance of the configuration, else the host's)",
    )
    .option("--openpai-names", "job-exporter's metric names beside our own")
    .option(
      "--demo",
      "a made-up node with GPUs, containers and commands that hang, to look at dashboards without hardware",
    )
    .option("--once", "run each probe once and push; without a Pushgateway print the metrics on stdout")
    .action((options) => {
      saveMemory();
      return run(async () => (await import("./commands/agent.ts")).agent(options, VERSION), false);
    });

  program
    .command("probe")
    .description(AGENT_COMMANDS.probe)
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
    .description(AGENT_COMMANDS.reap)
    .addOption(agentConfig())
    .addOption(pushgateway())
    .option("--job <name>", "the agents' job (default: that of the configuration, else gridmeter_agent)")
    .option("--older-than <duration>", "only groups that were not pushed for so long", "1h")
    .option("--dry-run", "only show what would be deleted")
    .addOption(json())
    .action((options) => run(async () => (await import("./commands/reap.ts")).reap(options), options.json));
}

/** What V8 is asked for in the agent. Without it the agent takes 105 MB with 2 GPUs and 119 MB with 8, a tenth less CPU time (all probes every 2 s). */
const FLAGS: readonly string[] = [
  // The space for new objects stays at the 1 MB it begins with. It would become 48, as nobody collects it before it is full.
  "--semi-space-growth-factor=1",
  // What runs for some milliseconds a second is not worth the optimizing compilers: they, what they note down and what they
  // make take 10 MB, and as much time as their code saves.
  "--no-opt",
  "--no-maglev",
  // Collects old objects before there are as many of them again.
  "--optimize-for-size",
];

/**
 * Makes V8 save memory where it can choose between memory and time, for a program that lives long and computes little. To be
 * called before the rest of the program is loaded. Has no effect on results.
 */
function saveMemory(): void {
  for (const flag of FLAGS) setFlagsFromString(flag);
}
