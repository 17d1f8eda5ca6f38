import { randomUUID } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { type ProcessEntry, parseStat } from "../../lib/shared/proc.ts";
import type { Command } from "../../lib/agent/command/types.ts";

/** A command with limits that a test would not meet, unless it sets its own. */
export function command(argv: Command["argv"], more: Partial<Command> = {}): Command {
  return { argv, timeout: 20, maxBytes: 1_000_000, ...more };
}

/** A script of the shell as a command: the shell is the command then, not how it is run. */
export function script(text: string, more: Partial<Command> = {}): Command {
  return command(["/bin/sh", "-c", text], more);
}

/** All processes, zombies too. */
export function allProcesses(): ProcessEntry[] {
  return readdirSync("/proc").flatMap((name) => {
    try {
      return /^\d+$/.test(name) ? (parseStat(readFileSync(`/proc/${name}/stat`, "utf8")) ?? []) : [];
    } catch {
      return []; // it ended meanwhile
    }
  });
}

/** Children of this process that ended and were not reaped. */
export function ownZombies(): number {
  return allProcesses().filter((entry) => entry.parent === process.pid && !entry.alive).length;
}

/**
 * A length of sleep that nobody else uses, seconds. The processes of a test are found by it, with no help from the code under
 * test, also if they wiped their environment.
 */
export function ownSleep(): string {
  return `61.${Number.parseInt(randomUUID().slice(0, 8), 16)}`;
}

/** The living processes whose command line holds the text. */
export function processesWith(text: string): number[] {
  return allProcesses()
    .filter((entry) => entry.alive && entry.pid !== process.pid && commandLine(entry.pid).includes(text))
    .map((entry) => entry.pid);
}

function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

/** Waits until it holds; false if it does not within `limit` milliseconds. */
export async function within(limit: number, condition: () => boolean): Promise<boolean> {
  const end = performance.now() + limit;
  while (performance.now() < end) {
    if (condition()) return true;
    await sleep(10);
  }
  return condition();
}

/** Milliseconds until the promise is fulfilled. */
export async function milliseconds(promise: Promise<unknown>, since: number): Promise<number> {
  await promise;
  return performance.now() - since;
}

/** Ends what a failed test left. */
export function killLeftovers(text: string): void {
  for (const pid of processesWith(text)) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // it ended meanwhile
    }
  }
}
