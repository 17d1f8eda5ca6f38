import { describe, expect, it } from "vitest";
import { dockerStatsMetrics, parseDockerStats } from "../../../../lib/agent/probes/docker-stats.ts";
import { ParseError } from "../../../../lib/agent/probes/common/parse.ts";
import { sameLabelsThroughout, valuesBy } from "../../../support/metrics.ts";
import { DAEMON_DOWN, fixture, printed } from "../../../support/probe-fixtures.ts";

const GIB = 2 ** 30;
const run = (file: string) => parseDockerStats(printed(fixture(file)));

describe("docker stats as JSON", () => {
  const { value, rejected } = run("docker-stats.jsonl");

  it("reads every value", () => {
    expect(value[0]).toEqual({
      id: "0a1b2c3d4e5f",
      name: "trainer",
      namespace: undefined,
      pod: undefined,
      container: undefined,
      cpu: 2.042,
      memoryUsedBytes: 1.5 * GIB,
      memoryLimitBytes: 6 * GIB,
      memoryUsage: 0.25,
      receivedBytes: 1_000_000,
      sentBytes: 578,
      readBytes: 1_440_000,
      writtenBytes: 0,
      processes: 21,
      measured: true,
    });
  });

  it("does not take a restarting container, or one that is gone, for one that uses nothing", () => {
    expect(value.map(({ name, measured }) => [name, measured])).toEqual([
      ["trainer", true],
      ["restarting", false],
      ["gone", false],
      ["k8s_main_web-0_shop_6f9619ff-8b86-d011-b42d-00cf4fc964ff_2", true],
    ]);
  });

  it("counts the row without a container, and the broken value of a row that is kept", () => {
    expect(rejected).toBe(2);
    expect(value[3]).toMatchObject({
      namespace: "shop",
      pod: "web-0",
      container: "main",
      memoryUsage: undefined,
      cpu: 0.5,
    });
  });

  it("publishes what was read, and nothing of the rest", () => {
    const metrics = dockerStatsMetrics(value);
    sameLabelsThroughout(metrics);
    expect(valuesBy(metrics, "gridmeter_container_cpu_usage_ratio", "container_id")).toEqual({
      "0a1b2c3d4e5f": 2.042,
      "3d4e5f6a7b8c": 0.5,
    });
    expect(valuesBy(metrics, "gridmeter_container_memory_usage_ratio", "container_id")).toEqual({
      "0a1b2c3d4e5f": 0.25,
    });
    expect(metrics.find(({ name }) => name.endsWith("receive_bytes_total"))?.type).toBe("counter");
  });

  it("keeps the first of two rows of one container, whatever the length of the id", () => {
    const row = (id: string, cpu: string) => JSON.stringify({ ID: id, Name: "a", CPUPerc: cpu });
    const twice = parseDockerStats(printed(`${row("0a1b2c3d4e5f", "1%")}\n${row("0a1b2c3d4e5f0000", "2%")}\n`));
    expect(twice).toMatchObject({ rejected: 1, value: [{ cpu: 0.01 }] });
  });

  it("drops memory alone where the node does not account for it", () => {
    const text = '{"ID":"0a1b2c3d4e5f","Name":"a","CPUPerc":"1.00%","MemUsage":"0B / 0B","MemPerc":"0.00%"}';
    expect(parseDockerStats(printed(text)).value[0]).toMatchObject({
      measured: true,
      cpu: 0.01,
      memoryUsedBytes: undefined,
      memoryLimitBytes: undefined,
      memoryUsage: undefined,
    });
  });

  it("reads past a broken line, and counts it", () => {
    const text = fixture("docker-stats.jsonl").replace(/^/, '{"ID":"torn\n');
    expect(parseDockerStats(printed(text))).toMatchObject({ rejected: 3, value: { length: 4 } });
  });

  it("takes hostile names as text", () => {
    const name = `"} 1\ngridmeter_container_cpu_usage_ratio{x="\u0000\u{1F600}${"n".repeat(500)}`;
    const { value } = parseDockerStats(printed(JSON.stringify({ ID: "0a1b2c3d4e5f", Name: name, CPUPerc: "1%" })));
    const [sample] = dockerStatsMetrics(value)[0]!.samples;
    expect(sample?.labels["name"]).toMatch(/^"\} 1\uFFFDgridmeter/);
    expect(sample?.labels["name"]).toHaveLength(128);
    const hostile = ["__proto__", "$(reboot)", "../../x", "a b"].map((id) => JSON.stringify({ ID: id, Name: "x" }));
    expect(parseDockerStats(printed(hostile.join("\n")))).toMatchObject({ rejected: 4, value: [] });
  });
});

describe("docker stats as a table", () => {
  it("reads one with commas, whose heading lacks the name", () => {
    const { value, rejected } = run("docker-stats-table.txt");
    // a name with a comma makes a row too long
    expect(rejected).toBe(1);
    expect(value).toMatchObject([
      {
        name: "trainer",
        cpu: 0.125,
        memoryUsedBytes: GIB / 2,
        receivedBytes: 1500,
        writtenBytes: 28e6,
        measured: true,
      },
      { name: "gone", cpu: undefined, measured: false },
    ]);
  });

  it("reads one in columns, also when the terminal is cleared first", () => {
    const text = `\u001b[2J\u001b[H${fixture("docker-stats-columns.txt")}`;
    expect(parseDockerStats(printed(text)).value).toMatchObject([
      { id: "0a1b2c3d4e5f", name: "trainer", memoryUsage: 0.0625, processes: 1, measured: true },
      { id: "1b2c3d4e5f6a", name: "web", measured: false },
    ]);
  });

  it("knows columns by their headings, not by their places", () => {
    const text = "NAME,MEM %,CONTAINER ID,NEW\nweb,5%,0a1b2c3d4e5f,x\n";
    expect(parseDockerStats(printed(text)).value).toMatchObject([
      { id: "0a1b2c3d4e5f", name: "web", memoryUsage: 0.05 },
    ]);
  });

  it("is empty when no container runs", () => {
    expect(parseDockerStats(printed("CONTAINER ID,NAME,CPU %\n"))).toEqual({ value: [], rejected: 0 });
    expect(parseDockerStats(printed(""))).toEqual({ value: [], rejected: 0 });
  });
});

describe("podman stats", () => {
  it("reads its three shapes", () => {
    const { value, rejected } = run("podman-stats.json");
    expect(rejected).toBe(0);
    expect(value).toMatchObject([
      { id: "0a1b2c3d4e5f", cpu: 0.125, memoryUsedBytes: 512e6, sentBytes: 2000, readBytes: undefined, processes: 3 },
      { id: "1b2c3d4e5f6a", cpu: 1.505, memoryLimitBytes: 4 * 1024 * 1024, memoryUsage: 0.25, readBytes: 300 },
      { id: undefined, name: "db", cpu: 0.05, receivedBytes: 77, sentBytes: 88, memoryLimitBytes: undefined },
    ]);
    sameLabelsThroughout(dockerStatsMetrics(value));
  });
});

describe("docker stats without data", () => {
  it.each([
    ["a daemon that is down", printed("", 1, DAEMON_DOWN)],
    ["rows, but a failure", printed(fixture("docker-stats.jsonl"), 1)],
    ["something else", printed("hello\n")],
    ["JSON of something else", printed("[1,2]")],
    ["broken JSON", printed("{{{\n{{")],
    ["a table of something else", printed("PID TTY\n1 x\n")],
  ])("%s", (_, output) => {
    expect(() => parseDockerStats(output)).toThrow(ParseError);
  });
});
