import { describe, expect, test } from "vitest";
import { FairOrder } from "../../../../lib/agent/probes/common/per-container.ts";
import { ParseError } from "../../../../lib/agent/probes/common/parse.ts";
import { conduct, readResult } from "../../../../lib/agent/probes/common/probe.ts";
import { printed } from "../../../support/probe-fixtures.ts";

describe("the order of containers", () => {
  const set = (...ids: string[]) => new Set(ids);
  const ids = ["a", "b", "c", "d"];

  test("gives those without a turn the next one, and those that failed the last", () => {
    const order = new FairOrder();
    expect(order.arrange(ids)).toStrictEqual(ids);
    order.remember(ids, set("a", "b", "c"), set("a", "d"));
    expect(order.arrange([...ids, "e"])).toStrictEqual(["d", "e", "b", "c", "a"]);
    order.remember(ids, set("a", "b", "c", "d"), set());
    expect(order.arrange(ids)).toStrictEqual(ids);
  });

  test("forgets containers that have gone", () => {
    const order = new FairOrder();
    order.remember(ids, set(...ids), set("a"));
    order.remember(["b"], set("b"), set());
    expect(order.arrange(["b", "a"])).toStrictEqual(["a", "b"]);
  });

  /** Has 20 containers read, of which the even ones hang; a run has 6 s, a healthy one takes 1 and one that hangs `slow`. */
  const simulate = (runs: number, slow: number) => {
    const order = new FairOrder();
    const all = Array.from({ length: 20 }, (_, number) => String(number));
    const hangs = (id: string) => Number(id) % 2 === 0;
    const turns = new Map(all.map((id) => [id, 0]));
    for (let run = 0; run < runs; run += 1) {
      const begun = new Set<string>();
      let seconds = 0;
      for (const id of order.arrange(all)) {
        if (seconds >= 6) break;
        begun.add(id);
        seconds += hangs(id) ? slow : 1;
        turns.set(id, (turns.get(id) ?? 0) + 1);
      }
      order.remember(all, begun, new Set([...begun].filter(hangs)));
    }
    return { healthy: [...turns].filter(([id]) => !hangs(id)), hung: [...turns].filter(([id]) => hangs(id)) };
  };

  test("lets every container have a turn now and then, however many hang", () => {
    const { healthy, hung } = simulate(100, 3);
    expect(healthy.filter(([, turns]) => turns < 20)).toStrictEqual([]);
    expect(hung.filter(([, turns]) => turns < 4)).toStrictEqual([]);
  });
});

describe("the result of a command", () => {
  const refuse = () => {
    throw new ParseError("nothing there");
  };
  const accept = () => ({ value: 1, rejected: 2 });

  test("is what the parser says, whatever the exit code", () => {
    for (const [kind, exitCode] of [["ok", 0] as const, ["exit_nonzero", 14] as const]) {
      const result = { kind, seconds: 1, output: printed("x", exitCode) };
      expect(readResult(result, accept)).toStrictEqual({ kind: "ok", value: 1, rejected: 2, exitCode });
    }
  });

  test("is the exit code where the parser refuses, else a parse error", () => {
    const detail = "nothing there";
    expect(readResult({ kind: "ok", seconds: 1, output: printed("x") }, refuse)).toStrictEqual({
      kind: "parse_error",
      exitCode: 0,
      detail,
    });
    expect(readResult({ kind: "exit_nonzero", seconds: 1, output: printed("x", 3) }, refuse)).toStrictEqual({
      kind: "exit_nonzero",
      exitCode: 3,
      detail,
    });
  });

  test("without an output is its own reason", () => {
    const result = { kind: "output_too_large", seconds: 1, detail: "too much" } as const;
    expect(readResult(result, accept)).toStrictEqual({ kind: "output_too_large", detail: "too much" });
  });
});

describe("a run", () => {
  const success = { kind: "ok", metrics: [], readings: {}, rejected: 0 } as const;

  test("that throws has failed, and rejects nothing", async () => {
    const run = await conduct(1, () => Promise.reject(new Error("a fault")));
    expect(run).toMatchObject({ kind: "parse_error", detail: "the probe failed: a fault", metrics: [], readings: {} });
  });

  test("that never ends is over at its deadline, its command with it", async () => {
    const run = await conduct(0.05, async (one) => {
      await one.read(
        "ps",
        5,
        () => new Promise(() => undefined),
        () => ({ value: 1, rejected: 0 }),
      );
      return success;
    });
    expect(run).toMatchObject({ kind: "timeout", detail: "it had not ended after 0.05 s", metrics: [], readings: {} });
    expect(run.commands).toMatchObject([{ command: "ps", kind: "timeout" }]);
    expect(run.commands[0]?.seconds).toBeGreaterThan(0.05);
  });

  test("gives each command no more than what is left", async () => {
    const given: number[] = [];
    const parse = () => ({ value: 1, rejected: 0 });
    await conduct(0.5, async (one) => {
      const start = async (timeout: number) => {
        given.push(timeout);
        return { kind: "ok", seconds: 0, output: printed("") } as const;
      };
      await one.read("a", 0.1, start, parse);
      await one.read("a", 5, start, parse);
      await new Promise((resolve) => setTimeout(resolve, 495));
      expect(await one.read("a", 5, start, parse)).toStrictEqual({
        kind: "timeout",
        detail: "no time was left to start a",
      });
      return success;
    });
    expect(given).toStrictEqual([0.1, expect.any(Number)]);
    expect(given[1]).toBeLessThan(0.5);
  });
});
