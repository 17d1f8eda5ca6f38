/**
 * The name by which a process is counted: the file's name, without path and arguments, or a kernel thread's without its
 * number. A command line as a label would make a series of each process.
 */
export const commandName = (commandLine: string): string => {
  const bracketed = /^\[([^\]/:]{1,64})/.exec(commandLine)?.[1];
  if (bracketed !== undefined) return bracketed.trim();
  const [program = ""] = commandLine.split(/\s/, 1);
  // a process may call itself anything, as in `sshd: user@pts/0`
  const name = (program.split("/").pop() ?? "").replace(/:+$/, "");
  return name === "" ? "unknown" : name.slice(0, 64);
};
