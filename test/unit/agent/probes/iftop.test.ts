import { describe, expect, it } from "vitest";
import { defaultInterface, iftopMetrics, parseIftop, parseRate } from "../../../../lib/agent/probes/iftop.ts";
import { ParseError } from "../../../../lib/agent/probes/common/parse.ts";
import { parseEndpoint } from "../../../../lib/agent/probes/lsof.ts";
import { sameLabelsThroughout, valuesBy } from "../../../support/metrics.ts";
import { fixture, printed } from "../../../support/probe-fixtures.ts";

const { value, rejected } = parseIftop(printed(fixture("iftop.txt")));

describe("iftop", () => {
  it("reads flows and totals, and costs a flow with a broken rate", () => {
    expect(rejected).toBe(1);
    expect(value.interface).toBe("eth7");
    expect(value.flows).toHaveLength(4);
    expect(value.flows[0]).toEqual({
      source: "10.9.0.1:50001",
      destination: "10.9.0.2:80",
      out: [2048, 2048, 1024],
      in: [512, 512, 256],
      sentBytes: 8192,
      receivedBytes: 2048,
    });
    expect(value.send[0]).toBeCloseTo(1.1 * 2 ** 30, 3);
  });

  it("publishes the totals", () => {
    const metrics = iftopMetrics(value);
    sameLabelsThroughout(metrics);
    expect(valuesBy(metrics, "gridmeter_network_receive_bytes_per_second", "interface")).toEqual({ eth7: 5.2 * 1024 });
    expect(valuesBy(metrics, "gridmeter_network_flows", "interface")).toEqual({ eth7: 4 });
  });

  it.each([
    ["448b", { bytes: 56, unit: "bits" }],
    ["1.81Mb", { bytes: (1.81 * 1024 * 1024) / 8, unit: "bits" }],
    ["1.16MB", { bytes: 1.16 * 1024 * 1024, unit: "bytes" }],
    ["0B", { bytes: 0, unit: "bytes" }],
    ["1.27GB", { bytes: 1.27 * 2 ** 30, unit: "bytes" }],
    ["", undefined],
    ["1.5", undefined],
    ["-1B", undefined],
    ["NaNB", undefined],
  ])("rate %j", (text, rate) => {
    expect(parseRate(text)).toEqual(rate);
  });

  it("takes no flow for a reading, and no totals for none", () => {
    const text = fixture("iftop.txt");
    const none = text
      .split("\n")
      .filter((line) => !/[<=]=[>]?|<=/.test(line) || line.startsWith("=="))
      .join("\n");
    expect(parseIftop(printed(none)).value.flows).toEqual([]);
    expect(() => parseIftop(printed(text.slice(0, text.indexOf("Total receive"))))).toThrow(ParseError);
    expect(() => parseIftop(printed(text, 1))).toThrow(ParseError);
    expect(() => parseIftop(printed(""))).toThrow(ParseError);
  });

  it("finds the interface of the default route (openpai#1719)", () => {
    const table = [
      "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT",
      "docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0",
      "wlan0\t00000000\t0102A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0",
      "eth0\t00000000\t0102A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0",
      "down0\t00000000\t0102A8C0\t0002\t0\t0\t1\t00000000\t0\t0\t0",
    ].join("\n");
    expect(defaultInterface(table)).toBe("eth0");
    expect(defaultInterface("")).toBeUndefined();
  });
});

describe("endpoints", () => {
  it.each([
    ["10.0.0.1:80", { address: "10.0.0.1", port: 80 }],
    ["[fd00:20::1]:41003", { address: "fd00:20::1", port: 41_003 }],
    ["[FD00::1]:1", { address: "fd00::1", port: 1 }],
    ["[::ffff:10.0.0.1]:80", { address: "10.0.0.1", port: 80 }],
    // cut by iftop: it may be any of several
    ["[fd00:20:1111:2222:3333:4444:5555:6:8031", undefined],
    ["[fd00:20:1111:2222:3333:4444:5555::42001", undefined],
    ["fd00:20::1", undefined],
    ["10.0.0.1", undefined],
    ["10.0.0.1:ssh", undefined],
    ["10.0.0.999:80", undefined],
    ["10.0.0.1:70000", undefined],
    ["*:80", undefined],
    ["", undefined],
  ])("%j", (text, endpoint) => {
    expect(parseEndpoint(text)).toEqual(endpoint);
  });
});
