import { DateTime } from "luxon";
import { type Parsed, bad, good } from "../../shared/config-values.ts";
import { withoutEnd } from "../../shared/text.ts";
import { quote, valueProblem } from "../apel/values.ts";

/** A namespace's name (Kubernetes: RFC 1123 label, at most 63 characters). */
export function parseNamespace(text: string): Parsed<string> {
  return /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(text) && text.length <= 63
    ? good(text)
    : bad("is not a Kubernetes namespace (small letters, digits and -, at most 63). Write exactly one");
}

/**
 * Reads VO_LABEL, a pod label such as `example.org/vo`, and gives its name in `kube_pod_labels`: `label_example_org_vo`.
 * kube-state-metrics replaces every character outside [a-zA-Z0-9_] by `_`, splits camelCase by `_` and writes it small
 * (internal/store/utils.go).
 */
export function parseVoLabel(text: string): Parsed<string> {
  const [name = "", ...prefixes] = text.split("/").toReversed();
  const nameIsValid = /^[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?$/.test(name) && name.length <= 63;
  const prefixIsValid = prefixes.every((prefix) => /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(prefix));
  if (!nameIsValid || !prefixIsValid || prefixes.length > 1) {
    return bad("is not the name of a pod label");
  }
  const snake = text.replaceAll(/[^a-zA-Z0-9_]/g, "_").replaceAll(/([a-z0-9])([A-Z])/g, "$1_$2");
  return good(`label_${snake.toLowerCase()}`);
}

export function parseLabelPrefix(text: string): Parsed<string> {
  return /^[a-zA-Z_]\w*$/.test(text) ? good(text) : bad("cannot begin a Prometheus label (letters, digits and _)");
}

/** MONITORING_SELECTOR: only its outline is checked here, Prometheus judges the rest. */
export function parseSelector(text: string): Parsed<string> {
  return /^([a-zA-Z_:][\w:]*\s*(\{[^\n\r]*\})?|\{[^\n\r]+\})$/.test(text)
    ? good(text)
    : bad("is not a PromQL selector, that is a metric name with matchers in braces");
}

const MATCHER =
  /\s*(?<label>[a-zA-Z_]\w*)\s*(?<operator>=~|!~|!=|=)\s*(?:"(?<double>(?:[^"\\]|\\.)*)"|'(?<single>(?:[^'\\]|\\.)*)'|(?<plain>[^\s,"'{}]+))\s*(?:,|$)/y;
const ESCAPES: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t", "\\": "\\", '"': '"', "'": "'" };

// These decide which pods and series are meant; a matcher on them would contradict the queries' own.
const RESERVED = ["namespace", "__name__", "pod", "uid", "container"];

/**
 * Reads PROMETHEUS_LABELS, `cluster="a",region!="b"` (quotes and outer braces may be left out), into PromQL matchers.
 * They are sorted and written in one way, so that neither order nor quoting changes a fingerprint.
 */
export function parseMatchers(text: string): Parsed<readonly string[]> {
  const whole = text.trim().replace(/^\{(.*)\}$/s, "$1");
  const matchers = new Set<string>();
  for (let at = 0; whole.slice(at).trim() !== ""; at = MATCHER.lastIndex) {
    MATCHER.lastIndex = at;
    const groups = MATCHER.exec(whole)?.groups;
    if (groups === undefined) {
      return bad(
        `cannot be read from ${JSON.stringify(whole.slice(at, at + 40))} on. Write label="value" (or !=, =~, !~), comma-separated`,
      );
    }
    const { label = "", operator = "", double, single, plain = "" } = groups;
    if (RESERVED.includes(label))
      return bad(`has a matcher on ${label}, which the queries set themselves. Leave it out`);
    const value = unescaped(double ?? single ?? plain, plain !== "");
    if (value === undefined)
      return bad(`has an unknown escape in the value of ${label}. Known: \\\\ \\" \\' \\n \\r \\t`);
    matchers.add(`${label}${operator}${JSON.stringify(value)}`);
  }
  return good([...matchers].sort());
}

function unescaped(text: string, isPlain: boolean): string | undefined {
  if (isPlain) return text;
  let known = true;
  const value = text.replaceAll(/\\(.)/gs, (_, letter: string) => {
    const meant = ESCAPES[letter];
    known &&= meant !== undefined;
    return meant ?? "";
  });
  return known ? value : undefined;
}

// Nothing ran on Kubernetes before; an earlier year is a slip of the pen that would ask for thousands of months.
const EARLIEST_YEAR = 2014;

/** No time is written in more characters. */
const LONGEST_PERIOD = 100;

/**
 * An ISO 8601 time with its zone, as epoch seconds (a fraction of a second is cut off). The zone must be written out:
 * a month's border in local time would put jobs into the wrong month of APEL. A space in place of the T is taken, as KAPEL does.
 */
export function parseInstant(text: string): Parsed<number> {
  if (text.length > LONGEST_PERIOD) return bad("is not a time in ISO 8601 such as 2024-03-01T00:00:00Z");
  const iso = text.trim().replace(/^(\d{4}-\d\d-\d\d) +(?=\d)/, "$1T");
  const parsed = DateTime.fromISO(iso, { setZone: true });
  if (!parsed.isValid) return bad("is not a time in ISO 8601 such as 2024-03-01T00:00:00Z");
  if (!/T.*(Z|[+-]\d\d(:?\d\d)?)$/i.test(iso)) {
    const written = iso.includes("T") ? iso : `${iso}T00:00:00`;
    return bad(`has no time zone. For UTC write ${written}Z, else add the offset, such as ${written}+01:00`);
  }
  if (parsed.toUTC().year < EARLIEST_YEAR) {
    return bad(`lies before ${EARLIEST_YEAR}, when nothing ran on Kubernetes. Check the year`);
  }
  return good(Math.floor(parsed.toSeconds()));
}

/** A bucket and the prefix in it, which has no slash at its ends and may be empty. */
export type BucketPlace = { readonly kind: "s3"; readonly bucket: string; readonly prefix: string };

/** Where messages go. */
export type Destination =
  | { readonly kind: "dirq"; readonly path: string }
  | { readonly kind: "directory"; readonly path: string }
  | BucketPlace;

/** Where ledger and state live, or `none`: a run that remembers nothing. */
type LedgerPlace = { readonly kind: "directory"; readonly path: string } | { readonly kind: "none" } | BucketPlace;

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

/** Reads AMS_HOST: a host's name or address alone. */
export function parseHost(text: string): Parsed<string> {
  return /^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/.test(text)
    ? good(text)
    : bad("is no host's name. Write the name alone, without https:// and port");
}

/** Reads AMS_PROJECT and AMS_TOPIC. */
export function amsName(text: string): Parsed<string> {
  return /^[A-Za-z0-9_.-]{1,255}$/.test(text)
    ? good(text)
    : bad("is no name of the messaging service (letters, digits, _ . and -). Write the last part of it alone");
}

/** A longer text is refused for its length, characters. */
const LONGEST_TEXT = 255;

/** A text that may be in an APEL message, at most `maxLength` characters. */
export function apelText(maxLength: number): (text: string) => Parsed<string> {
  return (text) => {
    // Docker hands an env file's ${NAME} on as it is, and so does Kubernetes $(NAME): APEL would take it for a new name.
    if (/\$\{[^}]*\}|\$\([^)]*\)/.test(text.slice(0, LONGEST_TEXT))) {
      return bad(
        "holds a variable that nothing has expanded: only ${NAME} and ${NAME:-default} in an env file are. Write the value itself",
      );
    }
    const problem = valueProblem("value", text, maxLength);
    if (problem === undefined) return good(text);
    // The list of problems quotes the value itself; once is enough.
    return bad(problem.replace(`value ${quote(text)}`, "").replace(/^:? +/, ""));
  };
}
