import { killAll } from "../../lib/agent/command/run.ts";

const SIGNALS = { SIGTERM: 15, SIGINT: 2, SIGHUP: 1, SIGQUIT: 3 } as const;
type Signal = keyof typeof SIGNALS;

/**
 * Ends the program on any of these signals, once its commands have ended; a second signal ends it at once. Without a handler the
 * default action would end it without its exit hooks, and commands that it has started, which are in process groups of their
 * own, would live on.
 */
export function endOnSignal(): void {
  onSignal((name) => {
    exitOnSignal();
    void killAll(`the program was ended by ${name}`).finally(() => process.exit(128 + SIGNALS[name]));
  });
}

/** Resolves at the first signal; a second one ends the program at once, and the groups of its commands with it. */
export function firstSignal(): Promise<Signal> {
  return new Promise((resolve) => {
    onSignal((name) => {
      exitOnSignal();
      resolve(name);
    });
  });
}

function exitOnSignal(): void {
  onSignal((name) => process.exit(128 + SIGNALS[name]));
}

/** Calls `act` at the first of the signals, and only then. */
function onSignal(act: (name: Signal) => void): void {
  const first = (name: Signal): void => {
    for (const each of NAMES) process.removeListener(each, first);
    act(name);
  };
  for (const name of NAMES) process.on(name, first);
}

const NAMES: readonly Signal[] = ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"];
