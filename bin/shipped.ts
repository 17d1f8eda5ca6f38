// The program as it is shipped, one file: the commands of the node agent as they are, and the whole program packed behind them.
// Node keeps the text of a program in memory for as long as it runs, and the agent, which runs for long, needs a quarter of it.
const AGENT_COMMANDS: ReadonlySet<string | undefined> = new Set(["agent", "probe", "reap"]);

void (AGENT_COMMANDS.has(process.argv[2]) ? agentCommand() : anyCommand());

async function agentCommand(): Promise<void> {
  const { newProgram } = await import("./command-line.ts");
  const { addAgentCommands } = await import("./agent-commands.ts");
  const program = newProgram();
  addAgentCommands(program);
  await program.parseAsync();
}

async function anyCommand(): Promise<void> {
  const { runPacked } = await import("./packed.ts");
  runPacked();
}
