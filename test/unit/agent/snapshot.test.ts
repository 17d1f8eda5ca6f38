import { beforeEach, describe, expect, test } from "vitest";
import { knownMetric } from "../../../lib/agent/agent.ts";
import { SelfMetrics } from "../../../lib/agent/metrics/self.ts";
import {
  MetricStore,
  type MetricStoreOptions,
  type Join,
  freshData,
  shownUntil,
} from "../../../lib/agent/metrics/store.ts";
import { RESULT_KINDS } from "../../../lib/agent/command/types.ts";
import { gauge, ok, run } from "../../support/agent-parts.ts";

const SETTINGS = { interval: 30, timeout: 20 };
const probes = ["nvidia-smi", "docker-inspect", "ps"].map((name) => ({ name, ...SETTINGS, stuck: () => 0 }));
const GPU = gauge("gridmeter_gpu_attached", 2);
const nvidia = () => run("ok", { metrics: [GPU], readings: { processes: { all: [] } } });
const inspect = () => run("ok", { metrics: [gauge("inspected", 1)], readings: { containers: [] } });

/** GPUs and containers are joined only if both are fresh. */
const join: Join = ({ processes, containers }) =>
  processes === undefined || containers === undefined
    ? new Map()
    : new Map([["nvidia-smi", [gauge("joined", containers.length + processes.all.length)]]]);

let now: number;
let faults: string[];
beforeEach(() => {
  now = 1_000;
  faults = [];
});

function board(more: Partial<MetricStoreOptions> = {}): MetricStore {
  const meta = new SelfMetrics({
    probes,
    version: "1",
    wallClock: () => 1.7e9,
    process: () => ({ residentBytes: 1, cpuSeconds: 1 }),
  });
  const fault = (text: string): void => void faults.push(text);
  return new MetricStore({ probes, meta, joins: [join], catalogue: knownMetric, clock: () => now, fault, ...more });
}

const has = (text: string, name: string): boolean => new RegExp(`^${name}\\{`, "m").test(text);

describe("data are shown", () => {
  test("from a run that was ok to the next one's end, in the group and on the port", () => {
    const shown = board();
    expect(shown.hasData("nvidia-smi")).toBe(false);
    expect(shown.settled("nvidia-smi", nvidia())).toEqual(["nvidia-smi"]);
    for (const text of [shown.group("nvidia-smi").text, shown.exposition()]) {
      expect(text).toContain('gridmeter_gpu_attached{probe="nvidia-smi"} 2');
      expect(text).toContain('gridmeter_probe_success{probe="nvidia-smi"} 1');
    }
    expect(shown.group("ps").text).not.toContain("gridmeter_gpu_attached");
    expect(has(shown.group("nvidia-smi").account, "gridmeter_gpu_attached")).toBe(false);
    expect(shown.hasData("nvidia-smi")).toBe(true);
  });

  test.each(RESULT_KINDS.filter((kind) => kind !== "ok"))("no more after %s, even if that run has metrics", (kind) => {
    const shown = board();
    shown.settled("nvidia-smi", nvidia());
    shown.settled("nvidia-smi", run(kind, { metrics: [GPU], readings: nvidia().readings }));
    expect(shown.hasData("nvidia-smi")).toBe(false);
    expect(has(shown.exposition(), "gridmeter_gpu_attached")).toBe(false);
    expect(has(shown.group("nvidia-smi").text, "gridmeter_gpu_attached")).toBe(false);
    expect(shown.exposition()).toContain('gridmeter_probe_success{probe="nvidia-smi"} 0');
    expect(shown.exposition()).toContain('gridmeter_probe_last_success_timestamp_seconds{probe="nvidia-smi"} 17');
  });

  test("no more once the probe is disabled", () => {
    const shown = board();
    shown.settled("nvidia-smi", nvidia());
    expect(shown.enabled("nvidia-smi", false)).toEqual(["nvidia-smi"]);
    expect(has(shown.exposition(), "gridmeter_gpu_attached")).toBe(false);
    expect(shown.exposition()).toContain('gridmeter_probe_enabled{probe="nvidia-smi"} 0');
  });

  test("at the longest until interval, timeout and 5 s are over: then program or machine stood still", () => {
    const shown = board();
    shown.settled("nvidia-smi", nvidia());
    shown.settled("docker-inspect", inspect());
    now = 1_055;
    expect(shown.expire()).toEqual([]);
    expect(has(shown.exposition(), "gridmeter_gpu_attached")).toBe(true);
    now = 1_055.01;
    expect(has(shown.exposition(), "gridmeter_gpu_attached")).toBe(false);
    expect(shown.hasData("nvidia-smi")).toBe(false);
    expect(has(shown.exposition(), "gridmeter_probe_success")).toBe(true);
  });

  test("what grew too old is told of, once", () => {
    const shown = board();
    shown.settled("nvidia-smi", nvidia());
    now = 1_040;
    shown.settled("docker-inspect", inspect());
    now = 1_060;
    expect(shown.expire()).toEqual(["nvidia-smi"]);
    expect(shown.expire()).toEqual([]);
    expect(has(shown.group("docker-inspect").text, "inspected")).toBe(true);
    now = 1_100;
    expect(shown.expire()).toEqual(["docker-inspect"]);
  });
});

describe("joined data", () => {
  test("come with the second input, and change the group of the other probe", () => {
    const shown = board();
    shown.settled("nvidia-smi", nvidia());
    expect(has(shown.group("nvidia-smi").text, "joined")).toBe(false);
    expect(shown.settled("docker-inspect", inspect())).toEqual(["docker-inspect", "nvidia-smi"]);
    expect(has(shown.group("nvidia-smi").text, "joined")).toBe(true);
    expect(shown.settled("docker-inspect", inspect())).toEqual(["docker-inspect"]);
  });

  test("go with any of their inputs, while the other's own data stay", () => {
    const shown = board();
    shown.settled("nvidia-smi", nvidia());
    shown.settled("docker-inspect", inspect());
    expect(shown.settled("docker-inspect", run("timeout"))).toEqual(["docker-inspect", "nvidia-smi"]);
    expect(has(shown.exposition(), "joined")).toBe(false);
    expect(has(shown.group("nvidia-smi").text, "gridmeter_gpu_attached")).toBe(true);
  });

  test("are never those of a probe that is not fresh itself", () => {
    const always: Join = () => new Map([["ps", [gauge("joined", 1)]]]);
    const held = [{ probe: "ps", run: run("timeout"), until: shownUntil(SETTINGS, 0) }];
    expect(freshData(held, 1, [always]).size).toBe(0);
    expect([...freshData([{ ...held[0]!, run: ok() }], 1, [always]).keys()]).toEqual(["ps"]);
    expect(freshData([{ ...held[0]!, run: ok() }], 55.5, [always]).size).toBe(0);
  });

  test("of a join that throws are missing, and nothing else is; the fault is told of once", () => {
    const broken: Join = () => {
      throw new Error("join of nothing");
    };
    const shown = board({ joins: [broken, join] });
    shown.settled("nvidia-smi", nvidia());
    shown.settled("docker-inspect", inspect());
    expect(has(shown.exposition(), "joined")).toBe(true);
    expect(faults).toEqual(["join of nothing"]);
  });

  test("further metrics may speak of a probe without data", () => {
    const shown = board({
      extras: [(_, figures) => new Map([["ps", [gauge("hangs", figures.get("ps")?.result === "timeout" ? 1 : 0)]]])],
    });
    shown.settled("ps", run("timeout"));
    expect(shown.exposition()).toContain('hangs{probe="ps"} 1');
    expect(shown.hasData("ps")).toBe(false);
  });
});

describe("what is dropped", () => {
  test("is counted once a run, however often it is looked at", () => {
    const shown = board();
    const twice = () => ok(gauge("x", 1), gauge("x", 2));
    shown.settled("ps", twice());
    for (let looks = 0; looks < 3; looks++) shown.exposition();
    shown.settled("nvidia-smi", nvidia());
    expect(shown.exposition()).toContain('gridmeter_probe_dropped_series_total{probe="ps"} 1');
    shown.settled("ps", twice());
    expect(shown.exposition()).toContain('gridmeter_probe_dropped_series_total{probe="ps"} 2');
    expect(shown.exposition()).toContain('gridmeter_probe_dropped_series_total{probe="nvidia-smi"} 0');
  });

  test("of two types of one name is that of the later probe of the configuration, whichever ran first", () => {
    const shown = board();
    shown.settled("ps", ok({ ...gauge("x", 1), type: "counter" }));
    expect(shown.group("ps").text).toContain('x{probe="ps"} 1');
    expect(shown.settled("nvidia-smi", ok(gauge("x", 2)))).toEqual(["nvidia-smi", "ps"]);
    expect(shown.group("ps").text).not.toContain("x{");
    expect(shown.exposition().match(/^# TYPE x .*$/gm)).toEqual(["# TYPE x gauge"]);
  });
});

test("no name has two headers, whatever is shown", () => {
  const shown = board();
  for (const { name } of probes) {
    shown.settled(name, run("ok", { metrics: [GPU], commands: [{ command: "docker ps", kind: "ok", seconds: 1 }] }));
  }
  const headers = shown.exposition().match(/^# TYPE \S+/gm) ?? [];
  expect(new Set(headers).size).toBe(headers.length);
  expect(headers.length).toBeGreaterThan(15);
});

test("a probe that nobody knows is not taken in", () => {
  const shown = board();
  expect(shown.settled("unknown", nvidia())).toEqual([]);
  expect(has(shown.exposition(), "gridmeter_gpu_attached")).toBe(false);
});
