import { join } from "node:path";
import fsp from "node:fs/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Published, openState, publish } from "../../lib/accounting/publishing/publish.ts";
import type { Unit } from "../../lib/accounting/model/tenant.ts";
import type { ObjectStore } from "../../lib/accounting/store/store.ts";
import { checkGeneration, unitPrefix } from "../../lib/accounting/delivery/outgoing.ts";
import { generationMessages, summary, summaryBody, unit, NOW, storeGeneration } from "./dirq-messages.ts";
import type { Sent } from "./dirq-invariants.ts";
import { scratchDirectory } from "./store-script.ts";

/** One way from a run's outgoing messages to ssmsend. Two processes have two of them at the same places. */
export type Way = {
  /** ledger, state and outgoing messages: the port that a run is given */
  readonly store: ObjectStore;
  /** what is done right after publishing: where there is a queue, it is told */
  announce(keys: readonly string[]): Promise<void>;
  /** sends on what is outgoing, as production does */
  send(): Promise<void>;
};

export type OutboxSubject = {
  readonly one: Way;
  readonly two: Way;
  /** ssmsend's queue */
  readonly root: string;
  close(): Promise<void>;
};

export type OutboxKind = {
  readonly name: string;
  open(root: string): Promise<OutboxSubject>;
  /** What ssmsend would send now, in its order, read without gridmeter's code. */
  read(root: string): Promise<readonly Sent[]>;
  /** ssmsend sends all that it may. */
  take(root: string): Promise<readonly Sent[]>;
  /** ssmsend holds all that is there while `work` runs; absent where the queue knows no locks. */
  readonly holding?: (root: string, work: () => Promise<void>) => Promise<void>;
};

const other: Unit = { ...unit, site: "Zzz", month: "2024-12" };
const bodies = (of: Unit, generation: number, vos?: readonly string[]) =>
  generationMessages(of, generation, vos).map(({ body }) => body);

/** Publishes as an accounting run does: reserves a generation, stores its messages, confirms. The figure is the generation. */
export async function published(way: Way, of: Unit, vos: readonly string[] = ["atlas"]): Promise<Published> {
  const stores = { store: way.store, outbox: way.store };
  const held = await openState(stores, of, NOW, () => undefined);
  const generation = held.state.generation + 1;
  const decision: Parameters<typeof publish>[1] = {
    action: "publish",
    why: "changed",
    checked: checkGeneration(of, generationMessages(of, generation, vos), NOW),
    publication: {
      at: NOW,
      hash: String(generation),
      records: vos.map((vo) => summary(of, generation, vo)),
      sync: generation,
      figures: [],
      individual: {},
    },
  };
  const result = await publish(stores, decision, held);
  if (result === undefined) throw new Error(`another one publishes ${of.month}`);
  await way.announce(result.keys);
  return result;
}

/** Everything that a site relies on between a run and ssmsend. Every outbox passes it. */
export function outboxContract(kind: OutboxKind): void {
  describe(`${kind.name} keeps the outbox's contract`, () => {
    let subject: OutboxSubject;
    let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
    beforeEach(async () => {
      scratch = await scratchDirectory();
      subject = await kind.open(scratch.path);
    });
    afterEach(async () => {
      await subject.close();
      await scratch.remove();
    });

    const read = async () => (await kind.read(subject.root)).map(({ body }) => body);
    const take = async () => (await kind.take(subject.root)).map(({ body }) => body);
    const send = (...units: readonly Unit[]) => sendAll(subject.one, units);
    async function sendAll(way: Way, units: readonly Unit[]): Promise<void> {
      for (const each of units) await published(way, each);
      await way.send();
    }
    const stage = (name: string) => subject.two.store.list(`${name}/`);

    test("nothing published: nothing to send", async () => {
      await send();
      expect(await read()).toEqual([]);
    });

    test("messages come byte for byte, a summary before its sync, and are kept as spooled", async () => {
      await send(unit);
      expect(await read()).toEqual(bodies(unit, 1));
      expect(await stage("outgoing")).toEqual([]);
      expect(await stage("spooled")).toHaveLength(2);
      await subject.two.send();
      expect(await take()).toEqual(bodies(unit, 1));
      await subject.one.send();
      expect(await take()).toEqual([]);
    });

    test("a generation of several files comes whole", async () => {
      const vos = Array.from({ length: 501 }, (_, index) => `vo-${index}`);
      await published(subject.one, unit, vos);
      await subject.one.send();
      expect((await read()).toSorted()).toEqual(bodies(unit, 1, vos).toSorted());
      expect(await read()).toHaveLength(3);
    });

    test("generations come in order: each replaces what is still there, and follows what was sent", async () => {
      await send(unit);
      await send(unit);
      expect(await read()).toEqual(bodies(unit, 2));
      const sent = await take();
      await send(unit);
      expect([...sent, ...(await take())]).toEqual([...bodies(unit, 2), ...bodies(unit, 3)]);
    });

    test("of two generations that wait the newer one is sent alone", async () => {
      await published(subject.one, unit);
      await send(unit);
      expect(await take()).toEqual(bodies(unit, 2));
    });

    test("one with a key that the newer one lacks is sent before it", async () => {
      await published(subject.one, unit, ["atlas", "cms"]);
      await published(subject.one, unit, ["atlas"]);
      await subject.one.send();
      expect(await take()).toEqual(bodies(unit, 1, ["atlas", "cms"]));
      await subject.two.send();
      expect(await take()).toEqual(bodies(unit, 2));
    });

    test("the same publication repeated, before and after it was sent, is one message", async () => {
      const messages = generationMessages(unit, 1);
      const again = async () => subject.one.announce(await storeGeneration(subject.one.store, unit, 1, messages));
      await again();
      await again();
      await subject.one.send();
      await again();
      await subject.two.send();
      expect(await take()).toEqual(bodies(unit, 1));
      await again();
      await subject.two.send();
      expect(await take()).toEqual([]);
    });

    test("an invalid message is refused, and nothing of its generation is published", async () => {
      const [good, sync] = generationMessages(unit, 1);
      const bad = { ...good!, body: good!.body.replace(/^WallDuration: .*$/m, "WallDuration: 1.5") };
      const attempt = storeGeneration(subject.one.store, unit, 1, [sync!, bad]);
      await expect(attempt).rejects.toMatchObject({ code: "message_invalid" });
      await send();
      expect(await read()).toEqual([]);
      expect(await subject.two.store.list("")).toEqual([]);
    });

    test("an object that was changed is refused with its reason, and the rest goes", async () => {
      const { keys } = await published(subject.one, unit);
      await subject.two.store.put(keys[0]!, summaryBody(unit, 9));
      await send(other);
      expect((await read()).toSorted()).toEqual([...bodies(other, 1), bodies(unit, 1)[1]!].toSorted());
      expect(await stage("refused")).toEqual(
        [0, 1].map((n) => keys[0]!.replace("outgoing", "refused") + ["", ".reason"][n]),
      );
    });

    test("a generation that comes after a newer one was sent is never sent", async () => {
      await send(unit);
      await send(unit);
      expect(await take()).toEqual(bodies(unit, 2));
      await subject.one.announce(
        await storeGeneration(subject.one.store, unit, 1, generationMessages(unit, 1, ["atlas", "late"])),
      );
      await subject.one.send();
      expect(await read()).toEqual([]);
      expect(await subject.two.store.list(unitPrefix(unit, "refused"))).not.toEqual([]);
    });

    test("two at once send each message once", async () => {
      await published(subject.one, unit);
      await published(subject.two, other);
      await Promise.all([subject.one.send(), subject.two.send()]);
      await subject.one.send();
      expect((await take()).toSorted()).toEqual([...bodies(unit, 1), ...bodies(other, 1)].toSorted());
    });

    test("files that are no APEL messages stay, KAPEL's file with the same keys is replaced", async () => {
      await send(unit);
      const [file] = await filesIn(subject.root);
      await fsp.writeFile(file!, "hello\n");
      await send(unit);
      expect((await read()).toSorted()).toEqual(["hello\n", ...bodies(unit, 2)].toSorted());
      const files = await filesIn(subject.root);
      for (const each of files) await fsp.writeFile(each, summaryBody(unit, 7));
      await send(unit);
      expect(await read()).toEqual(bodies(unit, 3));
    });

    const { holding } = kind;
    const maybe = holding === undefined ? [] : [holding];
    test.for(maybe)("what ssmsend holds is sent first, and the newer one waits", async (hold) => {
      await send(unit);
      await hold(subject.root, async () => {
        await send(unit, other);
        expect(await read()).toEqual(bodies(other, 1));
        expect(await subject.two.store.list(unitPrefix(unit))).toHaveLength(2);
      });
      await subject.one.send();
      expect((await take()).toSorted()).toEqual([...bodies(other, 1), ...bodies(unit, 2)].toSorted());
    });
  });
}

/** The messages' files in a queue of any kind. */
export async function filesIn(root: string): Promise<readonly string[]> {
  const entries = await fsp.readdir(root, { recursive: true, withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isFile() && !entry.parentPath.includes(".gridmeter"))
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted();
}
