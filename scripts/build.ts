// Bundles the command line into dist/gridmeter.cjs: one file that runs with nothing beside it.
import { chmod, readFile, stat, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { build } from "esbuild";
import prettyBytes from "pretty-bytes";
import { z } from "zod";
import { leanCommands } from "./lean-bundle.ts";

const root = resolve(import.meta.dirname, "..");

/**
 * Builds dist/gridmeter.cjs and returns its path and size in bytes. The version of package.json is compiled in as
 * `__GRIDMETER_VERSION__`. Throws on any error and any warning of the bundler.
 */
export async function bundle(): Promise<{ readonly file: string; readonly bytes: number }> {
  const file = join(root, "dist", "gridmeter.cjs");
  const { version } = z
    .object({ version: z.string() })
    .parse(JSON.parse(await readFile(join(root, "package.json"), "utf8")));
  const { warnings } = await build({
    absWorkingDir: root,
    entryPoints: ["bin/gridmeter.ts"],
    outfile: file,
    bundle: true,
    platform: "node",
    // A submit host's own Node may be older than ours.
    target: "node20",
    format: "cjs",
    // Names stay, for stack traces. The source is kept in memory by whatever runs, and the agent runs for long.
    minifyWhitespace: true,
    minifySyntax: true,
    plugins: [leanCommands],
    legalComments: "inline",
    banner: { js: "#!/usr/bin/env node" },
    define: { __GRIDMETER_VERSION__: JSON.stringify(version) },
  });
  // A warning is code that would do something else in the bundle, such as import.meta.
  if (warnings.length > 0) throw new Error(`The bundler warned ${warnings.length} times, see above.`);
  await writeFile(file, inAscii(await readFile(file, "utf8")));
  await chmod(file, 0o755);
  return { file, bytes: (await stat(file)).size };
}

/** Letters beyond ASCII, which are in notices of licences only, would double the memory that the source takes. */
function inAscii(text: string): string {
  return text
    .replaceAll("\u00A9", "(c)")
    .normalize("NFKD")
    .replaceAll(/\P{ASCII}/gu, "");
}

if (import.meta.main) {
  const { file, bytes } = await bundle();
  console.log(`${file}: ${prettyBytes(bytes)}`);
}
