import { createHash } from "node:crypto";

/** Numbers begin at 1; the highest are left out, so that one more is still a number that is read. */
const NAME = /^(.+)\.v((?!0{10})[0-8]\d{9})$/;

/** The file name of a key's last segment at version `n`. */
export function versionName(name: string, n: number): string {
  return `${name}.v${String(n).padStart(10, "0")}`;
}

/** The last segment of a key and its version, or undefined for a file that is no stored object. */
export function readVersionName(file: string): { readonly name: string; readonly n: number } | undefined {
  const [, name, n] = NAME.exec(file) ?? [];
  return name === undefined || n === undefined ? undefined : { name, n: Number(n) };
}

/** The version a caller sees. The hash keeps apart two objects that had the same number, one after a removal. */
export function versionTag(n: number, body: string): string {
  return `${n}-${createHash("sha256").update(body).digest("hex").slice(0, 16)}`;
}
