import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Situation } from "../simulator/situations/index.ts";
import { faultsOf, SituationRuns } from "./situation-run.ts";
import { isLong } from "./size.ts";
import { scratchDirectory } from "./store-script.ts";

/**
 * The real command line on each situation, all of them in one real Prometheus: `account` comes to what is right, and
 * `check` finds something BAD if and only if `account` with the same options does not end with exit code 0.
 */
export function testSituations(situations: readonly Situation[]): void {
  let runs: SituationRuns;
  let scratch: Awaited<ReturnType<typeof scratchDirectory>>;

  beforeAll(async () => {
    scratch = await scratchDirectory();
    runs = await SituationRuns.open(situations, scratch.path);
  }, 180_000);

  afterAll(async () => {
    await runs.close();
    await scratch.remove();
  });

  test("have names of their own", () => {
    expect(new Set(situations.map(({ name }) => name)).size).toBe(situations.length);
  });

  // Of every third one the two verdicts are compared; the long tests compare all.
  const compared = new Set(situations.filter((_, index) => isLong || index % 3 === 0));

  describe.each(situations)("$name", (situation) => {
    test("account", async () => {
      for (const run of situation.runs) {
        const outcome = await runs.account(situation, run);
        const faults = [run.right, ...(run.or ?? [])].map((right) => faultsOf(outcome, right));
        // Of several right ends the first is named where none was met.
        const best = faults.find((each) => each.length === 0) ?? faults[0];
        expect({ run: run.name, faults: best, said: best?.length === 0 ? "" : outcome.said }).toEqual({
          run: run.name,
          faults: [],
          said: "",
        });
      }
    });

    test.runIf(compared.has(situation))("check", async () => {
      const [{ right, or = [] }] = situation.runs;
      const { code, said } = await runs.check(situation);
      const bad = /^\s*BAD/m.test(said) || code === 2;
      const ends = new Set([right, ...or].map(({ exit }) => exit === 0));
      // Where either end of `account` is right, so is either verdict, if the exit code agrees with it.
      const good = ends.size > 1 ? !bad : ends.has(true);
      expect({ ok: code === 0, bad, said }).toEqual({ ok: good, bad: !good, said });
    });
  });
}
