// Bundles every functions/*.ts into dist/functions/<name>.cjs with its source map: what is deployed to Lambda.
import { readdir, rm, stat } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { build } from "esbuild";
import prettyBytes from "pretty-bytes";

const root = resolve(import.meta.dirname, "..");
/** A guard against dependencies that come in unseen: the bundles have a little less. */
const LARGEST = 2_000_000;

export type FunctionBundle = { readonly name: string; readonly file: string; readonly bytes: number };

/**
 * Builds all functions into `outdir` (default dist/functions). The AWS SDK is bundled, so that the version that was tested
 * is the version that runs. Throws on any error or warning of the bundler, and if a bundle is larger than 2 MB.
 */
export async function buildFunctions(
  outdir: string = join(root, "dist", "functions"),
): Promise<readonly FunctionBundle[]> {
  const sources = (await readdir(join(root, "functions"))).filter((name) => name.endsWith(".ts")).sort();
  await rm(outdir, { recursive: true, force: true });
  const { warnings } = await build({
    absWorkingDir: root,
    entryPoints: sources.map((name) => join("functions", name)),
    outdir,
    outExtension: { ".js": ".cjs" },
    bundle: true,
    platform: "node",
    target: "node24",
    format: "cjs",
    minify: true,
    // The name of an error's class is its errorType in logs and answers.
    keepNames: true,
    sourcemap: true,
    // The text of the sources is in the repository; only their lines are needed to read a stack trace.
    sourcesContent: false,
    legalComments: "none",
    mainFields: ["module", "main"],
  });
  if (warnings.length > 0) throw new Error(`The bundler warned ${warnings.length} times, see above.`);
  const bundles = await Promise.all(
    sources.map(async (source): Promise<FunctionBundle> => {
      const name = basename(source, ".ts");
      const file = join(outdir, `${name}.cjs`);
      return { name, file, bytes: (await stat(file)).size };
    }),
  );
  const tooLarge = bundles.filter(({ bytes }) => bytes > LARGEST);
  if (tooLarge.length === 0) return bundles;
  const text = tooLarge.map(({ name, bytes }) => `${name} ${prettyBytes(bytes)}`).join(", ");
  throw new Error(
    `Larger than ${prettyBytes(LARGEST)}: ${text}. Find what came in with esbuild's metafile and leave it out.`,
  );
}

if (import.meta.main) {
  for (const { file, bytes } of await buildFunctions()) console.log(`${file}: ${prettyBytes(bytes)}`);
}
