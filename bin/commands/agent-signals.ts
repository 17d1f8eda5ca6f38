const SIGNALS = { SIGTERM: 15, SIGINT: 2, SIGHUP: 1 } as const;
type Signal = keyof typeof SIGNALS;

/**
 * Ends the program at once on any of these signals. Without a handler the default action would end it without its exit hooks,
 * and commands that it has started, which are in process groups of their own, would live on.
 */
export function exitOnSignal(): void {
  for (const [name, number] of Object.entries(SIGNALS)) process.once(name, () => process.exit(128 + number));
}

/** Resolves at the first signal; a second one ends the program at once, and its commands with it. */
export function firstSignal(): Promise<Signal> {
  return new Promise((resolve) => {
    const told = (signal: Signal): void => {
      for (const name of NAMES) process.removeListener(name, told);
      exitOnSignal();
      resolve(signal);
    };
    for (const name of NAMES) process.on(name, told);
  });
}

const NAMES: readonly Signal[] = ["SIGTERM", "SIGINT", "SIGHUP"];
