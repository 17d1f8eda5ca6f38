import { expect, test } from "vitest";
import type { ProbeRun } from "../../../lib/agent/probes/common/probe.ts";
import type { ResultKind } from "../../../lib/agent/command/types.ts";
import { ResultLog } from "../../../lib/agent/agent.ts";

const said = (kinds: readonly ResultKind[]): unknown[] => {
  const lines: unknown[] = [];
  const tell = (fields: object): void => void lines.push((fields as { result: ResultKind }).result);
  const log = new ResultLog({ info: tell, warn: tell, error: tell });
  const run: Omit<ProbeRun, "kind"> = { seconds: 1, commands: [], metrics: [], readings: {}, rejected: 0 };
  for (const kind of kinds) log.settled("nvidia-smi", { ...run, kind });
  return lines;
};

test("a command that hangs for a day is one line, though it times out and is skipped in turn", () => {
  expect(said(["ok", "timeout", "skipped_in_flight", "timeout", "skipped_in_flight", "timeout"])).toEqual(["timeout"]);
});

test("another failure, and the recovery, are said", () => {
  expect(said(["timeout", "skipped_in_flight", "exit_nonzero", "exit_nonzero", "ok", "ok", "timeout"])).toEqual([
    "timeout",
    "exit_nonzero",
    "ok",
    "timeout",
  ]);
});

test("what is wrong on the node though the probe works is said once, until it is over", () => {
  const lines: unknown[] = [];
  const tell = (fields: object): void => void lines.push((fields as { reason?: string }).reason ?? "over");
  const log = new ResultLog({ info: tell, warn: tell, error: tell });
  const ok = { kind: "ok", seconds: 1, commands: [], metrics: [], readings: {}, rejected: 0, exitCode: 15 } as const;
  for (const warning of [undefined, "a", "a", "b"]) {
    log.settled("nvidia-smi", warning === undefined ? ok : { ...ok, warning });
  }
  log.settled("nvidia-smi", ok);
  log.settled("nvidia-smi", ok);
  expect(lines).toEqual(["a", "b", "over"]);
});
