import { readFileSync } from "node:fs";
import type { Output } from "../../lib/agent/command/types.ts";

/** A small output of the project's own, of the shape of real ones. */
export const fixture = (file: string): string =>
  readFileSync(new URL(`../fixtures/probes/${file}`, import.meta.url), "utf8");

/** What a command that ended printed. */
export const printed = (stdout: string, exitCode = 0, stderr = ""): Output => ({ stdout, stderr, exitCode });

/** What docker prints on stderr when its daemon does not run. */
export const DAEMON_DOWN =
  "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n";
