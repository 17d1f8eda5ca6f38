/** The output of a command is not what it prints; the probe publishes nothing. The message quotes the place. */
export class ParseError extends Error {
  override readonly name = "ParseError";
}
