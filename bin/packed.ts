import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { compileFunction } from "node:vm";
import { brotliDecompressSync } from "node:zlib";

/** What is before the packed program, and after it, at the end of the file. It is base64, in which neither occurs. */
export const PACKED = ["\n/*packed:", "*/\n"] as const;

/** Runs the program that is packed at the end of the file that Node was told to run. @throws Error if it is not there as a whole */
export function runPacked(): void {
  const [, name = ""] = process.argv;
  const file = readFileSync(name);
  const from = file.lastIndexOf(PACKED[0]);
  const to = file.length - PACKED[1].length;
  if (from < 0 || file.toString("latin1", to) !== PACKED[1])
    throw new Error(`${name} is not whole: its end is missing. Copy it again.`);
  const packed = Buffer.from(file.toString("latin1", from + PACKED[0].length, to), "base64");
  const program = brotliDecompressSync(packed).toString("latin1");
  compileFunction(program, ["require"], { filename: `${name}:packed` })(createRequire(name));
}
