import { describe, expect, it } from "vitest";
import { lsofMetrics, parseLsof } from "../../../../lib/agent/probes/lsof.ts";
import { ParseError } from "../../../../lib/agent/probes/common/parse.ts";
import { sameLabelsThroughout } from "../../../support/metrics.ts";
import { fixture, printed } from "../../../support/probe-fixtures.ts";

const WARNINGS =
  "lsof: no pwd entry for UID 12345\nlsof: WARNING: can't stat() fuse file system /x\n      Output information may be incomplete.\n";

describe("lsof", () => {
  const { value, rejected } = parseLsof(printed(fixture("lsof.txt"), 0, WARNINGS));

  it("reads connections, and no others", () => {
    expect(value.map(({ pid, type, protocol, text }) => [pid, type, protocol, text])).toEqual([
      [4242, "IPv4", "TCP", "10.9.0.1:50001->10.9.0.2:80"],
      [4242, "IPv6", "TCP", "10.9.0.1:50002->10.9.0.3:443"],
      [4243, "IPv6", "TCP", "10.9.0.1:50002->10.9.0.3:443"],
      [4242, "IPv6", "TCP", "[fd00:9::1]:50003->[fd00:9::2]:80"],
      [4242, "IPv4", "UDP", "10.9.0.1:50010->10.9.0.2:53"],
    ]);
    expect(value[3]?.remote).toEqual({ address: "fd00:9::2", port: 80 });
    expect(rejected).toBe(1);
  });

  it("counts a connection of several processes once", () => {
    const container = { id: "0a1b2c3d4e5f", name: "a", namespace: undefined, pod: undefined, container: undefined };
    const metrics = lsofMetrics([{ container, sockets: value }]);
    sameLabelsThroughout(metrics);
    expect(metrics[0]?.samples[0]?.value).toBe(4);
  });

  it("takes an exit code of 1 without output for no connection, unless something failed", () => {
    expect(parseLsof(printed("", 1))).toEqual({ value: [], rejected: 0 });
    expect(parseLsof(printed("", 1, WARNINGS))).toEqual({ value: [], rejected: 0 });
    expect(parseLsof(printed(fixture("lsof.txt"), 1)).value).toHaveLength(5);
    const gone = "nsenter: cannot open /proc/4242/ns/net: No such file or directory\n";
    expect(() => parseLsof(printed("", 1, gone))).toThrow("nsenter");
    expect(() => parseLsof(printed("", 127, "sh: lsof: not found"))).toThrow(ParseError);
    expect(() => parseLsof(printed("hello\n"))).toThrow(ParseError);
  });
});
