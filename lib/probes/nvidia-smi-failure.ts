import type { Output } from "../agent/types.ts";

/** Exit codes as `man nvidia-smi` gives them, and 18, which is NVML's number for a library of another version. */
const EXIT_CODES: Readonly<Record<number, string>> = {
  2: "an argument is invalid",
  3: "the device does not support the operation",
  4: "the user has no permission",
  6: "no GPU was found",
  8: "a GPU's external power cables are not attached",
  9: "the NVIDIA driver is not loaded",
  10: "the kernel detected an interrupt problem with a GPU",
  12: "the NVML library was not found",
  13: "the NVML library is too old for this function",
  14: "a GPU's infoROM is corrupted",
  15: "a GPU has fallen off the bus or is otherwise inaccessible",
  18: "the NVML library and the driver are of different versions",
  255: "an internal driver error occurred",
};

/**
 * Whether an output of this exit code may be read. 14 is a warning about the infoROM: the log is complete and right. With
 * every other code but 0 some GPU or all of them are missing, and the probe publishes nothing.
 */
export const nvidiaSmiReadable = (exitCode: number): boolean => exitCode === 0 || exitCode === 14;

/** Says in one line why nvidia-smi gave no data: the meaning of its exit code, and what it printed. */
export const nvidiaSmiFailure = (output: Output): string => {
  const printed = output.stdout.trim() || output.stderr.trim();
  const meaning = EXIT_CODES[output.exitCode] ?? "the exit code is not documented";
  const line = JSON.stringify(printed.slice(0, 200).split("\n")[0] ?? "");
  return `nvidia-smi exited with ${output.exitCode} (${meaning}) and printed ${line}`;
};
