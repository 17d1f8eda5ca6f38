import { mkdtempSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";

/** A script of test/support as one bundled file, which starts several times faster than its sources. */
export function bundledScript(name: string): string {
  const outfile = join(mkdtempSync(join(tmpdir(), "gridmeter-script-")), `${basename(name, ".ts")}.mjs`);
  const entry = fileURLToPath(new URL(name, import.meta.url));
  buildSync({
    entryPoints: [entry],
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node24",
    logLevel: "error",
  });
  return outfile;
}

/** A directory for one test, and how to remove it. */
export async function scratchDirectory(): Promise<{ readonly path: string; remove(): Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), "gridmeter-test-"));
  return { path, remove: () => rm(path, { recursive: true, force: true }) };
}
