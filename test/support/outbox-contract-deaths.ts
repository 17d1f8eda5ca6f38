import fsp from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import type { ObjectStore } from "../../lib/accounting/store/store.ts";
import type { Unit } from "../../lib/accounting/model/tenant.ts";
import { lockText, ownIdentity } from "../../lib/accounting/delivery/lock.ts";
import { Random } from "../simulator/index.ts";
import { logOf, queueViolations, spoolingViolations } from "./dirq-invariants.ts";
import type { Sent } from "./dirq-invariants.ts";
import { generationOf, unit } from "./dirq-messages.ts";
import { mortalFiles, untilStep } from "./outbox-contract-life.ts";
import { filesIn, published } from "./outbox-contract.ts";
import type { OutboxKind, Way } from "./outbox-contract.ts";
import { scratchDirectory } from "./store-script.ts";

/** Deaths of one unit: few, so that a loss is seen where nothing newer hides it. */
const DEATHS_A_UNIT = 4;

/**
 * A run and what sends its messages on, dead right after one of its steps and then run again: after every single step, or
 * after so many of them at random.
 */
export function outboxDeaths(kind: OutboxKind, deaths: "every" | number): void {
  const seed = `deaths of ${kind.name}`;
  const which = deaths === "every" ? "every single step" : `${deaths} steps at random (seed "${seed}")`;
  test(`${kind.name}: killed after ${which} and run again, nothing is lost, nothing older comes after newer`, async () => {
    const scratch = await scratchDirectory();
    const subject = await kind.open(scratch.path);
    const sent: Sent[] = [];
    const together: string[] = [];
    const random = new Random(seed);
    let killed = 0;

    async function runAgain(way: Way, units: readonly Unit[]): Promise<void> {
      for (const each of units) await published(way, each);
      await way.send();
    }

    /** Whether it came to its last step at all. */
    async function dieAfter(step: number): Promise<boolean> {
      const own: Unit = { ...unit, submitHost: `host-${Math.floor(killed / DEATHS_A_UNIT)}` };
      const { died } = await untilStep(step, () => runAgain(subject.one, [own]));
      together.push(...queueViolations(await bodiesIn(subject.root), generationOf));
      await bury(subject.root, subject.two.store);
      // ssmsend and the next run come in every order, so that a death meets what was sent and what was not.
      if (killed % 3 === 0) sent.push(...(await kind.take(subject.root)));
      await runAgain(subject.two, killed % 2 === 0 ? [own] : []);
      if (killed % 3 === 1) sent.push(...(await kind.take(subject.root)));
      if (died) killed += 1;
      return died;
    }

    try {
      mortalFiles();
      const { steps } = await untilStep(Infinity, () => runAgain(subject.one, [{ ...unit, submitHost: "whole" }]));
      expect(steps).toBeGreaterThan(30);
      if (deaths === "every") for (let step = 1; await dieAfter(step); step += 1);
      else while (killed < deaths) await dieAfter(random.int(1, steps));
      // Of a unit's first run there are a few more: it makes the directories.
      expect(killed).toBeGreaterThanOrEqual(deaths === "every" ? 30 : deaths);
      // Whoever comes to the queue next clears away what the last one left there.
      await runAgain(subject.two, [{ ...unit, submitHost: "last" }]);
      sent.push(...(await kind.take(subject.root)));
      const months = [unit.month];
      expect(together).toEqual([]);
      expect(spoolingViolations(await logOf(subject.two.store, sent, months))).toEqual([]);
      expect(await subject.two.store.list("outgoing/")).toEqual([]);
      expect(await leftOver(subject.root)).toEqual([]);
    } finally {
      vi.restoreAllMocks();
      await subject.close();
      await scratch.remove();
    }
  }, 180_000);
}

/** The messages in a queue of any kind, locked ones too. */
async function bodiesIn(root: string): Promise<readonly string[]> {
  const files = (await filesIn(root)).filter((name) => /[/][0-9a-f]{14}$/.test(name));
  return Promise.all(files.map((name) => fsp.readFile(name, "utf8")));
}

/** What a process left that is dead: its locks and leases are those of a process that runs no more. */
async function bury(root: string, store: ObjectStore): Promise<void> {
  for (const key of await store.list("lease/")) {
    const { body } = (await store.get(key))!;
    await store.put(key, body.replace(/"started":"[^"]*"/, '"started":"1"'));
  }
  const folder = join(root, ".gridmeter");
  for (const name of await fsp.readdir(folder).catch(() => [])) {
    // In place: locks on messages are further names of the same file.
    if (name.startsWith("lock-")) await fsp.writeFile(join(folder, name), lockText({ ...ownIdentity(), started: "1" }));
  }
}

/** Locks and messages that nobody would clear away; half-written files go after a while. */
async function leftOver(root: string): Promise<readonly string[]> {
  const own = await fsp.readdir(join(root, ".gridmeter")).catch(() => []);
  return [...(await filesIn(root)), ...own].filter((name) => !/\.tmp$|^new-|^[0-9a-f]{14}$/.test(name));
}
