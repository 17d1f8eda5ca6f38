import { describe, expect, it } from "vitest";
import { MARKER_WINDOW, dockerLogsMetrics, parseDockerLogs } from "../../../../lib/agent/probes/docker-logs.ts";
import { namesById } from "../../../../lib/agent/probes/common/container.ts";
import { ParseError } from "../../../../lib/agent/probes/common/parse.ts";
import { sameLabelsThroughout } from "../../../support/metrics.ts";
import { DAEMON_DOWN, printed } from "../../../support/probe-fixtures.ts";

const finished = (stdout: string, stderr = "") =>
  parseDockerLogs(printed(stdout, 0, stderr), "USER COMMAND END").value.finished;

describe("docker logs", () => {
  it("finds the marker on either stream, among bytes that are no UTF-8", () => {
    const bytes = Buffer.from([0xff, 0xfe, 0x00]).toString();
    expect(finished(`${bytes}\n[runtime] USER COMMAND END\n${bytes}`)).toBe(true);
    expect(finished("", "USER COMMAND END")).toBe(true);
    expect(finished("USER COMMAND STARTED\n")).toBe(false);
    expect(finished("")).toBe(false);
  });

  it("takes the marker as text, not as a pattern", () => {
    expect(parseDockerLogs(printed("done (a+)+$"), "(a+)+$").value.finished).toBe(true);
    expect(parseDockerLogs(printed("done aa"), "(a+)+$").value.finished).toBe(false);
  });

  it("looks at the end of a long log only", () => {
    expect(finished(`USER COMMAND END${"x".repeat(MARKER_WINDOW)}`)).toBe(false);
    expect(finished(`${"x".repeat(MARKER_WINDOW)}USER COMMAND END`)).toBe(true);
  });

  it("has no verdict on a log that docker could not read", () => {
    const corrupt = "Error grabbing logs: invalid character '\\x00' looking for beginning of value\n";
    expect(() => parseDockerLogs(printed("some lines\n", 1, corrupt), "END")).toThrow(ParseError);
    expect(() => parseDockerLogs(printed("some lines\n", 0, corrupt), "END")).toThrow(ParseError);
    expect(() => parseDockerLogs(printed("", 1, DAEMON_DOWN), "END")).toThrow("daemon_down");
    // what has been seen has been seen
    expect(parseDockerLogs(printed("END\n", 0, corrupt), "END").value.finished).toBe(true);
  });

  it.each([
    ["docker", 1, "Error response from daemon: configured logging driver does not support reading\n"],
    [
      "podman",
      125,
      "Error: this container is using the 'none' log driver, cannot read logs: this container is not logging output\n",
    ],
    ["nerdctl", 1, 'level=fatal msg="no log viewer type registered for logging driver \\"syslog\\""\n'],
  ])("takes no log of %s that is kept elsewhere for a failure, nor for one without a marker", (_, code, stderr) => {
    const { value, rejected } = parseDockerLogs(printed("", code, stderr), "END");
    expect([value, rejected]).toEqual([{ finished: undefined }, 0]);
    expect(dockerLogsMetrics([{ container: namesById("0a1b2c3d4e5f"), logs: value }])).toEqual([]);
    // A job may print the same words.
    expect(parseDockerLogs(printed("", 0, stderr), "END").value).toEqual({ finished: false });
  });

  it("publishes 0 and 1", () => {
    const container = { id: "0a1b2c3d4e5f", name: "a", namespace: undefined, pod: undefined, container: undefined };
    const metrics = dockerLogsMetrics([{ container, logs: { finished: false } }]);
    sameLabelsThroughout(metrics);
    expect(metrics[0]?.samples[0]?.value).toBe(0);
  });
});
