import { waitsForItsUser, type Process } from "./ps-process.ts";

/** D and Z processes, each with the time from which on it was seen so whenever ps was looked at. */
export type ProcessWatch = {
  /** of the first observation and of the last, in seconds of one clock */
  readonly begun: number;
  readonly at: number;
  readonly processes: readonly { readonly process: Process; readonly since: number }[];
};

export type LongStanding = { readonly uninterruptible: readonly Process[]; readonly zombies: readonly Process[] };

const isWatched = (process: Process): boolean =>
  process.state === "Z" || (process.state === "D" && !waitsForItsUser(process));

/** Process ids come back, so that the command has to be the same too. */
const keyOf = ({ pid, state, commandLine }: Process): string => `${pid} ${state} ${commandLine}`;

/**
 * Adds an observation: what is D or Z now and was so before keeps its time. Any process is D for a moment when it reads a
 * disk, and Z for one when it ends (openpai#2932), so a single observation says nothing.
 */
export const watchProcesses = (
  previous: ProcessWatch | undefined,
  processes: readonly Process[],
  at: number,
): ProcessWatch => {
  const since = new Map(previous?.processes.map(({ process, since }) => [keyOf(process), since]));
  return {
    begun: previous?.begun ?? at,
    at,
    processes: processes.filter(isWatched).map((process) => ({ process, since: since.get(keyOf(process)) ?? at })),
  };
};

/**
 * The processes seen in D, and in Z, at observations at least `seconds` apart and all between. Undefined until the watch is
 * so old: nobody knows yet.
 */
export const longStanding = (watch: ProcessWatch, seconds: number): LongStanding | undefined => {
  if (watch.at - watch.begun < seconds) return undefined;
  const old = watch.processes.filter(({ since }) => watch.at - since >= seconds).map(({ process }) => process);
  return {
    uninterruptible: old.filter(({ state }) => state === "D"),
    zombies: old.filter(({ state }) => state === "Z"),
  };
};
