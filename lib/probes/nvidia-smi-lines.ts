/** The process list of a GPU about which nothing is known. */
const UNKNOWN = "<processes>N/A</processes>";

/** A line of a process list that nvidia-smi writes, without the name; no text of it has a bracket. */
const OWN_LINE =
  /^(?:<\/?process_info>|<(?:pid|type|used_memory|gpu_instance_id|compute_instance_id)>[^<>]{0,64}<\/[a-z_]{3,32}>)$/;

const OPEN = "<process_name>";
const CLOSE = "</process_name>";

/**
 * The lines of a process list without names, or undefined where a name has line breaks and tags among what could be the driver's own
 * lines: nobody knows then where it ends. A name of one line may hold anything but the end of a name.
 */
const withoutNames = (lines: readonly string[]): readonly string[] | undefined => {
  const kept: string[] = [];
  let inName = false;
  for (const line of lines) {
    const text = line.trim();
    const start = inName ? 0 : text.indexOf(OPEN);
    if (start < 0) {
      if (text !== "" && !(text.length < 256 && OWN_LINE.test(text))) return undefined;
      kept.push(line);
      continue;
    }
    if (!inName && start > 0) return undefined;
    const from = inName ? 0 : OPEN.length;
    const end = text.indexOf(CLOSE, from);
    if (end >= 0 && end + CLOSE.length !== text.length) return undefined;
    if (end < 0 && text.includes("<", from)) return undefined;
    inName = end < 0;
  }
  return inName ? undefined : kept;
};

/** A process list that is no list: `N/A`, `None`, or empty. */
const NO_LIST = /^<processes(?: ?\/>|>[^<>]{0,256}<\/processes>)$/;

type Own = { readonly lines: readonly string[]; readonly isLost: boolean };

/** One GPU's lines: all before its process list, and that list without names. What follows it is not read. */
const ownLines = (lines: readonly string[]): Own => {
  const start = lines.findIndex((line) => line.trimStart().startsWith("<processes"));
  if (start < 0) return { lines, isLost: false };
  const first = (lines[start] ?? "").trim();
  const end = lines.findLastIndex((line) => line.trim() === "</processes>");
  const list = first === "<processes>" && end > start ? withoutNames(lines.slice(start + 1, end)) : undefined;
  const isNone = first.length < 512 && NO_LIST.test(first);
  const own = list === undefined ? [isNone ? first : UNKNOWN] : [first, ...list, "</processes>"];
  return { lines: lines.slice(0, start).concat(own, "</gpu>"), isLost: list === undefined && !isNone };
};

/** A log without names of processes, and how many process lists were given up. */
export type Nameless = { readonly xml: string; readonly lost: number };

/**
 * Takes the names of processes out of nvidia-smi's log. They are what users put on their command lines, nvidia-smi does not promise
 * to escape them, and nobody reads them here: a name may not open or close an element that counts, nor cost all GPUs by an `&`.
 *
 * The driver writes each element on a line of its own, and each GPU as deep as the first one, which comes before all names. Names
 * lie in the list of processes, so that of a GPU only what comes before that list counts, and the list itself. Undefined for a log
 * that has no such lines, which no driver writes.
 *
 * @param root the name of the outermost element, with which the text ends
 */
export const withoutNamesOfProcesses = (xml: string, root: string): Nameless | undefined => {
  const lines = xml.slice(0, xml.lastIndexOf(`</${root}>`)).split("\n");
  const first = lines.findIndex((line) => line.includes("<gpu>") || line.includes("<gpu "));
  const own = lines[first] ?? "";
  const indent = own.slice(0, own.length - own.trimStart().length);
  if (first < 0 || lines.length < 2 || !/^<gpu[ >]/.test(own.trimStart())) return undefined;
  const starts = lines.flatMap((line, index) => {
    // tools that write a log anew may forget the depth of all GPUs but the first
    const isDeep = line.startsWith(`${indent}<gpu`) || lines[index - 1] === `${indent}</gpu>`;
    return isDeep && /^<gpu[ >]/.test(line.trimStart()) ? [index] : [];
  });
  const gpus = starts.map((start, at) => ownLines(lines.slice(start, starts[at + 1])));
  return {
    xml: [...lines.slice(0, first), ...gpus.flatMap((gpu) => gpu.lines), `</${root}>`].join("\n"),
    lost: gpus.filter(({ isLost }) => isLost).length,
  };
};
