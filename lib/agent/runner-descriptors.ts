import { closeSync, openSync } from "node:fs";

/** A start takes two pairs for its pipes, a pair to hear of a failed exec, and one for its stdin; one more is for /proc. */
const NEEDED = 8;

/**
 * Why a command cannot be started for want of file descriptors (EMFILE, ENFILE), or undefined if there are enough. To be asked in
 * the very turn of a start: one that fails half-way for want of them leaves the parent's ends of its pipes open for good (libuv
 * opens them before it fails, and Node does not close them), until none is left at all. Takes some 30 microseconds.
 */
export function lackOfDescriptors(): unknown {
  const taken: number[] = [];
  try {
    while (taken.length < NEEDED) taken.push(openSync("/dev/null", "r"));
    return undefined;
  } catch (thrown) {
    return thrown;
  } finally {
    for (const number of taken) closeSync(number);
  }
}
