import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { DirqQueue } from "../../../../lib/accounting/delivery/dirq.ts";
import { PlainDirectoryQueue } from "../../../../lib/accounting/delivery/plain-queue.ts";
import type { MessageQueue } from "../../../../lib/accounting/delivery/queue.ts";
import { sendQueue } from "../../../../lib/accounting/sending/queue-sender.ts";
import { amsSender, startAmsSite } from "../../../support/ams-sender.ts";
import { generationMessages, summaryBody, unit } from "../../../support/dirq-messages.ts";
import { dirqTool } from "../../../support/dirq-tool.ts";
import { verified } from "../../../support/smime.ts";

const site = await startAmsSite("rsa");
const { folder, authority, host, ams } = site;
afterAll(() => site.stop());
let root: string;
let first: number;
let made = 0;
beforeEach(() => {
  ams.misbehave(() => undefined);
  root = join(folder, `queue-${(made += 1)}`);
  mkdirSync(root);
  first = ams.published.length;
});

const taken = () => ams.published.slice(first).map(({ signed }) => verified(signed, authority.caFile, "cms"));
const put = async (queue: MessageQueue, ...bodies: readonly string[]): Promise<readonly string[]> => {
  const result = await queue.exclusively((open) => open.replace([], bodies));
  if (result === "taken" || result.status !== "added") throw new Error("not added");
  return result.names;
};
const left = async () => z.array(z.string()).parse(await dirqTool("read", root));

async function send(queue: MessageQueue, options: Parameters<typeof amsSender>[3] = {}) {
  const { sender, client } = amsSender(ams, authority, host, options);
  const steps: string[] = [];
  const report = await sendQueue(queue, sender, { progress: (done, total) => steps.push(`${done}/${total}`) });
  client.close();
  const status = (name: string) => report.messages.find(({ message }) => message === name)?.status;
  return { ...report, status, steps, statuses: report.messages.map(({ status }) => status) };
}

test("what is in a dirq is sent in its order, byte for byte and under its own names, and is gone then", async () => {
  const queue = new DirqQueue(root);
  const bodies = [...generationMessages(unit, 1), ...generationMessages({ ...unit, month: "2024-12" }, 1)].map(
    ({ body }) => body,
  );
  const names = await put(queue, ...bodies);
  const { messages, errors, steps } = await send(queue);
  expect(errors).toEqual([]);
  expect(taken()).toEqual(bodies);
  expect(ams.published.slice(first).map(({ empaid }) => empaid)).toEqual(names);
  expect(messages.map(({ message, status, kind, units, amsId }) => [message, status, kind, units, amsId])).toEqual(
    names.map((name, index) => [
      name,
      "sent",
      index % 2 === 0 ? "summary" : "sync",
      [`Some-Site k8s.example.org:6443/grid ${index < 2 ? "2025-01" : "2024-12"}`],
      String(first + index + 1),
    ]),
  );
  expect(messages.every(({ bytes = 0, signedBytes = 0 }) => signedBytes > bytes && bytes > 50)).toBe(true);
  expect(steps).toEqual(["1/4", "2/4", "3/4", "4/4"]);
  expect(await left()).toEqual([]);
  expect(await send(queue)).toMatchObject({ messages: [], errors: [] });
});

test("a plain directory is sent, oldest first", async () => {
  writeFileSync(join(root, "b"), summaryBody(unit, 1));
  writeFileSync(join(root, "a"), summaryBody(unit, 2));
  utimesSync(join(root, "b"), 1000, 1000);
  utimesSync(join(root, "a"), 2000, 2000);
  const { statuses, errors } = await send(new PlainDirectoryQueue(root));
  expect([statuses, errors]).toEqual([["sent", "sent"], []]);
  expect(taken()).toEqual([summaryBody(unit, 1), summaryBody(unit, 2)]);
  expect(readdirSync(root)).toEqual([".gridmeter"]);
});

test("two messages of one unit that are equally old are left, with an error; the rest is sent", async () => {
  const bodies = { a: summaryBody(unit, 1), b: summaryBody(unit, 2), c: summaryBody({ ...unit, month: "2024-12" }, 1) };
  for (const [name, body] of Object.entries(bodies)) {
    writeFileSync(join(root, name), body);
    utimesSync(join(root, name), 1000, 1000);
  }
  const { status, errors } = await send(new PlainDirectoryQueue(root));
  expect([status("a"), status("b"), status("c")]).toEqual(["waiting", "waiting", "sent"]);
  expect(errors).toMatchObject([{ code: "message_invalid" }, { code: "message_invalid" }]);
  expect(String(errors[0])).toMatch(
    /a was not sent and is left where it is: b holds other figures of the same APEL keys/,
  );
  expect(readFileSync(join(root, "a"), "utf8") + readFileSync(join(root, "b"), "utf8")).toBe(bodies.a + bodies.b);
});

describe("a message that is of no use is set aside with the reason, and the rest goes on", () => {
  const bad: readonly [string, string | Buffer, RegExp][] = [
    ["not ASCII", summaryBody(unit, 1).replace("VO: atlas", "VO: atlasé"), /line \d+ holds a byte that is not ASCII/],
    ["not ASCII at all", Buffer.from([0xff, 0xfe, 0x00]), /line 1 holds a byte that is not ASCII/],
    ["none of APEL's", "hello\n", /breaks APEL's rules/],
    ["empty", "", /breaks APEL's rules/],
    ["too large", `${summaryBody(unit, 1)}${"x: y\n".repeat(110_000)}`, /more than 500000/],
  ];
  test.each(bad)("%s", async (_, body, reason) => {
    const queue = new DirqQueue(root);
    const other = summaryBody({ ...unit, month: "2024-12" }, 1);
    const [name = ""] = await put(queue, "x", other);
    writeFileSync(join(root, name), body);
    const { messages, errors, status } = await send(queue);
    expect(status(name)).toBe("refused");
    expect(taken()).toEqual([other]);
    expect(errors).toMatchObject([
      { code: "message_invalid", message: expect.stringContaining(`${name} was not sent`) as string },
    ]);
    const [, path = ""] = /It is in (\S+)$/.exec(messages[0]?.reason ?? "") ?? [];
    expect(readFileSync(path)).toEqual(Buffer.from(body));
    expect(readFileSync(`${path}.reason`, "utf8")).toMatch(reason);
    expect(await left()).toEqual([]);
  });

  test("one that AMS finds too large", async () => {
    const queue = new DirqQueue(root);
    const [name = ""] = await put(queue, summaryBody(unit, 1), summaryBody({ ...unit, month: "2024-12" }, 1));
    let asked = 0;
    ams.misbehave(({ what }) =>
      what === "publish" && (asked += 1) === 1 ? { kind: "status", status: 413 } : undefined,
    );
    const { status, statuses } = await send(queue);
    expect([status(name), statuses]).toEqual(["refused", ["refused", "sent"]]);
  });
});

test("AMS that fails ends it: nothing is lost, and nothing newer goes before", async () => {
  const queue = new DirqQueue(root);
  const bodies = [summaryBody(unit, 1), summaryBody(unit, 2), summaryBody({ ...unit, month: "2024-12" }, 1)];
  await put(queue, ...bodies);
  ams.misbehave(({ what }) => (what === "publish" ? { kind: "status", status: 503 } : undefined));
  const down = await send(queue);
  expect(down.statuses).toEqual(["waiting", "waiting", "waiting"]);
  expect(down.errors).toMatchObject([{ code: "ams_unavailable" }]);
  expect(await left()).toEqual(bodies);
  ams.misbehave(() => undefined);
  expect((await send(queue)).statuses).toEqual(["sent", "sent", "sent"]);
  expect(taken()).toEqual(bodies);
});

test("ssmsend's lock is kept: its message waits, later ones of the same keys wait for it, others go", async () => {
  const queue = new DirqQueue(root);
  const other = summaryBody({ ...unit, month: "2024-12" }, 1);
  const [one = "", two = "", three = ""] = await put(queue, summaryBody(unit, 1), summaryBody(unit, 2), other);
  await dirqTool("lock", root, one);
  const { status, messages, errors } = await send(queue);
  expect([status(one), status(two), status(three), errors]).toEqual(["waiting", "waiting", "sent", []]);
  expect(messages.map(({ reason }) => reason)).toEqual([
    expect.stringContaining("ssmsend holds it"),
    `${one} is to go first, and it waits`,
    undefined,
  ]);
  expect(existsSync(join(root, `${one}.lck`))).toBe(true);
  expect(taken()).toEqual([other]);
});

test("while a message is being sent, ssmsend cannot take it, and another gridmeter waits for its turn", async () => {
  const queue = new DirqQueue(root);
  const [name = ""] = await put(queue, summaryBody(unit, 1));
  let locks: readonly string[] = [];
  let other: unknown;
  ams.misbehave(async ({ what }) => {
    if (what !== "publish") return undefined;
    locks = readdirSync(join(root, name.split("/")[0] ?? ""));
    other = await new DirqQueue(root, 50).exclusively(async () => "in");
    return undefined;
  });
  expect((await send(queue)).statuses).toEqual(["sent"]);
  expect(locks).toContain(`${name.split("/")[1]}.lck`);
  expect(other).toBe("taken");
  expect(await left()).toEqual([]);
});

test("what is replaced meanwhile is not sent; what is put there meanwhile is", async () => {
  const queue = new DirqQueue(root);
  const early = summaryBody({ ...unit, month: "2024-12" }, 1);
  const [, older = ""] = await put(queue, early, summaryBody(unit, 1));
  let done = false;
  const { sender, client } = amsSender(ams, authority, host);
  const report = await sendQueue(queue, sender, {
    progress: () => {
      if (done) return;
      done = true;
      // Another process, between two messages.
      const [directory = "", file = ""] = older.split("/");
      rmSync(join(root, directory, file));
      execFileSync("/usr/bin/python3", [
        "-c",
        "import sys, dirq.QueueSimple as q; q.QueueSimple(sys.argv[1]).add(sys.argv[2])",
        root,
        summaryBody(unit, 2),
      ]);
    },
  });
  client.close();
  expect(report.messages.map(({ status }) => status)).toEqual(["sent", "sent"]);
  expect(taken()).toEqual([early, summaryBody(unit, 2)]);
});

test("a dry run signs, sends nothing, and leaves all where it is", async () => {
  const queue = new DirqQueue(root);
  const bodies = [summaryBody(unit, 1), "hello\n"];
  await put(queue, ...bodies);
  const { statuses, messages } = await send(queue, { dryRun: true });
  expect(statuses).toEqual(["would_send", "refused"]);
  expect(messages[0]?.signedBytes).toBeGreaterThan(1000);
  expect([taken(), await left()]).toEqual([[], bodies]);
});
