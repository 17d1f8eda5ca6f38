import { XMLParser, XMLValidator } from "fast-xml-parser";
import { ParseError } from "./parse-error.ts";

const ROOT = "nvidia_smi_log";

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

/**
 * Drops the names of processes, which are what users put on their command lines: nvidia-smi does not promise to escape
 * them, nobody reads them here, and an `&` among them may not cost all GPUs. A name lies on a line of its own.
 */
const withoutProcessNames = (xml: string): string =>
  without(
    xml
      .split("\n")
      .map((line) => {
        const start = line.indexOf("<process_name>");
        const several = start >= 0 && line.indexOf("<process_name>", start + 1) >= 0;
        const end = line.lastIndexOf("</process_name>");
        return start < 0 || several || end < start ? line : line.slice(0, start) + line.slice(end + 15);
      })
      .join("\n"),
    "process_name",
  );

/** The XML of nvidia-smi as it came: the root element, for `Reader`, and the DTD's version as printed ("v12"). */
export type NvidiaSmiDocument = { readonly root: unknown; readonly dtd: string | undefined };

/**
 * Finds and parses the XML in what nvidia-smi printed. Warnings before and after it are tolerated. The prolog with its
 * DOCTYPE (with `--dtd` a whole DTD) never reaches the XML parser, and entities are not expanded. Lists of possible clocks,
 * most of the output's size, are cut out beforehand.
 *
 * @throws {ParseError} when there is no complete, well-formed `<nvidia_smi_log>`
 */
export const readDocument = (stdout: string): NvidiaSmiDocument => {
  const start = stdout.indexOf(`<${ROOT}>`);
  const end = stdout.lastIndexOf(`</${ROOT}>`);
  if (start < 0) throw new ParseError(`nvidia-smi printed no XML: ${JSON.stringify(stdout.trim().slice(0, 200))}`);
  if (end < start) throw new ParseError(`the XML of nvidia-smi breaks off: ${JSON.stringify(stdout.slice(-80))}`);
  const xml = withoutProcessNames(without(stdout.slice(start, end + ROOT.length + 3), "supported_clocks"));
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
    dtd: /nvsmi_device_(v\d{1,4})\.dtd/.exec(stdout.slice(0, start))?.[1],
  };
};
