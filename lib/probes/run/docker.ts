import type { Output } from "../../agent/types.ts";
import { dockerFailure } from "../docker-daemon-failure.ts";

/** Whether docker says that the container does not exist any more: an absence, and no failure. */
export const saysGone = (output: Output): boolean =>
  output.exitCode !== 0 &&
  dockerFailure(output) === "other" &&
  /no such (?:container|object)|dead or marked for removal/i.test(output.stderr.slice(0, 4096));
