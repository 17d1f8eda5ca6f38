import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Window } from "../../../../lib/accounting/model/monitoring.ts";
import { inParts, partsByUid } from "../../../../lib/accounting/model/split.ts";
import { GridmeterError } from "../../../../lib/shared/errors.ts";
import { Random } from "../../../simulator/index.ts";

const HOUR = 3600;
const refusal = (code: "prometheus_too_large" | "prometheus_unavailable" = "prometheus_too_large"): GridmeterError =>
  new GridmeterError(code, "Refused. Nothing was published.");

type Pod = { readonly uid: string; readonly exported_uid: string };

/** Whether a pod has all the matchers, judged as Prometheus does: a pattern is for the whole label. */
function matches(pod: Pod, matchers: readonly string[]): boolean {
  return matchers.every((matcher) => {
    const { label, sign, pattern } = /^(?<label>\w+)(?<sign>[=!]~)"(?<pattern>.*)"$/.exec(matcher)!.groups!;
    return new RegExp(`^(?:${pattern!})$`).test(pod[label as keyof Pod]) === (sign === "=~");
  });
}

/** Pods with a uid under either label or none, seen in some hour. */
const pods = fc
  .array(
    fc.record({
      hour: fc.nat(99),
      at: fc.nat(2),
      uid: fc.oneof(fc.uuid(), fc.stringMatching(/^[0-9a-f]{0,32}$/), fc.constant("static")),
    }),
  )
  .map((drawn) =>
    drawn.map(({ hour, at, uid }) => ({ hour, uid: at === 0 ? uid : "", exported_uid: at === 1 ? uid : "" })),
  );

describe("in parts", () => {
  test("all is found, whatever the server refuses by size and now and then by chance", async () => {
    const drawn = fc.record({
      pods,
      hours: fc.integer({ min: 1, max: 100 }),
      /** the server counts pods, and a little for each hour */
      limit: fc.integer({ min: 4, max: 60 }),
      chance: fc.constantFrom(0, 0, 2, 5),
      seed: fc.nat(),
    });
    await fc.assert(
      fc.asyncProperty(drawn, async ({ pods: all, hours, limit, chance, seed }) => {
        const random = new Random(seed);
        const window = { from: 7, to: 7 + hours * HOUR - 5 };
        let queries = 0;
        const ask = async ({ from, to }: Window, uids: readonly string[]) => {
          queries += 1;
          const found = all.filter((pod) => {
            const at = 7 + pod.hour * HOUR;
            return at >= from && at < to && matches(pod, uids);
          });
          const size = new Set(found.map(({ uid, exported_uid }) => uid.slice(0, 2) + exported_uid.slice(0, 2))).size;
          if (size + (to - from) / HOUR / 10 > limit || random.int(1, 100) <= chance) throw refusal();
          return found;
        };
        const found = await inParts([window], ask, { uidLabels: ["uid", "exported_uid"] });
        expect(new Set(found)).toEqual(new Set(all.filter(({ hour }) => hour < hours)));
        // A good answer is not thrown away: only an overlap could bring a pod twice.
        expect(found.length).toBe(new Set(found).size);
        expect(queries).toBeLessThan(600 + 128 * hours);
      }),
      { numRuns: 200 },
    );
  });

  test("one refusal by chance costs a few questions", async () => {
    const sizes: number[] = [];
    const ask = async ({ from, to }: Window): Promise<readonly never[]> => {
      sizes.push((to - from) / HOUR);
      if ((to - from) / HOUR > 16 || sizes.length === 9) throw refusal();
      return [];
    };
    await inParts([{ from: 0, to: 200 * HOUR }], ask);
    expect(sizes.length).toBeLessThan(40);
  });

  test("nothing is asked of what is known", async () => {
    let asked = 0;
    const ask = async (): Promise<readonly number[]> => [(asked += 1)];
    await inParts([{ from: 0, to: HOUR }], ask, { known: () => true });
    expect(asked).toBe(0);
    await inParts(
      [{ from: 0, to: HOUR }],
      async (_part, uids) => (uids.length === 0 ? Promise.reject(refusal()) : ask()),
      {
        uidLabels: ["uid"],
        known: () => asked === 3,
      },
    );
    expect(asked).toBe(3);
  });

  test.each(["prometheus_too_large", "prometheus_unavailable"] as const)(
    "a server that never answers: %s, with the smallest question asked and how many there were",
    async (code) => {
      let asked = 0;
      const ask = async (): Promise<readonly never[]> => {
        asked += 1;
        throw refusal(code);
      };
      const refused = inParts([{ from: 0, to: 1000 * HOUR }], ask, { asked: "pods", uidLabels: ["uid"] });
      const thrown: unknown = await refused.catch((error: unknown) => error);
      if (!(thrown instanceof GridmeterError)) throw new Error(`Expected an error, got ${String(thrown)}.`);
      expect(thrown.code).toBe(code);
      if (code === "prometheus_too_large")
        expect(thrown.message).toBe(
          `Given up on pods of the pods with uid=~"00.*" from 1970-01-01 00:00:00 UTC to 1970-01-01 01:00:00 UTC, after ${asked} queries. ` +
            "Refused. Nothing was published.",
        );
      else expect(thrown.message).toMatch(new RegExp(`^Given up on pods from .*, after ${asked} queries. Refused.`));
      expect(asked).toBeLessThan(code === "prometheus_too_large" ? 15 : 4);
    },
  );

  test("windows share what was learnt, the tries, and the end", async () => {
    const windows = Array.from({ length: 40 }, (_, day) => ({ from: day * 100 * HOUR, to: (day * 100 + 24) * HOUR }));
    const asked: Window[] = [];
    let answering = true;
    const ask = async (part: Window): Promise<readonly never[]> => {
      asked.push(part);
      if (!answering || part.to - part.from > 6 * HOUR) throw refusal();
      answering = asked.length < 50;
      return [];
    };
    await expect(inParts(windows, ask, { uidLabels: ["uid"] })).rejects.toMatchObject({ code: "prometheus_too_large" });
    // Of the first fifty nearly all were answered, and once nothing was, it was soon over.
    expect(asked.slice(0, 50).filter(({ from, to }) => to - from > 6 * HOUR).length).toBeLessThan(15);
    expect(asked.length).toBeLessThan(65);
  });

  test("a server that answers next to nothing ends it at an upper bound", async () => {
    let asked = 0;
    const ask = async (_part: Window, uids: readonly string[]): Promise<readonly never[]> => {
      asked += 1;
      if (uids.length === 0 || /"[0-9a-f]\.\*"/.test(uids[0]!)) throw refusal();
      return [];
    };
    const refused = inParts([{ from: 0, to: 100 * HOUR }], ask, { uidLabels: ["uid"] });
    await expect(refused).rejects.toMatchObject({ code: "prometheus_too_large" });
    const most = 600 + 128 * 100;
    expect(asked).toBeGreaterThanOrEqual(most);
    // It is only a refusal that ends it.
    expect(asked).toBeLessThan(most + 20);
  });

  test("an error that is no refusal ends it at once", async () => {
    const bad = new GridmeterError("prometheus_bad_query", "Bad.");
    await expect(inParts([{ from: 0, to: HOUR }], () => Promise.reject(bad))).rejects.toBe(bad);
  });
});

test("parts by uid have each pod once, at every depth", () => {
  fc.assert(
    fc.property(pods, (all) => {
      const first = partsByUid(["uid", "exported_uid"]);
      const second = first.flatMap((part) => (part.parts().length === 0 ? [part] : part.parts()));
      const third = second.flatMap((part) => (part.parts().length === 0 ? [part] : part.parts()));
      for (const pod of all.slice(0, 5))
        for (const parts of [first, second, third])
          expect(parts.filter(({ only }) => matches(pod, only))).toHaveLength(1);
    }),
  );
});
