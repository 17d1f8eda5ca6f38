import { writeFileSync } from "node:fs";
import { GridmeterError, errorText } from "../../lib/shared/errors.ts";
import { readTextFile } from "../../lib/shared/fs.ts";
import { report, say } from "./options.ts";

const usage = (text: string): GridmeterError => new GridmeterError("usage", text);

/**
 * Runs a command and gives its exit code. With a file (`--exit-code-to`) the code goes there and 0 is given: an init container of
 * Kubernetes that fails keeps the pod's other containers from starting, and one refused month must not keep ssmsend from sending
 * the others.
 * @throws GridmeterError `usage`, before the command is run, if the file cannot be written
 */
export async function keptIn(
  file: string | undefined,
  command: () => Promise<number>,
  json: boolean | undefined,
): Promise<number> {
  if (file === undefined) return command();
  // 1 until the command has ended: were it killed, its container failed, and nobody reads this.
  writeCode(file, 1);
  let code: number;
  try {
    code = await command();
  } catch (error) {
    code = report(error, json === true);
  }
  writeCode(file, code);
  say(`the exit code ${code} is in ${file}; this command ends with 0 so that a sender can run`);
  return 0;
}

function writeCode(file: string, code: number): void {
  try {
    writeFileSync(file, `${code}\n`);
  } catch (error) {
    throw usage(
      `--exit-code-to ${JSON.stringify(file)} cannot be written: ${errorText(error)}. Name a file in a folder that both containers mount.`,
    );
  }
}

/**
 * `gridmeter outcome FILE`: the exit code that `account --exit-code-to FILE` wrote.
 * @throws GridmeterError `usage` if there is none
 */
export async function outcome(file: string): Promise<number> {
  let text: string;
  try {
    text = readTextFile(file, 100);
  } catch (error) {
    throw usage(`${JSON.stringify(file)} cannot be read: ${errorText(error)}. Did account --exit-code-to run before?`);
  }
  if (!/^[0-4]\n$/.test(text))
    throw usage(
      `${JSON.stringify(file)} holds ${JSON.stringify(text.slice(0, 20))}, which is no exit code of gridmeter account.`,
    );
  const code = Number(text);
  say(code === 0 ? "account ended with 0" : `account ended with ${code}: see the log of its container`);
  return code;
}
