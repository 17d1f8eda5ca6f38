import { execFileSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { PushAccount } from "../../../lib/agent/metrics/self.ts";
import { CircuitBreaker, backOff } from "../../../lib/agent/publisher.ts";
import { ErrorLog } from "../../../lib/agent/push-errors.ts";
import { PublishQueue } from "../../../lib/agent/push-queue.ts";
import { authorizationOf } from "../../../lib/agent/gateway-secrets.ts";
import { type Outcome, place, removeUntil } from "../../../lib/agent/own-groups.ts";
import { FakeClock, keptLog } from "../../support/agent-parts.ts";

const outcome = (result: Outcome["result"], more: Partial<Outcome> = {}): Outcome => ({
  result,
  seconds: 0.1,
  ofGroup: false,
  message: result === "ok" ? "" : `it was ${result}`,
  ...more,
});
const refusal = outcome("refused", { status: 400, ofGroup: true });

describe("what is sent next", () => {
  let data: Set<string>;
  let queue: PublishQueue;
  beforeEach(() => {
    data = new Set(["a", "b", "c"]);
    queue = new PublishQueue(["a", "b", "c"], (group) => data.has(group), 30);
  });

  const send = (now: number): string | undefined => {
    const next = queue.take(now);
    if (next !== undefined) queue.taken(next.group, next.whole, now);
    return next?.group;
  };
  const sendAll = (now: number): string[] => {
    const sent: string[] = [];
    for (let next = send(now); next !== undefined; next = send(now)) sent.push(next);
    return sent;
  };

  test("what changed, in the order in which it did; marking it again does not put it off", () => {
    sendAll(0);
    queue.mark(["b"]);
    queue.mark(["a", "unknown"]);
    queue.mark(["b"]);
    expect(queue.pending()).toBe(2);
    expect(sendAll(1)).toEqual(["b", "a"]);
    expect(queue.pending()).toBe(0);
  });

  test("a group whose data are gone before all others", () => {
    sendAll(0);
    queue.mark(["a", "b", "c"]);
    data.delete("c");
    expect(sendAll(1)).toEqual(["c", "a", "b"]);
    queue.mark(["a", "c"]);
    expect(sendAll(2)).toEqual(["a", "c"]);
  });

  test("every group again when the interval is over, though nothing changed", () => {
    expect(sendAll(0)).toEqual(["a", "b", "c"]);
    queue.mark(["b"]);
    expect(sendAll(20)).toEqual(["b"]);
    expect(sendAll(29.9)).toEqual([]);
    expect(sendAll(30)).toEqual(["a", "c"]);
    expect(sendAll(50)).toEqual(["b"]);
  });

  test("never a group that is on its way; marked meanwhile it comes again", () => {
    queue.mark(["a"]);
    const first = queue.take(0);
    queue.mark(["a"]);
    expect(queue.take(0)?.group).toBe("b");
    expect(queue.take(0)?.group).toBe("c");
    expect(queue.take(0)).toBeUndefined();
    queue.taken(first!.group, true, 0);
    expect(queue.take(0)?.group).toBe("a");
  });

  test("what failed is still to be sent, and data that may have got there are taken back first", () => {
    sendAll(0);
    data.delete("b");
    queue.mark(["a", "b"]);
    expect(sendAll(1)).toEqual(["b", "a"]);
    data.add("b");
    queue.mark(["b"]);
    queue.failed(queue.take(2)!.group);
    expect(queue.pending()).toBe(1);
    data.delete("b");
    queue.mark(["a"]);
    expect(sendAll(3)).toEqual(["b", "a"]);
  });

  test("refused data wait; the account of the probe does not", () => {
    sendAll(0);
    queue.mark(["a"]);
    expect(queue.take(1)).toEqual({ group: "a", whole: true });
    queue.refused("a", 1, (refusals) => 10 * refusals);
    expect(queue.pending()).toBe(1);
    expect(queue.take(2)).toBeUndefined();
    queue.mark(["a"]);
    expect(queue.take(3)).toEqual({ group: "a", whole: false });
    queue.taken("a", false, 3);
    expect(queue.take(10.9)).toBeUndefined();
    expect(queue.take(11)).toEqual({ group: "a", whole: true });
    queue.refused("a", 11, (refusals) => 10 * refusals);
    expect(queue.take(30.9)?.group).not.toBe("a");
    expect(queue.take(31)).toMatchObject({ whole: true });
  });

  test("whatever happens, nothing is lost: in the end the gateway has every group's newest values", () => {
    const groups = ["a", "b", "c"];
    const step = fc.record({
      group: fc.constantFrom(...groups),
      does: fc.constantFrom("change", "lose", "take", "ok", "fail", "refuse"),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const truth = new Map(groups.map((group) => [group, { version: 0, data: true }]));
        const gateway = new Map<string, { version: number; data: boolean }>();
        const flying = new Map<string, { whole: boolean; version: number; data: boolean }>();
        const own = new PublishQueue(groups, (group) => truth.get(group)!.data, 30);
        let now = 0;
        own.markAll();
        const take = (): string | undefined => {
          const next = own.take(now);
          if (next === undefined) return undefined;
          expect(flying.has(next.group)).toBe(false);
          const { version, data: has } = truth.get(next.group)!;
          flying.set(next.group, { whole: next.whole, version, data: has && next.whole });
          return next.group;
        };
        const arrive = (group: string, how: string): void => {
          const sent = flying.get(group);
          if (sent === undefined) return;
          flying.delete(group);
          if (how === "refuse") own.refused(group, now, () => 5);
          if (how === "fail") own.failed(group);
          if (how === "refuse") gateway.set(group, { version: -1, data: false });
          if (how !== "ok") return;
          gateway.set(group, { version: sent.whole || !truth.get(group)!.data ? sent.version : -1, data: sent.data });
          own.taken(group, sent.whole, now);
        };
        for (const { group, does } of steps) {
          now += 1;
          if (does === "change" || does === "lose") {
            truth.set(group, { version: truth.get(group)!.version + 1, data: does === "change" });
            own.mark([group]);
          } else if (does === "take") take();
          else arrive(group, does);
        }
        for (const group of groups) arrive(group, "ok");
        for (let turns = 0; turns < 10; turns++) {
          now += 10;
          for (let group = take(); group !== undefined; group = take()) arrive(group, "ok");
        }
        expect(own.pending()).toBe(0);
        for (const group of groups) expect(gateway.get(group)).toEqual(truth.get(group));
      }),
      { numRuns: 300 },
    );
  });
});

describe("a gateway that is down", () => {
  test("is asked after up to 1, 2, 4 ... 60 s, never at once", () => {
    const almostOne = () => 0.999_999;
    expect([1, 2, 3, 4, 7, 50, 5_000].map((failures) => Math.round(backOff(failures, almostOne)))).toEqual([
      1, 2, 4, 8, 60, 60, 60,
    ]);
    expect(backOff(9, () => 0)).toBe(0.1);
    expect(backOff(4, () => 0.5)).toBe(4);
  });

  test("several requests that fail together are one failure", () => {
    const outage = new CircuitBreaker(() => 0.5);
    for (let sent = 0; sent < 3; sent++) outage.failed(0, 10);
    expect(outage.round).toBe(1);
    expect([outage.mayAsk(10.4), outage.mayAsk(10.5)]).toEqual([false, true]);
    outage.failed(1, 11);
    expect([outage.round, outage.mayAsk(11.9), outage.mayAsk(12)]).toEqual([2, false, true]);
    expect([outage.works(), outage.works()]).toEqual([true, false]);
    expect([outage.round, outage.mayAsk(12)]).toEqual([0, true]);
  });

  test("is told of once, and again when it is something else", () => {
    const log = keptLog();
    const troubles = new ErrorLog(log);
    const clash = (value: number, name: string) => ({
      ...refusal,
      message: `answered 400 (2 error(s) occurred:\n* collected metric "${name}" { gauge:<value:${value} > } is not a COUNTER)`,
    });
    const flipped = { ...refusal, message: "answered 400 (collected metric x counter:{value:1} is not a GAUGE" };
    troubles.met({ group: "a" }, clash(1, "x"));
    troubles.met({ group: "a" }, clash(2.5, "x"));
    troubles.met({ group: "a" }, flipped);
    troubles.met({ group: "b" }, clash(3, "x"));
    troubles.met({}, outcome("timeout"));
    troubles.met({}, outcome("timeout"));
    troubles.met({}, outcome("failed"));
    troubles.met({}, outcome("timeout"));
    troubles.met({ group: "a" }, clash(4, "y"));
    troubles.met({ group: "a" }, clash(5, "x"));
    troubles.over({ group: "a" });
    troubles.over({ group: "a" });
    troubles.over({});
    const said = log.said.map(({ level, fields }) => {
      const { group, result, reason } = { group: "", result: "", reason: "", ...fields };
      return [level, group, result, /metric "?(\w)/.exec(reason)?.[1] ?? reason];
    });
    expect(said).toEqual([
      ["warn", "a", "refused", "x"],
      ["warn", "b", "refused", "x"],
      ["warn", "", "timeout", "it was timeout"],
      ["warn", "", "failed", "it was failed"],
      ["warn", "a", "refused", "y"],
      ["info", "a", "", ""],
      ["info", "", "", ""],
    ]);
    const many = keptLog();
    const flood = new ErrorLog(many);
    for (let each = 0; each < 100; each++) flood.met({}, outcome("failed", { message: "x".repeat(each) }));
    expect(many.said).toHaveLength(5);
  });
});

describe("one group", () => {
  /** A gateway that answers one after the other, and keeps what it was told. */
  const gateway = (...answers: readonly Outcome[]) => {
    const told: string[] = [];
    const next = (what: string) => {
      told.push(what);
      return Promise.resolve(answers[told.length - 1] ?? outcome("ok"));
    };
    const groups = { put: (_: string, text: string) => next(`put ${text}`), remove: () => next("delete") };
    const account = new PushAccount();
    const options = {
      groups,
      read: () => ({ text: "data and account", account: "account" }),
      account,
      wallClock: () => 1,
    };
    return { told, options, account };
  };

  test.each([
    ["taken", true, [], ["put data and account"], "ok", false],
    ["its account alone", false, [], ["put account"], "ok", false],
    ["refused: its account", true, [refusal], ["put data and account", "put account"], "refused", true],
    [
      "refused with its account, too: deleted",
      true,
      [refusal, refusal],
      ["put data and account", "put account", "delete"],
      "refused",
      true,
    ],
    ["its account refused: deleted", false, [refusal], ["put account", "delete"], "refused", true],
    [
      "refused, and then the gateway is gone",
      true,
      [refusal, outcome("failed")],
      ["put data and account", "put account"],
      "failed",
      false,
    ],
    [
      "not even to be deleted",
      false,
      [refusal, outcome("refused", { status: 403 })],
      ["put account", "delete"],
      "refused",
      false,
    ],
    ["the gateway is slow", true, [outcome("timeout")], ["put data and account"], "timeout", false],
    ["not allowed", true, [outcome("refused", { status: 401 })], ["put data and account"], "refused", false],
  ] as const)("%s", async (_, whole, answers, expected, result, off) => {
    const { told, options } = gateway(...answers);
    const placed = await place("a", whole, options);
    expect(told).toEqual(expected);
    expect([placed.outcome.result, placed.off]).toEqual([result, off]);
    expect(placed.off || !placed.outcome.ofGroup).toBe(true);
  });

  test("that cannot be put together is a failure, and nothing is sent", async () => {
    const { told, options } = gateway();
    const read = () => {
      throw new Error("no text");
    };
    const placed = await place("a", true, { ...options, read });
    expect(placed).toMatchObject({ outcome: { result: "failed", ofGroup: false }, off: false });
    expect(told).toEqual([]);
  });
});

describe("at the end", () => {
  test("all groups are removed, a second try included, and what is left is named", async () => {
    const clock = new FakeClock();
    const tries: string[] = [];
    const remove = (probe: string) => {
      tries.push(probe);
      const fails = probe === "never" || (probe === "once" && tries.filter((name) => name === probe).length === 1);
      return Promise.resolve(outcome(fails ? "failed" : "ok"));
    };
    const left = await removeUntil(5, ["a", "once", "never"], { remove }, clock);
    expect([...left]).toEqual([["never", "it was failed"]]);
    expect(tries).toEqual(["a", "once", "never", "once", "never"]);
  });

  test("no longer than there is time", async () => {
    const clock = new FakeClock();
    const probes = Array.from({ length: 12 }, (_, index) => `p${index}`);
    const remove = async (_: string, deadline = 0) => {
      await clock.sleep(Math.min(3, deadline), new AbortController().signal);
      return outcome("timeout");
    };
    const removal = removeUntil(5, probes, { remove }, clock);
    await clock.pass(5);
    const left = await removal;
    expect(left.size).toBe(12);
    expect([...left.values()].filter((why) => why === "there was no time left").length).toBe(4);
  });
});

describe("secrets", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "gridmeter-secrets-"));
  });
  afterAll(() => rmSync(folder, { recursive: true }));
  const file = (text: string): string => {
    const path = join(folder, "secret");
    writeFileSync(path, text);
    return path;
  };

  test("are read again each time", async () => {
    const bearer = authorizationOf({ bearerTokenFile: file("one\n") });
    expect(await bearer()).toBe("Bearer one");
    file("two\r\n");
    expect(await bearer()).toBe("Bearer two");
    const basic = authorizationOf({ username: "käthe", passwordFile: file(" pass:wörd ") });
    expect(await basic()).toBe(`Basic ${Buffer.from("käthe: pass:wörd ").toString("base64")}`);
    expect(await authorizationOf({ username: "a" })()).toBe(`Basic ${Buffer.from("a:").toString("base64")}`);
    expect(await authorizationOf({})()).toBeUndefined();
  });

  test.each([
    ["", "is empty"],
    ["\n", "is empty"],
    ["two\nlines", "holds a line break"],
  ])("%j is no secret, and is not shown", async (text, why) => {
    const thrown = await authorizationOf({ bearerTokenFile: file(text) })().catch((error: unknown) => error);
    expect(thrown).toMatchObject({ code: "config_invalid" });
    expect(String(thrown)).toContain(why);
    expect(String(thrown)).not.toContain("lines\n");
  });

  test("in a file that hangs take one thread, however often they are asked for", async () => {
    const path = join(folder, "pipe");
    execFileSync("mkfifo", [path]);
    const bearer = authorizationOf({ bearerTokenFile: path });
    // Who reads a pipe waits for somebody who writes. Node has four threads for files.
    const asked = Array.from({ length: 8 }, () => bearer());
    const others = stat(folder).then(() => "answered");
    const late = new Promise((resolve) => setTimeout(resolve, 5_000, "no thread is left"));
    try {
      expect(await Promise.race([others, late])).toBe("answered");
    } finally {
      // Opened for both, a pipe makes nobody wait.
      const pipe = openSync(path, "r+");
      writeSync(pipe, "secret\n");
      closeSync(pipe);
    }
    expect(new Set(await Promise.all(asked))).toEqual(new Set(["Bearer secret"]));
  });

  test("in a file that is not there are an error that names it", async () => {
    const path = join(folder, "nowhere");
    await expect(authorizationOf({ bearerTokenFile: path })()).rejects.toThrow(`"${path}"`);
  });
});
