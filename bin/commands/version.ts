import { arch, platform } from "node:os";
import { jsonLine } from "../show/json.ts";
import { VERSION } from "../version.ts";

/** `gridmeter version`: what a report of a fault should say. Gives the exit code. */
export function version(json: boolean): number {
  const found = { version: VERSION, node: process.version, platform: `${platform()}-${arch()}` };
  const text = `gridmeter ${found.version} (Node ${found.node}, ${found.platform})\n`;
  process.stdout.write(json ? jsonLine(found) : text);
  return 0;
}
