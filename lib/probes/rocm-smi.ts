import type { Command, Output, Parsed } from "../agent/types.ts";
import { ParseError } from "./parse-error.ts";
import { readCard } from "./rocm-smi-card.ts";
import { readRocmDocument } from "./rocm-smi-json.ts";
import { CardReader } from "./rocm-smi-reader.ts";
import { readRocmProcesses, type RocmSmi } from "./rocm-smi-system.ts";

export { rocmSmiMetrics } from "./rocm-smi-metrics.ts";
export type { RocmCard } from "./rocm-smi-card.ts";
export type { RocmSmi } from "./rocm-smi-system.ts";

/** `-a` prints the whole card, without memory in bytes; `--showmeminfo all` adds it. */
export const ROCM_SMI_COMMAND: Command = {
  argv: ["rocm-smi", "--showmeminfo", "all", "-a", "--json"],
  timeout: 20,
  maxBytes: 2 * 1024 * 1024,
};

/** The probe has something to do where AMD's compute driver is. */
export const ROCM_SMI_DEVICES: readonly string[] = ["/dev/kfd"];

/**
 * Reads the JSON of rocm-smi, of ROCm 3 to 6. `N/A` (also `N/A (Secondary die)`) is undefined; a broken value is undefined and
 * counted in `rejected`, as is a card that is no object.
 *
 * @throws {ParseError} when it failed, printed no JSON or no cards, or no card has a key that is known: output of a version
 * that nobody has seen must be noticed (telegraf#9851)
 */
export const parseRocmSmi = (output: Output): Parsed<RocmSmi> => {
  const document = readRocmDocument(output);
  const readers = document.cards.map(({ section }) => (section === undefined ? undefined : new CardReader(section)));
  const gpus = document.cards.flatMap(({ number }, index) => {
    const reader = readers[index];
    return reader === undefined ? [] : [readCard(reader, index, number)];
  });
  if (readers.every((reader) => reader === undefined || reader.known === 0)) {
    const keys = readers.flatMap((reader) => reader?.keys() ?? []);
    throw new ParseError(`no card of rocm-smi has a known key: ${JSON.stringify(keys.slice(0, 10)).slice(0, 300)}`);
  }
  const rejected = readers.reduce((sum, reader) => sum + (reader?.rejected ?? 1), 0);
  const { system } = document;
  const value = {
    gpus,
    cardCount: document.cards.length,
    driverVersion: system?.get("driver version")?.text,
    processes: system === undefined ? undefined : readRocmProcesses(system),
    system:
      system === undefined ? undefined : Object.fromEntries([...system.values()].map(({ key, text }) => [key, text])),
  };
  return { value, rejected };
};
