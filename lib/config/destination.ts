import { withoutEnd } from "../without-end.ts";
import { bad, good, type Parsed } from "./parsed.ts";

/** A bucket and the prefix in it, which has no slash at its ends and may be empty. */
export type BucketPlace = { readonly kind: "s3"; readonly bucket: string; readonly prefix: string };

/** Where messages go. */
export type Destination =
  | { readonly kind: "dirq"; readonly path: string }
  | { readonly kind: "directory"; readonly path: string }
  | BucketPlace;

/** Where ledger and state live, or `none`: a run that remembers nothing. */
export type LedgerPlace =
  | { readonly kind: "directory"; readonly path: string }
  | { readonly kind: "none" }
  | BucketPlace;

export const DEFAULT_OUTPUT = "./gridmeter-data/outgoing";
export const DEFAULT_LEDGER = "./gridmeter-data/ledger";

/** Reads `--output` or OUTPUT_PATH: `dirq:DIR`, `dir:DIR`, `s3://BUCKET[/PREFIX]`; a bare path is a dirq, as in KAPEL. */
export function parseDestination(text: string): Parsed<Destination> {
  const [, scheme, rest = ""] = /^([a-zA-Z][a-zA-Z0-9+.-]*):(.*)$/s.exec(text) ?? [];
  if (text.includes("\0")) return bad("holds a zero byte");
  if (scheme === undefined) {
    if (text === "-" || text === "stdout")
      return bad("is not a place to keep messages. To only print them use --dry-run");
    return path("dirq", text);
  }
  switch (scheme) {
    case "dirq":
      return path("dirq", rest);
    case "dir":
      return path("directory", rest);
    case "s3":
      return parseBucketPlace(text);
    default:
      return bad(
        "has an unknown scheme. Write dirq:DIR, dir:DIR or s3://BUCKET/PREFIX (a path with a colon: dirq:PATH)",
      );
  }
}

function path(kind: "dirq" | "directory", text: string): Parsed<Destination> {
  return text.trim() === "" ? bad("names no directory. Write dirq:DIR or dir:DIR") : good({ kind, path: text });
}

/** Reads `s3://BUCKET` or `s3://BUCKET/PREFIX`. */
export function parseBucketPlace(text: string): Parsed<BucketPlace> {
  const [, bucket, rest = ""] = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/(.*))?$/s.exec(text) ?? [];
  if (bucket === undefined) return bad("has no valid bucket name. Write s3://BUCKET/PREFIX");
  const prefix = withoutEnd(rest, "/");
  if (prefix !== "" && !prefix.split("/").every((segment) => /^[A-Za-z0-9!_.*'()=-]+$/.test(segment)))
    return bad("has a prefix that is not words of A-Z a-z 0-9 ! - _ . * ' ( ) = with single slashes between them");
  return good({ kind: "s3", bucket, prefix });
}

/** Reads `--ledger` or LEDGER_PATH: a directory, `s3://BUCKET/PREFIX`, or the word `none` (a directory of that name is written `./none`). */
export function parseLedgerPlace(text: string): Parsed<LedgerPlace> {
  if (text === "none") return good({ kind: "none" });
  if (text.trim() === "" || text.includes("\0")) return bad("names no directory. Write a directory, or none");
  if (text.startsWith("s3:")) return parseBucketPlace(text);
  if (/^[a-z0-9]+:\/\//i.test(text)) return bad("is an unknown URL. Write a directory, s3://BUCKET/PREFIX, or none");
  return good({ kind: "directory", path: text });
}
