/** How a probe's run ended: a closed set, so that it can be a label. `ok` is the only one that publishes data. */
export const RESULT_KINDS = [
  "ok",
  "timeout",
  "exit_nonzero",
  "not_found",
  "not_executable",
  "parse_error",
  "output_too_large",
  "killed",
  "skipped_in_flight",
  "disabled",
] as const;
export type ResultKind = (typeof RESULT_KINDS)[number];

/** A command to run: never through a shell. */
export type Command = {
  readonly argv: readonly [string, ...string[]];
  /** the result is settled at this deadline, whatever the child does; seconds, finite and above 0 */
  readonly timeout: number;
  /** bytes of stdout (and, apart, of stderr) after which the child is killed and the output thrown away */
  readonly maxBytes: number;
  readonly cwd?: string;
};

/** What a command printed. Bytes that are no UTF-8 are replaced, never an error. */
export type Output = { readonly stdout: string; readonly stderr: string; readonly exitCode: number };

/** How one command ended. It has an output only if it exited by itself before the deadline. */
export type CommandResult =
  | { readonly kind: "ok" | "exit_nonzero"; readonly output: Output; readonly seconds: number }
  | {
      readonly kind: "timeout" | "not_found" | "not_executable" | "output_too_large" | "killed" | "skipped_in_flight";
      readonly seconds: number;
      /** for people: what happened, the path that was not found, the signal */
      readonly detail: string;
    };

/**
 * What a parser read in an output. `rejected` counts broken rows that were left out: one bad row costs that row, not the probe
 * (fault "one `--` row"). Parsers throw ParseError (lib/agent/probes/common/probe.ts) when nothing can be read at all.
 */
export type Parsed<T> = { readonly value: T; readonly rejected: number };
