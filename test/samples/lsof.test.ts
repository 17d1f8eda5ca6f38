import { describe, expect, it } from "vitest";
import { type Socket, parseLsof } from "../../lib/agent/probes/lsof.ts";
import { expectedOf, haveSamples, printed, readSample } from "../support/samples.ts";

type Expected = { established: number; established_rows_rejected: number; first: unknown[]; pids: number[] };

const asExpected = (sockets: readonly Socket[], rejected: number) => ({
  established: sockets.length,
  established_rows_rejected: rejected,
  first: sockets.slice(0, 4).map(({ pid, type, text }) => [pid, type, ...text.split("->")]),
  ipv6: sockets.filter(({ type }) => type === "IPv6").length,
  pids: [...new Set(sockets.map(({ pid }) => pid))],
  probe: "lsof",
});

if (haveSamples) {
  const outputs = expectedOf<Expected>(/^lsof_/);

  describe("real outputs of lsof", () => {
    it("are all looked at", () => {
      expect(outputs).toHaveLength(5);
    });

    it.each(outputs)("%s: every expected value, and no other", (file, expected) => {
      const text = readSample(file);
      const { value, rejected } = parseLsof(printed(text, text.trim() === "" ? 1 : 0));
      expect(asExpected(value, rejected)).toEqual(expected);
    });
  });
} else {
  it("has no shared samples here: the fixtures of test/unit/probes cover the same shapes", () => {
    expect(haveSamples).toBe(false);
  });
}
