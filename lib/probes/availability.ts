import { access } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { lackOfDescriptors } from "../agent/runner-descriptors.ts";
import { commandEnvironment } from "../agent/runner-environment.ts";
import { locateExecutable } from "../agent/runner-executable.ts";

/** Seconds after which a file system that hangs is left alone: the probe's own run will tell. */
const PATIENCE = 5;

/** Why one of these tools cannot be started, or undefined if all can. Nothing is run; a name is looked for in PATH. */
export const missingTool = (names: readonly string[]): Promise<string | undefined> =>
  orUnknown(async () => {
    const { PATH } = commandEnvironment("none", process.env);
    for (const name of names) {
      const located = await locateExecutable(name, PATH);
      // Without file descriptors nobody can tell: the probe's own run will.
      if (located.kind !== "found") return lackOfDescriptors() === undefined ? located.detail : undefined;
    }
    return undefined;
  });

/** Says that none of these files is there, or undefined if one is. */
export const missingFile = (what: string, paths: readonly string[]): Promise<string | undefined> =>
  orUnknown(async () => {
    const there = await Promise.all(paths.map((path) => exists(path)));
    return there.includes(true) ? undefined : `there is no ${what} (${paths.join(", ")})`;
  });

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

const orUnknown = async (look: () => Promise<string | undefined>): Promise<string | undefined> => {
  const timer = new AbortController();
  const late = sleep(PATIENCE * 1000, undefined, { signal: timer.signal }).catch(() => undefined);
  try {
    return await Promise.race([look(), late]);
  } finally {
    timer.abort();
  }
};
