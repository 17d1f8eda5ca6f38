import { withoutEnd } from "../without-end.ts";

/** More of a command line is not looked at: a user chooses its length, and what counts is at its beginning. */
const MOST_CHARACTERS = 4096;

/** A name that a series may carry. */
const MOST_NAME = 64;

const isSpace = (character: string): boolean => character.trim() === "";

const orUnknown = (name: string): string => (name === "" ? "unknown" : name.slice(0, MOST_NAME));

/** What comes before the first of some characters. */
const before = (text: string, ends: string): string => {
  let end = 0;
  for (const character of text) {
    if (ends.includes(character)) break;
    end += character.length;
  }
  return text.slice(0, end);
};

/**
 * The name by which a process is counted, by its command line: the file's name, without path and arguments, or a kernel thread's
 * without its number. A command line as a label would make a series of each process.
 */
export const commandName = (commandLine: string): string => {
  const line = commandLine.slice(0, MOST_CHARACTERS);
  const bracketed = line.startsWith("[") ? before(line.slice(1, 1 + MOST_NAME), "]/:").trim() : "";
  if (bracketed !== "") return bracketed;
  let end = 0;
  while (end < line.length && !isSpace(line[end] ?? "")) end += 1;
  const program = line.slice(0, end);
  // a process may call itself anything, as in `sshd: user@pts/0`
  return orUnknown(withoutEnd(program.slice(program.lastIndexOf("/") + 1), ":"));
};

/** What ps writes behind the name of a process that waits to be reaped. */
const DEFUNCT = " <defunct>";

/** The name by which a process is counted, by the name that the kernel keeps, of 15 bytes: `kworker/0:1` is `kworker`. */
export const kernelName = (comm: string): string => {
  const printed = comm.slice(0, MOST_NAME).trim();
  const name = printed.endsWith(DEFUNCT) ? printed.slice(0, -DEFUNCT.length) : printed;
  return orUnknown(before(name, "/:").trim());
};
