import { describe, expect, test } from "vitest";
import { encode, render } from "../../../lib/shared/exposition.ts";
import {
  CommandCounts,
  DURATION_BUCKETS,
  SELF_METRICS,
  SelfMetrics,
  type SelfMetricsOptions,
  PushAccount,
  durationBounds,
} from "../../../lib/agent/metrics/self.ts";
import { RESULT_KINDS } from "../../../lib/agent/command/types.ts";
import { GridmeterError } from "../../../lib/shared/errors.ts";
import { run } from "../../support/agent-parts.ts";

let time = 1_700_000_000;
const probe = (name: string, timeout = 10) => ({ name, interval: 30, timeout, stuck: () => 1 });

function account(more: Partial<SelfMetricsOptions> = {}): { meta: SelfMetrics; text: (group: string) => string } {
  const meta = new SelfMetrics({
    probes: [probe("ps"), probe("lsof")],
    version: "1.2.3",
    wallClock: () => time,
    process: () => ({ residentBytes: 5e7, cpuSeconds: 1.5 }),
    ...more,
  });
  return { meta, text: (group) => render(meta.families(group).map((family) => encode(group, family))) };
}

/** The samples of one name: labels (without the probe) and value. */
const samples = (text: string, name: string): string[] =>
  text
    .split("\n")
    .filter((line) => line.startsWith(`${name}{`))
    .map((line) => line.slice(name.length).replace(/probe="[^"]*",?/, ""));

describe("before the first run", () => {
  test("all results are counted from 0 on, and nothing is said about what did not happen", () => {
    const { text } = account();
    const ps = text("ps");
    expect(samples(ps, "gridmeter_probe_runs_total")).toEqual(RESULT_KINDS.map((kind) => `{result="${kind}"} 0`));
    expect(samples(ps, "gridmeter_probe_enabled")).toEqual(["{} 1"]);
    expect(samples(ps, "gridmeter_probe_interval_seconds")).toEqual(["{} 30"]);
    expect(samples(ps, "gridmeter_probe_timeout_seconds")).toEqual(["{} 10"]);
    expect(samples(ps, "gridmeter_probe_stuck_children")).toEqual(["{} 1"]);
    expect(samples(ps, "gridmeter_probe_rejected_rows_total")).toEqual(["{} 0"]);
    expect(samples(ps, "gridmeter_probe_dropped_series_total")).toEqual(["{} 0"]);
    for (const absent of ["success", "result", "exit_code", "last_run_timestamp_seconds", "last_duration_seconds"]) {
      expect(ps).not.toContain(`gridmeter_probe_${absent}{`);
    }
    expect(ps).not.toContain("gridmeter_command_");
  });
});

describe("after runs", () => {
  test("the last result, the counts, and when the last success was, which stays", () => {
    const { meta, text } = account();
    time = 1_700_000_100;
    meta.settled("ps", run("ok", { seconds: 0.25, exitCode: 0, rejected: 2 }));
    time = 1_700_000_130;
    meta.settled("ps", run("timeout", { seconds: 10 }));
    meta.settled("ps", run("exit_nonzero", { seconds: 1, exitCode: 14, rejected: 1 }));
    meta.dropped("ps", 3);
    const ps = text("ps");
    expect(samples(ps, "gridmeter_probe_success")).toEqual(["{} 0"]);
    expect(samples(ps, "gridmeter_probe_result")).toEqual(['{result="exit_nonzero"} 1']);
    expect(samples(ps, "gridmeter_probe_exit_code")).toEqual(["{} 14"]);
    expect(samples(ps, "gridmeter_probe_last_duration_seconds")).toEqual(["{} 1"]);
    expect(samples(ps, "gridmeter_probe_last_run_timestamp_seconds")).toEqual(["{} 1700000130"]);
    expect(samples(ps, "gridmeter_probe_last_success_timestamp_seconds")).toEqual(["{} 1700000100"]);
    expect(samples(ps, "gridmeter_probe_rejected_rows_total")).toEqual(["{} 3"]);
    expect(samples(ps, "gridmeter_probe_dropped_series_total")).toEqual(["{} 3"]);
    expect(samples(ps, "gridmeter_probe_runs_total").filter((line) => !line.endsWith(" 0"))).toEqual([
      '{result="ok"} 1',
      '{result="timeout"} 1',
      '{result="exit_nonzero"} 1',
    ]);
    expect(text("lsof")).not.toContain("gridmeter_probe_success");
    meta.settled("ps", run("timeout"));
    expect(text("ps")).not.toContain("gridmeter_probe_exit_code");
  });

  test("a disabled probe has no success, but its counts", () => {
    const { meta, text } = account();
    meta.settled("ps", run("ok"));
    meta.enable("ps", false);
    expect(samples(text("ps"), "gridmeter_probe_enabled")).toEqual(["{} 0"]);
    expect(samples(text("ps"), "gridmeter_probe_success")).toEqual([]);
    expect(samples(text("ps"), "gridmeter_probe_result")).toEqual(['{result="disabled"} 1']);
    expect(samples(text("ps"), "gridmeter_probe_runs_total")).toContain('{result="ok"} 1');
    expect(meta.figures().get("ps")).toMatchObject({ enabled: false, lastSuccess: time });
    expect(meta.figures().get("ps")).not.toHaveProperty("result");
  });
});

describe("the histogram of commands", () => {
  const bucket = (text: string, command: string, le: string): number =>
    Number(
      samples(text, "gridmeter_command_duration_seconds_bucket")
        .find((line) => line.startsWith(`{command="${command}",le="${le}"}`))
        ?.split("} ")[1],
    );

  test("has timed-out and failed runs in it, and 60 s in a bucket of its own", () => {
    const { meta, text } = account();
    meta.settled(
      "lsof",
      run("timeout", {
        commands: [
          { command: "docker ps", kind: "ok", seconds: 0.05 },
          { command: "lsof", kind: "timeout", seconds: 60 },
          { command: "lsof", kind: "exit_nonzero", seconds: 3 },
          { command: "lsof", kind: "skipped_in_flight", seconds: 0 },
          { command: "lsof", kind: "not_found", seconds: 0 },
        ],
      }),
    );
    const lsof = text("lsof");
    expect(bucket(lsof, "docker ps", "0.05")).toBe(1);
    expect(bucket(lsof, "docker ps", "0.01")).toBe(0);
    expect(["2", "4", "32", "64", "1024", "+Inf"].map((le) => bucket(lsof, "lsof", le))).toEqual([0, 1, 1, 2, 2, 2]);
    expect(samples(lsof, "gridmeter_command_duration_seconds_sum")).toEqual([
      '{command="docker ps"} 0.05',
      '{command="lsof"} 63',
    ]);
    expect(samples(lsof, "gridmeter_command_duration_seconds_count")).toEqual([
      '{command="docker ps"} 1',
      '{command="lsof"} 2',
    ]);
    expect(samples(lsof, "gridmeter_command_runs_total")).toEqual([
      '{command="docker ps",result="ok"} 1',
      '{command="lsof",result="timeout"} 1',
      '{command="lsof",result="exit_nonzero"} 1',
      '{command="lsof",result="skipped_in_flight"} 1',
      '{command="lsof",result="not_found"} 1',
    ]);
  });

  test.each([
    [10, 1024],
    [1023, 1024],
    [1024, 2048],
    [3600, 4096],
  ])("goes beyond a timeout of %i s: up to %i s", (timeout, last) => {
    const bounds = durationBounds(timeout);
    expect(bounds.slice(0, DURATION_BUCKETS.length)).toEqual(DURATION_BUCKETS);
    expect(bounds.at(-1)).toBe(last);
    expect(bounds).toEqual(bounds.toSorted((a, b) => a - b));
  });
});

describe("the agent's own group", () => {
  test("says that it lives, what it costs and how pushes went", () => {
    const pushes = new PushAccount();
    pushes.pendingFrom(() => 4);
    time = 1_700_000_000;
    const { text } = account({ pushes });
    time += 60;
    pushes.ended("timeout", 10, time);
    expect(text("agent")).not.toContain("gridmeter_push_last_success_timestamp_seconds{");
    pushes.ended("ok", 0.125, time);
    const agent = text("agent");
    expect(samples(agent, "gridmeter_push_total")).toEqual([
      '{result="ok"} 1',
      '{result="refused"} 0',
      '{result="failed"} 0',
      '{result="timeout"} 1',
      '{result="redirected"} 0',
    ]);
    expect(samples(agent, "gridmeter_push_last_success_timestamp_seconds")).toEqual(["{} 1700000060"]);
    expect(samples(agent, "gridmeter_push_last_duration_seconds")).toEqual(["{} 0.125"]);
    expect(samples(agent, "gridmeter_push_groups_pending")).toEqual(["{} 4"]);
    expect(samples(agent, "gridmeter_probe_agent_info")).toEqual(['{version="1.2.3"} 1']);
    expect(samples(agent, "gridmeter_probe_agent_start_time_seconds")).toEqual(["{} 1700000000"]);
    expect(samples(agent, "gridmeter_probe_agent_heartbeat_timestamp_seconds")).toEqual(["{} 1700000060"]);
    expect(samples(agent, "gridmeter_probe_agent_resident_memory_bytes")).toEqual(["{} 50000000"]);
    expect(samples(agent, "gridmeter_probe_agent_cpu_seconds_total")).toEqual(["{} 1.5"]);
  });

  test("says nothing of pushes where there is no Pushgateway", () => {
    expect(account().text("agent")).not.toContain("gridmeter_push_");
  });
});

test("every metric of the catalogue is published, with its labels, and no other", () => {
  const { meta, text } = account({ pushes: new PushAccount() });
  meta.settled("ps", run("ok", { exitCode: 0, commands: [{ command: "ps", kind: "ok", seconds: 1 }] }));
  const pushes = new PushAccount();
  pushes.ended("ok", 1, time);
  const families = [...meta.families("ps"), ...account({ pushes }).meta.families("agent")];
  const filled = families.filter(({ samples }) => samples.length > 0);
  expect(filled.map(({ name }) => name).toSorted()).toEqual(Object.keys(SELF_METRICS).toSorted());
  for (const { name, samples } of filled) {
    const labels = SELF_METRICS[name as keyof typeof SELF_METRICS].labels;
    for (const sample of samples) {
      expect(Object.keys(sample.labels).filter((label) => label !== "le")).toEqual(labels);
    }
  }
  expect(text("ps")).not.toContain("NaN");
});

test.each([["agent"], ["ps"]])("a second probe that is called %s is refused", (name) => {
  const make = () => account({ probes: [probe("ps"), probe(name)] });
  expect(make).toThrow(GridmeterError);
  expect(make).toThrow(`"${name}" is`);
});

test("times carry no noise of floating point", () => {
  const counts = new CommandCounts(durationBounds(20));
  for (const seconds of [0.1, 0.2, 0.123_456_789]) counts.add({ command: "ps", kind: "ok", seconds });
  const sums = counts.families().flatMap(({ samples }) => samples.filter(({ suffix }) => suffix === "_sum"));
  expect(sums.map(({ value }) => value)).toEqual([0.423457]);
});
