// What the node agent itself costs, measured on the product's own file with stand-ins for the tools that its probes run.
import { forMarkdown, forTerminal } from "../bench/accounting/tables.ts";
import { machine } from "../bench/accounting/machine.ts";
import { many, minute } from "../bench/agent-measure.ts";
import { agentTables } from "../bench/agent-report.ts";
import { bundle } from "./build.ts";

const ABOUT = `The agent runs as one file, as it is shipped, with no setting of Node's or the system's (it limits V8 itself), all probes on
stand-in commands (a shell script that prints what the tools print), one container a GPU, a real Pushgateway, and a scrape every
2 s; one number is changed, so that nvidia-smi may be asked every 2 s as well. CPU is user and system time of the agent's process; its children are apart. "Bare Node" is a program that does
nothing but start as many commands as often (8, and 3 a container) and read what they print. The predecessor's figures are of
job-exporter with commands that stood in likewise, on another machine. Of RSS, what is not the agent's own is node's program file,
some 45 MB, which all node processes of a machine share. At the default interval of 30 s, CPU is a fifteenth of this.`;

/** Measures for about three minutes, prints the tables, and gives the section of bench/results.md. */
export async function benchAgent(secondsEach = 60): Promise<string> {
  const say = (text: string): void => void process.stderr.write(`bench: agent: ${text}\n`);
  const program = (await bundle()).find(({ name }) => name === "gridmeter-agent");
  if (program === undefined) throw new Error("the build made no gridmeter-agent");
  const { file, bytes: bundleBytes } = program;
  say("a minute with 2 GPUs");
  const two = await minute(file, 2, secondsEach);
  say("a minute with 8 GPUs, and 1,000 scrapes while all hangs");
  const eight = await minute(file, 8, secondsEach);
  say("1,000 containers");
  const results = {
    machine: machine(),
    bundleBytes,
    minutes: [two.minute, eight.minute],
    hanging: eight.hanging,
    many: await many(file, 1000, secondsEach / 2),
  };
  const tables = agentTables(results);
  for (const table of tables) process.stdout.write(forTerminal(table));
  return `## Node agent\n\n${results.machine}\n\n${ABOUT}\n\n${tables.map(forMarkdown).join("\n")}`;
}

if (import.meta.main) process.stdout.write(await benchAgent());
