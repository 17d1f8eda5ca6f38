import type { CommandResult, Output, Parsed, ResultKind } from "../../agent/types.ts";
import { errorText } from "../../errors.ts";

/** Why there is nothing to publish. */
export type Failure = {
  readonly kind: Exclude<ResultKind, "ok">;
  /** of the command that decided it, where it exited */
  readonly exitCode?: number;
  readonly detail: string;
};

/** What the output of one command says, or why it says nothing. */
export type Reading<T> = (Parsed<T> & { readonly kind: "ok"; readonly exitCode: number }) | Failure;

/**
 * Reads what a command printed. The parser is asked whatever the exit code is, since some tools exit with another than 0 and have
 * said all there is to say; if it refuses then, the exit is the reason, and otherwise the output is.
 */
export const readResult = <T>(result: CommandResult, parse: (output: Output) => Parsed<T>): Reading<T> => {
  switch (result.kind) {
    case "ok":
    case "exit_nonzero": {
      const { exitCode } = result.output;
      try {
        return { kind: "ok", exitCode, ...parse(result.output) };
      } catch (thrown) {
        const kind = result.kind === "ok" ? "parse_error" : result.kind;
        return { kind, exitCode, detail: errorText(thrown) };
      }
    }
    case "timeout":
    case "not_found":
    case "not_executable":
    case "output_too_large":
    case "killed":
    case "skipped_in_flight":
      return { kind: result.kind, detail: result.detail };
    default:
      return result satisfies never;
  }
};
