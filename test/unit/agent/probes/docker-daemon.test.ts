import { describe, expect, it } from "vitest";
import { dockerDaemonMetrics, parseDockerDaemon } from "../../../../lib/agent/probes/docker-daemon.ts";
import { ParseError } from "../../../../lib/agent/probes/common/parse.ts";
import { sameLabelsThroughout, valuesBy } from "../../../support/metrics.ts";
import { DAEMON_DOWN, fixture, printed } from "../../../support/probe-fixtures.ts";

const DOWN = { value: { up: false, info: undefined, unit: undefined }, rejected: 0 };

describe("docker info", () => {
  it("reads what the daemon says", () => {
    const { value } = parseDockerDaemon(printed(fixture("docker-info.json")));
    expect(value).toEqual({
      up: true,
      unit: undefined,
      info: {
        serverVersion: "28.2.2",
        storageDriver: "overlay2",
        containers: 10,
        running: 7,
        paused: 1,
        stopped: 2,
        images: 31,
      },
    });
    const metrics = dockerDaemonMetrics(value);
    sameLabelsThroughout(metrics);
    expect(valuesBy(metrics, "gridmeter_docker_containers", "state")).toEqual({ running: 7, paused: 1, stopped: 2 });
  });

  it("does not take the zeros of a daemon that is down for values", () => {
    const zeros = fixture("docker-info-down.json");
    expect(parseDockerDaemon(printed(zeros, 1, DAEMON_DOWN))).toEqual(DOWN);
    // some versions have the error in the JSON only, and exit with 0
    expect(parseDockerDaemon(printed(zeros, 0))).toEqual(DOWN);
    expect(parseDockerDaemon(printed("", 1, DAEMON_DOWN))).toEqual(DOWN);
    expect(dockerDaemonMetrics(DOWN.value)).toEqual([
      expect.objectContaining({ name: "gridmeter_docker_up", samples: [{ labels: {}, value: 0 }] }),
    ]);
  });

  it("leaves out a value that is broken", () => {
    const text = fixture("docker-info.json").replace('"Images":31', '"Images":"many"');
    const { value } = parseDockerDaemon(printed(text));
    expect(value.info).toMatchObject({ images: undefined, running: 7 });
    expect(dockerDaemonMetrics(value).map(({ name }) => name)).not.toContain("gridmeter_docker_images");
  });

  it.each([
    ["no permission", printed("", 1, "permission denied while trying to connect to the Docker daemon socket")],
    ["a failure after all", printed(fixture("docker-info.json"), 1, "unexpected EOF")],
    ["no JSON", printed("Server Version: 28.2.2\n")],
    ["JSON of something else", printed("{}")],
    ["nothing", printed("")],
  ])("gives no data for %s", (_, output) => {
    expect(() => parseDockerDaemon(output)).toThrow(ParseError);
  });
});

describe("docker info where docker is podman", () => {
  const store = { number: 38, running: 4, paused: 0, stopped: 34 };
  const read = (json: object, before = "") => parseDockerDaemon(printed(`${before}${JSON.stringify(json)}\n`)).value;

  it("has podman's version, storage, containers and images", () => {
    const value = read({
      host: { arch: "amd64", cpus: 8 },
      store: { containerStore: store, graphDriverName: "overlay", imageStore: { number: 3 } },
      version: { APIVersion: "5.8.4", Version: "5.8.4" },
    });
    expect(value).toEqual({
      up: true,
      unit: undefined,
      info: {
        serverVersion: "5.8.4",
        storageDriver: "overlay",
        containers: 38,
        running: 4,
        paused: 0,
        stopped: 34,
        images: 3,
      },
    });
    const metrics = dockerDaemonMetrics(value);
    sameLabelsThroughout(metrics);
    expect(metrics.find(({ name }) => name === "gridmeter_docker_info")?.samples).toEqual([
      { labels: { version: "5.8.4", storage_driver: "overlay" }, value: 1 },
    ]);
    expect(valuesBy(metrics, "gridmeter_docker_containers", "state")).toEqual({ running: 4, paused: 0, stopped: 34 });
  });

  it("is read after the words of podman-docker, where stderr was saved too", () => {
    const words = "Emulate Docker CLI using podman. Create /etc/containers/nodocker to quiet msg.\n";
    expect(read({ store: { containerStore: store } }, words).info).toMatchObject({ running: 4 });
    expect(read({ ServerVersion: "28.2.2" }, "WARNING: No swap limit support\n").info).toMatchObject({
      serverVersion: "28.2.2",
    });
  });

  it("is read of podman 1, which has no numbers by state", () => {
    const value = read({
      debug: { "podman version": "1.6.4" },
      store: { ContainerStore: { number: 2 }, GraphDriverName: "vfs", ImageStore: { number: 5 } },
    });
    expect(value.info).toMatchObject({ serverVersion: "1.6.4", storageDriver: "vfs", running: undefined, images: 5 });
    expect(dockerDaemonMetrics(value).map(({ name }) => name)).not.toContain("gridmeter_docker_containers");
  });

  it("is down where podman's service cannot be reached", () => {
    const text =
      "Cannot connect to Podman. Please verify your connection to the Linux system using `podman system connection list`\n" +
      'Error: unable to connect to Podman socket: Get "http://d/v5.8.4/libpod/_ping": dial unix /run/podman/podman.sock: connect: no such file or directory\n';
    expect(parseDockerDaemon(printed("", 125, text))).toEqual(DOWN);
  });

  it.each([
    ["a store without containers", { store: { graphDriverName: "overlay" }, version: { Version: "5.8.4" } }],
    ["a version alone", { version: { Version: "5.8.4" } }],
    ["a store that is a text", { store: "containerStore" }],
  ])("is not %s", (_, json) => {
    expect(() => read(json)).toThrow(ParseError);
  });
});

describe("systemctl is-active docker", () => {
  it.each([
    ["active", 0, true, "active"],
    ["reloading", 0, true, "reloading"],
    ["inactive", 3, false, "inactive"],
    ["failed", 3, false, "failed"],
    ["activating", 3, false, "activating"],
    // an unknown unit, and a code that is not systemctl's own (the seed's pipe always gave 0)
    ["unknown", 4, undefined, "unknown"],
    ["inactive", 0, undefined, "unknown"],
    ["active", 3, undefined, "unknown"],
  ])("%s with exit code %d", (word, code, up, unit) => {
    const { value } = parseDockerDaemon(printed(`${word}\n`, code));
    expect(value).toEqual({ up, unit, info: undefined });
    const metrics = dockerDaemonMetrics(value);
    sameLabelsThroughout(metrics);
    expect(valuesBy(metrics, "gridmeter_docker_unit_state", "state")).toMatchObject({ [unit]: 1 });
    expect(metrics.some(({ name }) => name === "gridmeter_docker_up")).toBe(up !== undefined);
  });

  it("knows nothing without systemd, rather than that docker is inactive", () => {
    const stderr = "System has not been booted with systemd as init system (PID 1). Can't operate.\n";
    expect(parseDockerDaemon(printed("", 1, stderr)).value).toEqual({
      up: undefined,
      unit: "unknown",
      info: undefined,
    });
  });

  it("refuses another word", () => {
    expect(() => parseDockerDaemon(printed("hacktive\n"))).toThrow(ParseError);
  });
});
