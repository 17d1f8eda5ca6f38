// Bundles the command line into dist/gridmeter.cjs and the node agent into dist/gridmeter-agent.cjs: files that need nothing but Node.
import { chmod, readFile, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { build } from "esbuild";
import prettyBytes from "pretty-bytes";
import { z } from "zod";

const root = resolve(import.meta.dirname, "..");
const PROGRAMS = ["gridmeter", "gridmeter-agent"] as const;

export type Bundle = { readonly name: (typeof PROGRAMS)[number]; readonly file: string; readonly bytes: number };

/**
 * Builds both programs into dist/. Version and homepage of package.json are compiled in: an error names the page about it. Throws on any error and
 * any warning of the bundler.
 */
export async function bundle(): Promise<readonly Bundle[]> {
  const { version, homepage } = z
    .object({ version: z.string(), homepage: z.url().optional() })
    .parse(JSON.parse(await readFile(join(root, "package.json"), "utf8")));
  const { warnings } = await build({
    absWorkingDir: root,
    entryPoints: PROGRAMS.map((name) => join("bin", `${name}.ts`)),
    outdir: "dist",
    outExtension: { ".js": ".cjs" },
    bundle: true,
    platform: "node",
    // A submit host's own Node may be older than ours.
    target: "node20",
    format: "cjs",
    banner: { js: "#!/usr/bin/env node" },
    define: {
      __GRIDMETER_VERSION__: JSON.stringify(version),
      __GRIDMETER_HOMEPAGE__:
        homepage === undefined ? "undefined" : JSON.stringify(`${homepage.replace(/\/$/, "")}/docs/`),
    },
    // Names stay, for stack traces. The source is kept in memory by whatever runs, and the agent runs for long.
    minifyWhitespace: true,
    minifySyntax: true,
    charset: "ascii",
    // Node's loader of modules would take memory to load what `require` has at hand.
    supported: { "dynamic-import": false },
    legalComments: "inline",
  });
  // A warning is code that would do something else in the bundle, such as import.meta.
  if (warnings.length > 0) throw new Error(`The bundler warned ${warnings.length} times, see above.`);
  return Promise.all(
    PROGRAMS.map(async (name): Promise<Bundle> => {
      const file = join(root, "dist", `${name}.cjs`);
      await chmod(file, 0o755);
      return { name, file, bytes: (await stat(file)).size };
    }),
  );
}

if (import.meta.main) {
  for (const { file, bytes } of await bundle()) console.log(`${file}: ${prettyBytes(bytes)}`);
}
