import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const SCRIPT = fileURLToPath(new URL("dirq-tool.py", import.meta.url));

/** Runs the real python-dirq on a queue. */
export async function dirqTool(action: "read" | "lock" | "send", root: string, ...names: string[]): Promise<unknown> {
  const { stdout } = await promisify(execFile)("/usr/bin/python3", [SCRIPT, action, root, ...names]);
  return JSON.parse(stdout);
}
