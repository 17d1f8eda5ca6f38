// The node agent's program: agent, probe and reap. `gridmeter` loads it for these three.
import { addAgentCommands } from "./agent-commands.ts";
import { newProgram, parse } from "./command-line.ts";

const program = newProgram();
addAgentCommands(program);
void parse(program);
