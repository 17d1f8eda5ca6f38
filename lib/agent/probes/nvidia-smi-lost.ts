// GPUs that fell off the bus. nvidia-smi then prints one line that names the GPU's PCI address, and no log of the others: each of the
// others is asked by itself, so that one lost GPU costs only its own series (dcgm-exporter#604, telegraf#9785, categraf#1056).
import type { Command, Output, Parsed } from "../command/types.ts";
import { SlotPerKey } from "../command/slot.ts";
import { ParseError } from "./common/parse.ts";
import type { Run } from "./common/probe.ts";
import type { LostGpu, NvidiaGpu, NvidiaSmi } from "./nvidia-smi-gpu.ts";

/** Of what is printed besides the log, so many characters are searched. */
const LONGEST_TEXT = 64 * 1024;
/** The kernel's messages leave the function out. */
const PCI_ADDRESS = /[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-9a-f])?/i;
const LOST = /unable to determine the device handle|gpu(?: is|:)? lost|fallen off the bus/i;

/**
 * The GPUs that are lost by what was printed outside the log, each once. What is in the log is not searched: users choose the names of
 * processes in it.
 */
export const lostGpus = ({ stdout, stderr }: Output): readonly LostGpu[] => {
  const found = new Map<string, LostGpu>();
  for (const text of [...outsideLog(stdout), stderr]) {
    for (const line of text.slice(0, LONGEST_TEXT).split("\n")) {
      const pciBusId = LOST.test(line) ? PCI_ADDRESS.exec(line)?.[0] : undefined;
      if (pciBusId === undefined || found.has(pciKey(pciBusId))) continue;
      found.set(pciKey(pciBusId), { pciBusId, line: line.trim().slice(0, 200) });
    }
  }
  return [...found.values()];
};

const outsideLog = (stdout: string): readonly string[] => {
  const start = stdout.search(/<\?xml|<!DOCTYPE|<nvidia_smi_log/);
  if (start < 0) return [stdout];
  const close = "</nvidia_smi_log>";
  const end = stdout.lastIndexOf(close);
  return [stdout.slice(0, start), end < start ? "" : stdout.slice(end + close.length)];
};

/** The same for all spellings of one address: the domain has four digits in texts, and eight in logs; a GPU is function 0. */
export const pciKey = (address: string): string => {
  const [domain = "", ...rest] = address.toLowerCase().split(":");
  const key = [domain.padStart(8, "0"), ...rest].join(":");
  return key.includes(".") ? key : `${key}.0`;
};

/** A GPU by what identifies it for nvidia-smi. */
type ListedGpu = { readonly index: number; readonly uuid: string | undefined };

const LISTED = /^GPU (\d{1,4}): [^\n]{0,256}\(UUID: (GPU-[0-9a-f-]{8,64})\)\s*$/i;

/** Reads `nvidia-smi -L`, which lists the GPUs that work, with whatever exit code. @throws {ParseError} if it lists none and failed */
export const parseGpuList = (output: Output): Parsed<readonly ListedGpu[]> => {
  const listed = output.stdout.split("\n").flatMap((line): ListedGpu[] => {
    const [, index, uuid] = LISTED.exec(line) ?? [];
    return index === undefined ? [] : [{ index: Number(index), uuid }];
  });
  if (listed.length > 0 || output.exitCode === 0) return { value: listed, rejected: 0 };
  throw new ParseError(`nvidia-smi -L exited with ${output.exitCode} and listed no GPU`);
};

/** What the other GPUs said. `unread`: how many of them could not be read. */
export type Others = { readonly log: NvidiaSmi; readonly unread: number; readonly rejected: number };

/** With more time than this for the list of GPUs, seconds, too little would be left to ask them. */
const LONGEST_LIST = 5;

/** Asks the GPUs that are not lost, one after the other, within the time of the probe's run. */
export class OtherGpus {
  readonly #command: Command["argv"];
  readonly #maxBytes: number;
  readonly #parse: (output: Output) => Parsed<NvidiaSmi>;
  /** a GPU that hangs the command must not keep the others from being asked, nor be asked twice at a time */
  readonly #slots = new SlotPerKey();
  /** the GPUs of the last complete log: their indexes stay those of the series, as nvidia-smi counts without the lost ones */
  #known: readonly NvidiaGpu[] = [];

  constructor(command: Command["argv"], maxBytes: number, parse: (output: Output) => Parsed<NvidiaSmi>) {
    this.#command = command;
    this.#maxBytes = maxBytes;
    this.#parse = parse;
  }

  /** Keeps the GPUs of a complete log. */
  remember(gpus: readonly NvidiaGpu[]): void {
    this.#known = gpus;
  }

  /** A lost GPU as it was when it worked. */
  knownBy(pciBusId: string): NvidiaGpu | undefined {
    return this.#known.find((gpu) => gpu.pciBusId !== undefined && pciKey(gpu.pciBusId) === pciKey(pciBusId));
  }

  get stuck(): number {
    return this.#slots.stuck;
  }

  /** Those that could be read before the run's deadline, under the indexes that they had before. */
  async read(run: Run, lost: readonly LostGpu[]): Promise<Others> {
    const listed = await this.#list(run, lost);
    const gpus = new Map<string, NvidiaGpu>();
    // Where several are lost, nvidia-smi may name the first only.
    const named = new Map(lost.map((one) => [pciKey(one.pciBusId), one]));
    let [last, rejected]: [NvidiaSmi | undefined, number] = [undefined, 0];
    for (const [asked, gpu] of listed.entries()) {
      // Each gets its share of what is left, so that one that hangs does not take the others' time.
      const reading = await run.read(
        "nvidia-smi",
        run.left / (listed.length - asked),
        (timeout) => this.#run(["-i", String(gpu.index)], timeout),
        this.#parse,
      );
      if (reading.kind !== "ok") continue;
      for (const one of reading.value.lost) named.set(pciKey(one.pciBusId), one);
      if (reading.value.gpus.length === 0) continue;
      rejected += reading.rejected;
      last = reading.value;
      for (const one of reading.value.gpus) gpus.set(one.uuid ?? `index ${gpu.index}`, this.#inPlace(one, gpu));
    }
    const log = {
      ...NO_LOG,
      ...last,
      gpuElements: gpus.size === 0 ? undefined : gpus.size,
      gpus: [...gpus.values()],
      lost: [...named.values()],
    };
    return { log, unread: Math.max(0, listed.length - gpus.size), rejected };
  }

  /** The GPUs to ask: as nvidia-smi lists them now, else those of the last complete log. */
  async #list(run: Run, lost: readonly LostGpu[]): Promise<readonly ListedGpu[]> {
    const most = Math.min(LONGEST_LIST, run.left / 3);
    const list = await run.read("nvidia-smi", most, (timeout) => this.#run("-L", timeout), parseGpuList);
    const lostKeys = new Set(lost.map(({ pciBusId }) => pciKey(pciBusId)));
    const works = this.#known.filter(({ pciBusId }) => pciBusId === undefined || !lostKeys.has(pciKey(pciBusId)));
    if (list.kind !== "ok") return works;
    const lostUuids = new Set(lost.flatMap(({ pciBusId }) => this.knownBy(pciBusId)?.uuid ?? []));
    return list.value.filter(({ uuid }) => uuid === undefined || !lostUuids.has(uuid));
  }

  #run(more: "-L" | readonly string[], timeout: number) {
    const [program, ...rest] = this.#command;
    const kept = more === "-L" ? rest.filter((argument) => !QUERY.has(argument)) : rest;
    const added = more === "-L" ? [more] : more;
    return this.#slots.run(added.join(" "), { argv: [program, ...kept, ...added], timeout, maxBytes: this.#maxBytes });
  }

  /** A log of one GPU counts it as the first. */
  #inPlace(gpu: NvidiaGpu, listed: ListedGpu): NvidiaGpu {
    const before = this.#known.find(({ uuid }) => uuid !== undefined && uuid === gpu.uuid);
    return { ...gpu, index: before?.index ?? listed.index };
  }
}

const QUERY: ReadonlySet<string> = new Set(["-q", "--query", "-x", "--xml-format"]);

/** What is known where nvidia-smi printed no log. */
export const NO_LOG = {
  dtd: undefined,
  driverVersion: undefined,
  cudaVersion: undefined,
  attachedGpus: undefined,
  gpuElements: undefined,
  gpus: [],
} as const satisfies Partial<NvidiaSmi>;
