import { describe, expect, it } from "vitest";
import { runCommand } from "../../../../lib/agent/command/run.ts";
import { ParseError } from "../../../../lib/agent/probes/common/parse.ts";
import { PS_DEFAULTS, commandName, parsePs, psMetrics } from "../../../../lib/agent/probes/ps.ts";
import { type Process, longStanding, watchProcesses } from "../../../../lib/agent/probes/ps-watch.ts";
import { sameLabelsThroughout, valuesBy } from "../../../support/metrics.ts";
import { fixture, printed } from "../../../support/probe-fixtures.ts";

const MIB = 1024 * 1024;
const process = (state: Process["state"], pid: number, commandLine: string): Process => ({
  state,
  pid,
  commandLine,
  name: commandName(commandLine),
  residentBytes: 0,
});

describe("ps", () => {
  const { value, rejected } = parsePs(printed(fixture("ps.txt")));

  it("reads rows, also without a command, and counts what is none", () => {
    expect([value.length, rejected]).toEqual([9, 1]);
    expect(value[4]).toEqual({
      state: "R",
      pid: 13,
      residentBytes: 721_008 * 1024,
      commandLine: "/opt/python/bin/python3 -c x=1",
      name: "python3",
    });
    expect(value[8]).toMatchObject({ pid: 97, commandLine: "" });
  });

  it("reads the real one's", async () => {
    const { command: argv, timeout, maxBytes } = PS_DEFAULTS;
    const result = await runCommand({ argv, timeout, maxBytes }).settled;
    if (result.kind !== "ok") throw new Error(JSON.stringify(result));
    const { value, rejected } = parsePs(result.output);
    expect(rejected).toBe(0);
    expect(value.map(({ pid }) => pid)).toContain(globalThis.process.pid);
  });

  it.each([
    ["a heading", "S   RSS   PID CMD\n"],
    ["ps -ef", "root         1     0  0 Oct26 ?        00:00:10 /sbin/init\nroot 2 0 0 Oct26 ? 00:00:00 [kthreadd]\n"],
    ["ps aux", "root          1  0.0  0.1 128068  6676 ?        Ss   Oct25   0:03 init\n"],
    ["states that there are not", "Q 1 2 x\nY 1 3 y\n"],
    ["mostly something else", "S 1 2 x\nhello\nthere\n"],
    ["nothing", ""],
  ])("refuses %s", (_, text) => {
    expect(() => parsePs(printed(text))).toThrow(ParseError);
  });

  it("reads users, waits and the kernel's names", () => {
    const text =
      "S  3044     1     0     0 do_wait                          systemd\n" +
      "I     0     9     0     0 rescuer_thread                   kworker/0:1H-events\n" +
      "D  1800    10     0     0 percpu_rwsem_wait                nvidia-smi\n" +
      "D  1804    11  1000     0 -                                a b\n" +
      "S  1804    12  1000  1000 0                                \n" +
      "Z     0    95  1000  1000 -                                python3 <defunct>\n";
    const { value, rejected } = parsePs(printed(text));
    expect(rejected).toBe(0);
    expect(value.map(({ pid, name, isRoot, wait }) => [pid, name, isRoot, wait])).toEqual([
      [1, "systemd", true, "do_wait"],
      [9, "kworker", true, "rescuer_thread"],
      [10, "nvidia-smi", true, "percpu_rwsem_wait"],
      [11, "a b", false, undefined],
      [12, "unknown", false, undefined],
      [95, "python3", false, undefined],
    ]);
  });

  it("takes the columns by the oldest process, whatever later ones call themselves", () => {
    const { value } = parsePs(printed("S 1 1 /sbin/init\nD 1 2 0 0 x nvidia-smi\nD 1 3 0 0 x nvidia-smi\n"));
    expect(value.map(({ name, isRoot }) => [name, isRoot])).toEqual([
      ["init", undefined],
      ["0", undefined],
      ["0", undefined],
    ]);
  });

  it("refuses a failure", () => {
    expect(() => parsePs(printed(fixture("ps.txt"), 1))).toThrow(ParseError);
  });

  it.each([
    ["/usr/bin/nvidia-smi -q -x", "nvidia-smi"],
    ["[kworker/0:0H]", "kworker"],
    ["[python3] <defunct>", "python3"],
    ["sshd: ann@pts/0", "sshd"],
    ["", "unknown"],
    ["///", "unknown"],
    ["x".repeat(200), "x".repeat(64)],
  ])("calls %j %s", (line, name) => {
    expect(commandName(line)).toBe(name);
  });
});

describe("D and Z", () => {
  const stuck = process("D", 7, "nvidia-smi");
  const dead = process("Z", 8, "[sh] <defunct>");

  it("says nothing before the watch is old enough", () => {
    const first = watchProcesses(undefined, [stuck], 100);
    expect(longStanding(first, 10)).toBeUndefined();
    expect(longStanding(watchProcesses(first, [stuck], 109), 10)).toBeUndefined();
    expect(longStanding(watchProcesses(first, [stuck, dead], 110), 10)).toEqual({
      uninterruptible: [stuck],
      zombies: [],
    });
  });

  it.each([
    "wait_for_vfork_done",
    "kernel_clone",
    "_do_fork",
    "__refrigerator",
    "handle_userfault",
    "request_wait_answer.part.0",
  ])("leaves out what waits in %s, as its user may let it do so for ever", (wait) => {
    const waiting = { ...stuck, wait };
    const watch = watchProcesses(watchProcesses(undefined, [waiting], 0), [waiting], 30);
    expect(longStanding(watch, 10)?.uninterruptible).toEqual([]);
  });

  it("counts a process seen so whenever looked at, however short the interval", () => {
    const times = [0, 3, 6, 9, 12];
    const watch = times.reduce<Parameters<typeof longStanding>[0] | undefined>(
      (before, at) => watchProcesses(before, [stuck, dead], at),
      undefined,
    )!;
    expect(longStanding(watch, 10)).toEqual({ uninterruptible: [stuck], zombies: [dead] });
  });

  it("forgets one that was not so in between, and one whose id came back (openpai#2932)", () => {
    const start = watchProcesses(undefined, [stuck], 0);
    const between = watchProcesses(start, [{ ...stuck, state: "S" }], 10);
    expect(longStanding(watchProcesses(between, [stuck], 20), 15)?.uninterruptible).toEqual([]);
    const other = process("D", 7, "dd");
    expect(longStanding(watchProcesses(start, [other], 20), 10)?.uninterruptible).toEqual([]);
  });
});

describe("the metrics of processes", () => {
  const { value } = parsePs(printed(fixture("ps.txt")));
  const watch = watchProcesses(watchProcesses(undefined, value, 0), value, 30);
  const context = { longStanding: longStanding(watch, 10), largeResidentBytes: 500 * MIB };

  it("has them by command, and states as a closed set", () => {
    const metrics = psMetrics(value, context);
    sameLabelsThroughout(metrics);
    expect(valuesBy(metrics, "gridmeter_process_uninterruptible", "command")).toEqual({ "nvidia-smi": 2 });
    expect(valuesBy(metrics, "gridmeter_process_zombies", "command")).toEqual({ python3: 1 });
    expect(valuesBy(metrics, "gridmeter_process_largest_resident_bytes", "command")).toEqual({
      python3: 900_000 * 1024,
    });
    expect(valuesBy(metrics, "gridmeter_process_states", "state")).toMatchObject({ D: 2, S: 3, Z: 1, X: 0 });
  });

  it("says nothing of D and Z while nobody knows", () => {
    const names = psMetrics(value, { ...context, longStanding: undefined }).map(({ name }) => name);
    expect(names).toEqual(["gridmeter_process_states", "gridmeter_process_largest_resident_bytes"]);
  });

  it("never has more than a few commands, and never loses nvidia-smi among them (defect 14)", () => {
    const many = Array.from({ length: 500 }, (_, index) => process("D", index, `job${index} x`));
    const uninterruptible = [
      ...many,
      ...many.map((one) => ({ ...one, pid: one.pid + 1000 })),
      process("D", 9999, "nvidia-smi"),
    ];
    const metrics = psMetrics(many, { longStanding: { uninterruptible, zombies: [] }, largeResidentBytes: -1 });
    const counts = valuesBy(metrics, "gridmeter_process_uninterruptible", "command");
    expect(Object.keys(counts)).toHaveLength(21);
    expect(counts).toMatchObject({ "nvidia-smi": 1, other: 2 * (500 - 19) });
    expect(metrics.find(({ name }) => name.endsWith("resident_bytes"))?.samples).toHaveLength(20);
  });
});
