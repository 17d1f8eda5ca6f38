import type { Command, Output, Parsed } from "../agent/types.ts";
import { readDocument } from "./nvidia-smi-document.ts";
import { nvidiaSmiFailure, nvidiaSmiReadable } from "./nvidia-smi-failure.ts";
import { readGpu, type NvidiaSmi } from "./nvidia-smi-gpu.ts";
import { Reader, type Tally } from "./nvidia-smi-reader.ts";
import { plainText } from "./nvidia-smi-units.ts";
import { ParseError } from "./parse-error.ts";

export { nvidiaSmiFailure, nvidiaSmiReadable } from "./nvidia-smi-failure.ts";
export { nvidiaSmiMetrics } from "./nvidia-smi-metrics.ts";
export type { NvidiaGpu, NvidiaSmi } from "./nvidia-smi-gpu.ts";

/**
 * One GPU is 27 KB of XML on an H100 and 45 KB on a B200; 10 s are normal for eight of them (netdata#14522, #18690). 2 MiB is
 * room for 40 of the largest, and keeps the parser from holding up the agent for long.
 */
export const NVIDIA_SMI_COMMAND: Command = { argv: ["nvidia-smi", "-q", "-x"], timeout: 20, maxBytes: 2 * 1024 * 1024 };

/** The probe has something to do where one of these exists: the driver's control device, or WSL's. */
export const NVIDIA_SMI_DEVICES: readonly string[] = ["/dev/nvidiactl", "/dev/dxg"];

const version = (text: string | undefined): string | undefined => (text === undefined ? undefined : plainText(text));

/** A log that lists more GPUs than there are, or one twice, is not the driver's alone: nobody can tell which of them are its own. */
const checkCount = (elements: readonly Reader[], attached: number | undefined): void => {
  const ids = elements.flatMap((element) => element.name("@id") ?? []);
  const isTwice = new Set(ids).size < ids.length;
  if (!isTwice && (attached === undefined || elements.length <= attached)) return;
  const wrong = isTwice ? "one of them twice" : "more than there are";
  throw new ParseError(
    `the log of nvidia-smi lists ${elements.length} GPUs, ${wrong} (attached_gpus ${attached ?? "is not there"}): a process may have ` +
      `a name that looks like a GPU. No GPU was read. Look for it with nvidia-smi, and end it`,
  );
};

/**
 * Reads the output of `nvidia-smi -q -x`, of any driver from 352 to 595. A value that is `N/A`, lost, or not permitted is
 * undefined; a broken one is undefined and counted in `rejected`; the other values and GPUs stay.
 *
 * @throws {ParseError} when it failed (see nvidiaSmiReadable), is no XML, broken XML, or XML about something else
 */
export const parseNvidiaSmi = (output: Output): Parsed<NvidiaSmi> => {
  if (!nvidiaSmiReadable(output.exitCode)) throw new ParseError(nvidiaSmiFailure(output));
  const document = readDocument(output.stdout);
  const tally: Tally = { rejected: document.lostLists };
  const log = new Reader(document.root, tally);
  const elements = log.all("gpu");
  const attachedGpus = log.integer("attached_gpus");
  if (elements.length === 0 && attachedGpus === undefined) {
    const text = JSON.stringify(log.text("error_string") ?? log.ownText().slice(0, 200));
    throw new ParseError(`the log of nvidia-smi has neither <gpu> nor <attached_gpus>: ${text}`);
  }
  checkCount(elements, attachedGpus);
  const gpus = elements.flatMap((element, index) => {
    if (element.isNested()) return [readGpu(element, index)];
    element.reject();
    return [];
  });
  const value = {
    dtd: document.dtd,
    driverVersion: version(log.text("driver_version")),
    cudaVersion: version(log.text("cuda_version")),
    attachedGpus,
    gpuElements: elements.length,
    gpus,
  };
  return { value, rejected: tally.rejected };
};
