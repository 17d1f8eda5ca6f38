import type { RocmCard } from "./rocm-smi-card.ts";
import type { Section } from "./rocm-smi-json.ts";

/** A process that holds some AMD GPU of the node; rocm-smi does not say which. */
export type RocmProcess = { readonly pid: number; readonly usedBytes: number | undefined };

/** What `rocm-smi --json` says. `gpus` are in the order of their card numbers. */
export type RocmSmi = {
  readonly gpus: readonly RocmCard[];
  /** cards, readable or not */
  readonly cardCount: number;
  readonly driverVersion: string | undefined;
  /** undefined where rocm-smi lists none: it says nothing at all when there are none */
  readonly processes: readonly RocmProcess[] | undefined;
  /** the section `system` as printed */
  readonly system: Readonly<Record<string, string>> | undefined;
};

const pidOf = (digits: string): number => Number(digits);

/** `"PID104225": "name, GPUs, VRAM used, SDMA used, CU occupancy"`; a name may contain commas. */
const modernProcess = (key: string, text: string): RocmProcess[] => {
  const digits = /^pid(\d{1,10})$/.exec(key)?.[1];
  if (digits === undefined) return [];
  const used = /^\d{1,15}$/.exec(text.split(", ").at(-3) ?? "")?.[0];
  return [{ pid: pidOf(digits), usedBytes: used === undefined ? undefined : Number(used) }];
};

/** ROCm 3 lists the ids alone, under one key. */
const oldProcesses = (key: string, text: string): RocmProcess[] =>
  key === "pids for kfd processes"
    ? (text.slice(0, 64 * 1024).match(/\b\d{1,10}\b/g) ?? []).map((digits) => ({
        pid: pidOf(digits),
        usedBytes: undefined,
      }))
    : [];

/** The processes that a `system` section names. */
export const readRocmProcesses = (system: Section): readonly RocmProcess[] | undefined => {
  const processes = [...system].flatMap(([key, { text }]) => [...modernProcess(key, text), ...oldProcesses(key, text)]);
  return processes.length === 0 ? undefined : processes;
};
