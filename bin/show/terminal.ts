import { plainLines } from "../../lib/shared/text.ts";

/** An exposition as it is for a program; on a terminal, which obeys what is in a label's value, its lines as plain text. */
export function forReader(exposition: string, isTerminal: boolean): string {
  return isTerminal ? plainLines(exposition.split("\n")).slice(0, -1) : exposition;
}
