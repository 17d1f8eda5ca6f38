// Bundles the command line into dist/gridmeter.cjs: one file that runs with nothing beside it.
import { chmod, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { brotliCompressSync, constants } from "node:zlib";
import { build } from "esbuild";
import type { BuildOptions } from "esbuild";
import prettyBytes from "pretty-bytes";
import { z } from "zod";
import { PACKED } from "../bin/packed.ts";
import { leanCommands } from "./lean-bundle.ts";

const root = resolve(import.meta.dirname, "..");

/** How both parts of the file are bundled. */
const SETTINGS: BuildOptions = {
  absWorkingDir: root,
  bundle: true,
  write: false,
  platform: "node",
  // A submit host's own Node may be older than ours.
  target: "node20",
  format: "cjs",
  // Names stay, for stack traces. The source is kept in memory by whatever runs, and the agent runs for long.
  minifyWhitespace: true,
  minifySyntax: true,
  // Node's loader of modules would take memory to load what `require` has at hand.
  supported: { "dynamic-import": false },
  plugins: [leanCommands],
  legalComments: "inline",
};

/**
 * Builds dist/gridmeter.cjs and returns its path and size in bytes: the commands of the node agent, and packed behind them the
 * whole program. The version of package.json is compiled in as `__GRIDMETER_VERSION__`. Throws on any error and any warning of
 * the bundler.
 */
export async function bundle(): Promise<{ readonly file: string; readonly bytes: number }> {
  const file = join(root, "dist", "gridmeter.cjs");
  const { version } = z
    .object({ version: z.string() })
    .parse(JSON.parse(await readFile(join(root, "package.json"), "utf8")));
  const define = { __GRIDMETER_VERSION__: JSON.stringify(version) };
  const [agent, whole] = await Promise.all([text("bin/shipped.ts", define), text("bin/gridmeter.ts", define)]);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, `#!/usr/bin/env node\n${agent.trimEnd()}${PACKED[0]}${pack(whole)}${PACKED[1]}`);
  await chmod(file, 0o755);
  return { file, bytes: (await stat(file)).size };
}

/** One part of the file. */
async function text(entry: string, define: Record<string, string>): Promise<string> {
  const { warnings, outputFiles } = await build({ ...SETTINGS, entryPoints: [entry], define, write: false });
  // A warning is code that would do something else in the bundle, such as import.meta.
  if (warnings.length > 0) throw new Error(`The bundler warned ${warnings.length} times, see above.`);
  return inAscii(outputFiles.map((output) => output.text).join(""));
}

const pack = (program: string): string =>
  brotliCompressSync(program, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }).toString("base64");

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
