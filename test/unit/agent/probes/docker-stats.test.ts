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

describe("zeros that nobody measured", () => {
  type Row = Partial<Record<"CPUPerc" | "MemUsage" | "MemPerc" | "NetIO" | "BlockIO" | "PIDs", string>>;
  const IDLE = { CPUPerc: "0.00%", MemPerc: "0.00%", NetIO: "176kB / 146kB", BlockIO: "0B / 0B" };
  const NET = { receivedBytes: 176_000, sentBytes: 146_000 };
  const read = (row: Row) => {
    const { value, rejected } = parseDockerStats(printed(JSON.stringify({ ID: "2c77a952ceae", Name: "one", ...row })));
    expect(rejected).toBe(0);
    const { id: _id, name: _name, namespace: _ns, pod: _pod, container: _c, measured, ...values } = value[0]!;
    expect(measured).toBe(true);
    return Object.fromEntries(Object.entries(values).filter(([, one]) => one !== undefined));
  };

  it.each<[string, Row, object]>([
    ["no controller at all: the network alone", { ...IDLE, MemUsage: "0B / 0B", PIDs: "0" }, NET],
    [
      "neither memory nor processes under the node's limit (rootless)",
      { ...IDLE, MemUsage: "0B / 8GiB", PIDs: "0" },
      { ...NET, memoryLimitBytes: 8 * GIB },
    ],
    ["no processes printed, and no memory read", { ...IDLE, MemUsage: "0B / 0B" }, NET],
    [
      "the CPU and disks of such a container that are not 0 were read",
      { ...IDLE, CPUPerc: "1.10%", BlockIO: "4kB / 0B", MemUsage: "0B / 0B", PIDs: "0" },
      { ...NET, cpu: 0.011, readBytes: 4000 },
    ],
    [
      "memory alone (a node without its controller)",
      { ...IDLE, MemUsage: "0B / 0B", PIDs: "5" },
      { ...NET, cpu: 0, readBytes: 0, writtenBytes: 0, processes: 5 },
    ],
    [
      "memory alone, under a real limit",
      { ...IDLE, MemUsage: "0B / 7.5GiB", PIDs: "5" },
      { ...NET, cpu: 0, readBytes: 0, writtenBytes: 0, processes: 5, memoryLimitBytes: 7.5 * GIB },
    ],
    [
      "processes alone",
      { ...IDLE, MemUsage: "1MiB / 1GiB", PIDs: "0" },
      {
        ...NET,
        cpu: 0,
        readBytes: 0,
        writtenBytes: 0,
        memoryUsedBytes: GIB / 1024,
        memoryLimitBytes: GIB,
        memoryUsage: 0,
      },
    ],
  ])("%s", (_, row, expected) => expect(read(row)).toEqual(expected));

  it("an idle container that is accounted keeps its zeros", () => {
    expect(read({ ...IDLE, MemUsage: "1MiB / 1GiB", PIDs: "1", NetIO: "0B / 0B" })).toEqual({
      cpu: 0,
      memoryUsedBytes: GIB / 1024,
      memoryLimitBytes: GIB,
      memoryUsage: 0,
      receivedBytes: 0,
      sentBytes: 0,
      readBytes: 0,
      writtenBytes: 0,
      processes: 1,
    });
  });

  it("podman's numbers are judged alike, and its largest number is no limit", () => {
    const row = {
      ContainerID: "0a1b2c3d4e5f",
      Name: "a",
      CPU: 0,
      MemUsage: 0,
      MemPerc: 0,
      PIDs: 0,
      NetInput: 9,
      NetOutput: 8,
    };
    const readPodman = (more: object) => parseDockerStats(printed(JSON.stringify([{ ...row, ...more }]))).value[0];
    expect(readPodman({ MemLimit: 8 * GIB })).toMatchObject({
      cpu: undefined,
      memoryUsedBytes: undefined,
      memoryUsage: undefined,
      memoryLimitBytes: 8 * GIB,
      processes: undefined,
      receivedBytes: 9,
    });
    expect(readPodman({ MemUsage: 4096, MemLimit: 2 ** 64, PIDs: 1 })).toMatchObject({
      cpu: 0,
      memoryUsedBytes: 4096,
      memoryLimitBytes: undefined,
      memoryUsage: undefined,
    });
  });

  it("podman's container without a network of its own has no traffic, rather than 0", () => {
    const row = { ContainerID: "0a1b2c3d4e5f", Name: "a", CPU: 1, PIDs: 1 };
    const readPodman = (Network: object) => parseDockerStats(printed(JSON.stringify([{ ...row, Network }]))).value[0];
    expect(readPodman({})).toMatchObject({ receivedBytes: undefined, sentBytes: undefined });
    expect(readPodman({ eth0: { RxBytes: 0, TxBytes: 0 } })).toMatchObject({ receivedBytes: 0, sentBytes: 0 });
  });

  it("publishes nothing in their place", () => {
    const table =
      "CONTAINER ID   NAME    CPU %     MEM USAGE / LIMIT   MEM %     NET I/O         BLOCK I/O   PIDS\n" +
      "2c77a952ceae   one     0.00%     0B / 0B             0.00%     176kB / 146kB   0B / 0B     0\n";
    expect(dockerStatsMetrics(parseDockerStats(printed(table)).value).map(({ name }) => name)).toEqual([
      "gridmeter_container_network_receive_bytes_total",
      "gridmeter_container_network_transmit_bytes_total",
    ]);
  });
});

describe("what is no broken row of docker stats", () => {
  it.each([
    [
      "a container that is gone, without an id",
      '{"ID":"--","Name":"--","CPUPerc":"--","MemUsage":"-- / --","PIDs":"--"}',
    ],
    ["the same in a table", "CONTAINER ID   NAME   CPU %   MEM USAGE / LIMIT\n--   --   --   -- / --"],
  ])("%s", (_, text) => expect(parseDockerStats(printed(text))).toEqual({ value: [], rejected: 0 }));

  it("long decimals, a share of nothing, and a field that the tool does not know", () => {
    const row = {
      ID: "0a1b2c3d4e5f",
      Name: "a",
      CPUPerc: `1.${"3".repeat(60)}%`,
      MemPerc: "NaN%",
      NetIO: "<no value>",
    };
    expect(parseDockerStats(printed(JSON.stringify(row)))).toMatchObject({
      rejected: 0,
      value: [{ cpu: 0.0133333333333333, memoryUsage: undefined, receivedBytes: undefined }],
    });
  });

  it("memory without a limit, as docker on Windows prints it; a torn pair is broken", () => {
    const row = { ID: "0a1b2c3d4e5f", Name: "a", CPUPerc: "1%", MemUsage: "64MiB" };
    expect(parseDockerStats(printed(JSON.stringify(row)))).toMatchObject({
      rejected: 0,
      value: [{ memoryUsedBytes: 64 * 2 ** 20, memoryLimitBytes: undefined }],
    });
    expect(parseDockerStats(printed(JSON.stringify({ ...row, NetIO: "5kB" })))).toMatchObject({
      rejected: 2,
      value: [{ receivedBytes: undefined, sentBytes: undefined }],
    });
  });
});

describe("numbers carry no noise of floating point", () => {
  it.each([
    [{ CPUPerc: "1.10%" }, "cpu", 0.011],
    [{ CPUPerc: "0.29%" }, "cpu", 0.0029],
    [{ CPU: 1.1 }, "cpu", 0.011],
    [{ NetIO: "1.005kB / 0B" }, "receivedBytes", 1005],
    [{ NetIO: "9.007199254740994PB / 0B" }, "receivedBytes", 9_007_199_254_740_994],
    [{ MemUsage: "48.81MiB / 1GiB" }, "memoryUsedBytes", 51_180_994.56],
  ])("%j", (row, key, expected) => {
    const { value } = parseDockerStats(printed(JSON.stringify({ ID: "0a1b2c3d4e5f", Name: "a", ...row })));
    expect(value[0]).toMatchObject({ [key]: expected });
  });
});
