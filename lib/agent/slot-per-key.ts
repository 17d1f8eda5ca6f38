import type { RunOptions } from "./runner.ts";
import { Slot } from "./slot.ts";
import type { Command, CommandResult } from "./types.ts";

/**
 * Slots of the commands that a probe runs once a container: one child a key, and no more than `mostOverdue` children in all
 * that outlived their deadline. With a docker that hangs, a thousand containers would else leave a thousand children.
 */
export class SlotPerKey {
  readonly #slots = new Map<string, Slot>();
  readonly #mostOverdue: number;

  constructor(mostOverdue = 16) {
    this.#mostOverdue = mostOverdue;
  }

  /** Runs the command in the slot of that key. As `runCommand`, it throws for a command without finite limits. */
  run(key: string, command: Command, options: RunOptions = {}): Promise<CommandResult> {
    this.#forgetFree();
    const slot = this.#slots.get(key) ?? new Slot();
    const overdue = [...this.#slots.values()].filter((other) => other.overdue).length;
    if (!slot.busy && overdue >= this.#mostOverdue) {
      const detail = `${overdue} earlier ${command.argv[0]} have not gone yet`;
      return Promise.resolve({ kind: "skipped_in_flight", seconds: 0, detail });
    }
    const result = slot.run(command, options);
    this.#slots.set(key, slot);
    return result;
  }

  /** How many children are there although they were killed. */
  get stuck(): number {
    return [...this.#slots.values()].reduce((sum, slot) => sum + slot.stuck, 0);
  }

  /** Containers come and go: keys are kept only while they have a child. */
  #forgetFree(): void {
    for (const [key, slot] of this.#slots) if (!slot.busy) this.#slots.delete(key);
  }
}
