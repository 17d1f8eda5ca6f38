import { bad, good, type Parsed } from "./parsed.ts";

/** Where messages go. `s3` is recognised, so that it can be refused by name where it is not built. */
export type Destination =
  | { readonly kind: "dirq"; readonly path: string }
  | { readonly kind: "directory"; readonly path: string }
  | { readonly kind: "s3"; readonly bucket: string; readonly prefix: string };

/** Where ledger and state live, or `none`: a run that remembers nothing. */
export type LedgerPlace = { readonly kind: "directory"; readonly path: string } | { readonly kind: "none" };

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
    case "s3": {
      const [, bucket, prefix = ""] = /^\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/(.*))?$/s.exec(rest) ?? [];
      if (bucket === undefined) return bad("has no valid bucket name. Write s3://BUCKET/PREFIX");
      return good({ kind: "s3", bucket, prefix: prefix.replace(/\/+$/, "") });
    }
    default:
      return bad(
        "has an unknown scheme. Write dirq:DIR, dir:DIR or s3://BUCKET/PREFIX (a path with a colon: dirq:PATH)",
      );
  }
}

function path(kind: "dirq" | "directory", text: string): Parsed<Destination> {
  return text.trim() === "" ? bad("names no directory. Write dirq:DIR or dir:DIR") : good({ kind, path: text });
}

/** Reads `--ledger`: a directory, or the word `none` (a directory of that name is written `./none`). */
export function parseLedgerPlace(text: string): Parsed<LedgerPlace> {
  if (text === "none") return good({ kind: "none" });
  if (text.trim() === "" || text.includes("\0")) return bad("names no directory. Write a directory, or none");
  if (/^[a-z0-9]+:\/\//i.test(text)) return bad("is a URL. The ledger is a directory; write its path, or none");
  return good({ kind: "directory", path: text });
}
