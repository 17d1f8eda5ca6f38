/** The states of ps(1): a closed set, so that it can be a label. */
export const PROCESS_STATES = ["D", "I", "R", "S", "T", "t", "W", "X", "Z"] as const;
export type ProcessState = (typeof PROCESS_STATES)[number];

export type Process = {
  readonly state: ProcessState;
  readonly residentBytes: number;
  readonly pid: number;
  /** the command line as printed, or `[name]` where there is none */
  readonly commandLine: string;
};
