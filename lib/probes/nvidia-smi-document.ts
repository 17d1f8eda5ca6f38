import { XMLParser, XMLValidator } from "fast-xml-parser";
import { withoutNamesOfProcesses } from "./nvidia-smi-lines.ts";
import { ParseError } from "./parse-error.ts";

const ROOT = "nvidia_smi_log";

/** Characters before the log: warnings, and with `--dtd` a whole DTD behind the name of its version. */
const LONGEST_PROLOG = 64 * 1024;

const parser = new XMLParser({
  ignoreAttributes: false,
  attributeNamePrefix: "@",
  parseTagValue: false,
  processEntities: false,
});

const asText = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));

/** Text without the elements of this name: found by position, in one pass, so that no content can slow it down. */
const without = (xml: string, name: string): string => {
  const [open, close] = [`<${name}>`, `</${name}>`];
  const kept: string[] = [];
  let from = 0;
  for (;;) {
    const start = xml.indexOf(open, from);
    const end = start < 0 ? -1 : xml.indexOf(close, start);
    if (end < 0) break;
    kept.push(xml.slice(from, start));
    from = end + close.length;
  }
  kept.push(xml.slice(from));
  return kept.join("");
};

export type NvidiaSmiDocument = {
  /** the outermost element as it came, for `Reader` */
  readonly root: unknown;
  /** the DTD's version as printed ("v12") */
  readonly dtd: string | undefined;
  /** lists of processes that were given up, as a name among them looks like the log itself */
  readonly lostLists: number;
};

/**
 * Finds and parses the XML in what nvidia-smi printed. Warnings before and after it are tolerated. The prolog with its
 * DOCTYPE (with `--dtd` a whole DTD) never reaches the XML parser, and entities are not expanded. Names of processes, and lists of
 * possible clocks, most of the output's size, are cut out beforehand.
 *
 * @throws {ParseError} when there is no complete, well-formed `<nvidia_smi_log>`
 */
export const readDocument = (stdout: string): NvidiaSmiDocument => {
  const start = stdout.indexOf(`<${ROOT}>`);
  const end = stdout.lastIndexOf(`</${ROOT}>`);
  if (start < 0) throw new ParseError(`nvidia-smi printed no XML: ${JSON.stringify(stdout.trim().slice(0, 200))}`);
  if (end < start) throw new ParseError(`the XML of nvidia-smi breaks off: ${JSON.stringify(stdout.slice(-80))}`);
  const whole = stdout.slice(start, end + ROOT.length + 3);
  const nameless = withoutNamesOfProcesses(whole, ROOT) ?? { xml: without(whole, "process_name"), lost: 0 };
  const xml = without(nameless.xml, "supported_clocks");
  let parsed: unknown;
  try {
    const verdict = XMLValidator.validate(xml);
    if (verdict !== true) throw new ParseError(`${verdict.err.msg} (line ${verdict.err.line} of the log)`);
    parsed = parser.parse(xml);
  } catch (cause) {
    // the XML parser refuses with plain errors (nesting too deep, forbidden names)
    throw new ParseError(`the XML of nvidia-smi is broken: ${asText(cause)}`, { cause });
  }
  return {
    root: typeof parsed === "object" && parsed !== null && ROOT in parsed ? parsed[ROOT] : undefined,
    lostLists: nameless.lost,
    dtd: /nvsmi_device_(v\d{1,4})\.dtd/.exec(stdout.slice(0, Math.min(start, LONGEST_PROLOG)))?.[1],
  };
};
