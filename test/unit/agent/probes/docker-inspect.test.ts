import { describe, expect, it } from "vitest";
import { dockerInspectMetrics, parseDockerInspect } from "../../../../lib/agent/probes/docker-inspect.ts";
import { parseDockerList } from "../../../../lib/agent/probes/common/docker.ts";
import { ParseError } from "../../../../lib/agent/probes/common/parse.ts";
import { sameLabelsThroughout } from "../../../support/metrics.ts";
import { DAEMON_DOWN, fixture, printed } from "../../../support/probe-fixtures.ts";

const ID = `0a1b2c3d4e5f${"a".repeat(52)}`;
const { value, rejected } = parseDockerInspect(printed(fixture("docker-inspect.json")));
const [pod, yarn] = value;

/** The GPUs of a container with these settings. */
const gpusOf = (env: string[], host: object = {}, labels: object = {}) => {
  const text = JSON.stringify([{ Id: ID, Config: { Env: env, Labels: labels }, HostConfig: host }]);
  return parseDockerInspect(printed(text)).value[0]!.gpus;
};

describe("docker inspect", () => {
  it("reads a container of the kubelet", () => {
    expect(rejected).toBe(0);
    expect(pod).toMatchObject({
      id: ID,
      namespace: "lab",
      pod: "job-worker-0",
      container: "app",
      podUid: "aaaaaaaa-0000-4000-8000-000000000001",
      image: "registry.example/lab/train:7",
      job: {
        job: "ann~mnist",
        user: "ann",
        role: "worker",
        taskIndex: "3",
        instance: "0_cafe",
        virtualCluster: "gold",
      },
      status: "running",
      pid: 4242,
      startedAt: "2026-03-05T06:00:50.021056591Z",
      startTime: 1_772_690_450.021,
      restartCount: 0,
      oomKilled: false,
      healthy: false,
      kubeletManaged: true,
      // without the one that has no `=`, and the one that has no name
      environmentCount: 8,
    });
  });

  it("reads a job of YARN by its labels, and one that never started", () => {
    expect(yarn).toMatchObject({
      name: "bob-train-container_e47_1",
      namespace: undefined,
      job: { job: "bob~train", user: "bob", role: "main", taskIndex: "0", instance: "application_1" },
      pid: undefined,
      startedAt: undefined,
      startTime: undefined,
      restartCount: 2,
      oomKilled: true,
      healthy: undefined,
      kubeletManaged: false,
    });
  });

  it("takes an object as the daemon's API gives it", () => {
    const [first] = JSON.parse(fixture("docker-inspect.json")) as unknown[];
    expect(parseDockerInspect(printed(JSON.stringify(first))).value).toEqual([pod]);
  });

  it("keeps nothing else of the environment, which holds secrets", () => {
    const text = fixture("docker-inspect.json").replace("EQUALS=a=b", "TOKEN=hunter2");
    expect(JSON.stringify(parseDockerInspect(printed(text)))).not.toContain("hunter2");
  });

  it("has one info with all labels a container", () => {
    const metrics = dockerInspectMetrics(value);
    sameLabelsThroughout(metrics);
    expect(metrics.find(({ name }) => name === "gridmeter_container_info")?.samples).toHaveLength(2);
    const started = metrics.find(({ name }) => name === "gridmeter_container_start_time_seconds");
    expect(started?.samples.map(({ labels }) => labels["container_id"])).toEqual(["0a1b2c3d4e5f"]);
  });

  it("leaves out what is no container, and one without an id from the metrics", () => {
    const text = JSON.stringify([{ Id: ID }, 7, null, { Name: "x" }, { Id: ID }, { Id: "" }]);
    const parsed = parseDockerInspect(printed(text));
    expect([parsed.rejected, parsed.value.length]).toEqual([4, 2]);
    expect(dockerInspectMetrics(parsed.value)[0]!.samples).toHaveLength(1);
  });

  it("takes a container that went away as an absence, and a daemon that did as a failure", () => {
    expect(parseDockerInspect(printed("[]\n", 1, "Error: No such object: abc\n"))).toEqual({ value: [], rejected: 0 });
    for (const said of [
      "Error: no such container abc\n",
      'Error: inspecting object: no such object: "abc"\n',
      'Error: no container with name or ID "abc" found: no such container\n',
    ]) {
      expect(parseDockerInspect(printed("[]\n", 125, said))).toEqual({ value: [], rejected: 0 });
      expect(parseDockerInspect(printed("", 125, said))).toEqual({ value: [], rejected: 0 });
    }
    expect(() => parseDockerInspect(printed("[]\n", 125, "Error: cannot connect to Podman\n"))).toThrow(ParseError);
    expect(() => parseDockerInspect(printed("[]\n", 2, "Error: No such object: abc\n"))).toThrow(ParseError);
    expect(() => parseDockerInspect(printed("[]\n", 1, DAEMON_DOWN))).toThrow("daemon_down");
    expect(() => parseDockerInspect(printed("{"))).toThrow(ParseError);
    expect(() => parseDockerInspect(printed(""))).toThrow(ParseError);
  });
});

describe("the GPUs of a container", () => {
  it.each([
    [
      "uuid and index",
      ["NVIDIA_VISIBLE_DEVICES=GPU-11111111-2222,1"],
      {},
      {},
      [
        ["uuid", "GPU-11111111-2222"],
        ["index", 1],
      ],
    ],
    [
      "void, and a label (openpai#2447)",
      ["NVIDIA_VISIBLE_DEVICES=void"],
      {},
      { GPU_ID: "3,2," },
      [
        ["minor", 3],
        ["minor", 2],
      ],
    ],
    ["all, and a label", ["NVIDIA_VISIBLE_DEVICES=all"], {}, { GPU_ID: "0" }, [["minor", 0]]],
    ["all that a CUDA image sets", ["NVIDIA_VISIBLE_DEVICES=all"], { Runtime: "runc" }, {}, undefined],
    ["all that NVIDIA's runtime reads", ["NVIDIA_VISIBLE_DEVICES=all"], { Runtime: "nvidia" }, {}, "all"],
    ["none", ["NVIDIA_VISIBLE_DEVICES=none"], { Runtime: "nvidia" }, {}, undefined],
    [
      "device files",
      [],
      { Devices: [{ PathOnHost: "/dev/nvidiactl" }, { PathOnHost: "/dev/nvidia5" }] },
      {},
      [["minor", 5]],
    ],
    ["--gpus all", [], { DeviceRequests: [{ Count: -1, DeviceIDs: null }] }, {}, "all"],
    [
      "--gpus 2",
      [],
      { DeviceRequests: [{ Count: 2, DeviceIDs: null }] },
      {},
      [
        ["index", 0],
        ["index", 1],
      ],
    ],
    ["--gpus device=1", [], { DeviceRequests: [{ Count: 0, DeviceIDs: ["1"] }] }, {}, [["index", 1]]],
    ["a MIG device by place", ["NVIDIA_VISIBLE_DEVICES=2:1"], {}, {}, [["index", 2]]],
    [
      "a MIG device by its GPU",
      ["NVIDIA_VISIBLE_DEVICES=MIG-GPU-11111111-2222/7/0"],
      {},
      {},
      [["uuid", "GPU-11111111-2222"]],
    ],
    ["nonsense", ["NVIDIA_VISIBLE_DEVICES=-1,x,$(id)"], {}, {}, undefined],
    ["nothing", [], {}, {}, undefined],
  ])("%s", (_, env, host, labels, expected) => {
    const { nvidia } = gpusOf(env, host, labels);
    expect(nvidia === "all" ? nvidia : nvidia?.map(({ by, value }) => [by, value])).toEqual(expected);
  });

  const cdi = (...ids: readonly string[]) => ({ DeviceRequests: [{ Driver: "cdi", Count: 0, DeviceIDs: ids }] });
  const UUID = "GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f";
  it.each([
    ["nvidia.com/gpu=0", [["index", 0]]],
    ["nvidia.com/gpu=all", "all"],
    [`nvidia.com/gpu=${UUID}`, [["uuid", UUID]]],
    ["nvidia.com/gpu=0:1", [["index", 0]]],
    ["nvidia.com/gpu=gpu3", [["index", 3]]],
    ["nvidia.com/gpu=mig2:0", [["index", 2]]],
    ["runtime.nvidia.com/gpu=1", [["index", 1]]],
    ["management.nvidia.com/gpu=all", "all"],
    [`k8s.device-plugin.nvidia.com/gpu=${UUID}`, [["uuid", UUID]]],
    ["nvidia.com/gds=all", undefined],
    ["example.com/gpu=0", undefined],
    ["nvidia.com/gpu=", undefined],
  ])("CDI: %s, in docker's requests, podman's devices, and the variable", (name, expected) => {
    const ways = [
      gpusOf(["NVIDIA_VISIBLE_DEVICES=void"], cdi(name)),
      gpusOf([], { Devices: [{ PathOnHost: name, PathInContainer: name }], DeviceRequests: null }),
      gpusOf([`NVIDIA_VISIBLE_DEVICES=${name}`]),
    ];
    for (const { nvidia, amd } of ways) {
      expect(nvidia === "all" ? nvidia : nvidia?.map(({ by, value }) => [by, value])).toEqual(expected);
      expect(amd).toBeUndefined();
    }
  });

  const read = (more: object) =>
    parseDockerInspect(printed(JSON.stringify({ Id: "0a1b2c3d4e5f", Config: { Env: [] }, ...more }))).value[0]!.gpus;
  const byPlugin = "/var/run/nvidia-container-devices";
  it.each([
    ["an annotation", { HostConfig: { Annotations: { "cdi.k8s.io/plugin_1": "nvidia.com/gpu=0,amd.com/gpu=1" } } }, 0],
    ["podman's annotation", { Config: { Annotations: { "cdi.k8s.io/x": "nvidia.com/gpu=2" } } }, 2],
    ["podman's command", { Config: { CreateCommand: ["podman", "run", "--device", "nvidia.com/gpu=3", "img"] } }, 3],
    ["the same in one word", { Config: { CreateCommand: ["podman", "run", "--device=nvidia.com/gpu=4", "img"] } }, 4],
    ["a mount by name", { Mounts: [{ Destination: `${byPlugin}/cdi/nvidia.com/gpu/5` }] }, 5],
    ["a mount by uuid", { Mounts: [{ Destination: `${byPlugin}/${UUID}` }] }, UUID],
    ["another annotation", { HostConfig: { Annotations: { note: "nvidia.com/gpu=0" } } }, undefined],
    ["what the container runs", { Config: { CreateCommand: ["podman", "run", "img", "nvidia.com/gpu=3"] } }, undefined],
    ["another mount", { Mounts: [{ Destination: "/data/nvidia-container-devices/0" }, null, {}] }, undefined],
  ])("CDI: in %s", (_, container, expected) => {
    const { nvidia } = read(container);
    expect(nvidia === "all" ? nvidia : nvidia?.map(({ value }) => value)).toEqual(
      expected === undefined ? undefined : [expected],
    );
  });

  it("CDI: several, of two makers, and beside what an image sets", () => {
    const both = gpusOf(["NVIDIA_VISIBLE_DEVICES=all"], cdi("nvidia.com/gpu=0", "nvidia.com/gpu=1", "amd.com/gpu=2"));
    expect(both.nvidia).toEqual([
      { by: "index", value: 0 },
      { by: "index", value: 1 },
    ]);
    expect(both.amd).toEqual([{ by: "index", value: 2 }]);
    expect(gpusOf([], cdi("amd.com/gpu=all")).amd).toBe("all");
    expect(gpusOf([], cdi("amd.com/gpu=all")).nvidia).toBeUndefined();
    expect(gpusOf(["NVIDIA_VISIBLE_DEVICES=/var/run/nvidia-container-devices"]).nvidia).toBeUndefined();
  });

  it("reads AMD's settings", () => {
    expect(gpusOf(["PAI_AMD_VISIBLE_DEVICES=0,1"]).amd).toMatchObject([{ by: "index", value: 0 }, { value: 1 }]);
    expect(gpusOf(["AMD_VISIBLE_DEVICES=0x28f3e2d1c0b9a8f7"]).amd).toMatchObject([{ by: "uuid" }]);
    expect(gpusOf([], { Devices: [{ PathOnHost: "/dev/dri/card2" }] }).amd).toEqual([{ by: "minor", value: 2 }]);
    expect(gpusOf(["NVIDIA_VISIBLE_DEVICES=0"]).amd).toBeUndefined();
  });
});

describe("docker ps", () => {
  it("gives ids once, and nothing that could be an option or a path", () => {
    const lines = [ID, "0a1b2c3d4e5f", ID, "--help", "../x", "", "ABCDEF012345"];
    const { value, rejected } = parseDockerList(printed(lines.join("\n")));
    expect([value.map(({ id }) => id), rejected]).toEqual([[ID, "0a1b2c3d4e5f"], 4]);
  });

  it("gives names where they were printed, of a linked container its own", () => {
    const pod = "k8s_app_job-1_lab_aaaaaaaa-0000-4000-8000-000000000000_0";
    const lines = [`${ID} ${pod}`, "0a1b2c3d4e5f db,web/db", "1a1b2c3d4e5f", "2a1b2c3d4e5f $(x)"];
    const unknown = { namespace: undefined, pod: undefined, container: undefined };
    expect(parseDockerList(printed(lines.join("\n")))).toEqual({
      value: [
        { id: ID, name: pod, namespace: "lab", pod: "job-1", container: "app" },
        { id: "0a1b2c3d4e5f", name: "db", ...unknown },
        { id: "1a1b2c3d4e5f", name: undefined, ...unknown },
      ],
      rejected: 1,
    });
  });

  it("is empty when nothing runs, and no data when docker fails", () => {
    expect(parseDockerList(printed(""))).toEqual({ value: [], rejected: 0 });
    expect(() => parseDockerList(printed("", 1, DAEMON_DOWN))).toThrow("daemon_down");
    expect(() => parseDockerList(printed("CONTAINER ID   IMAGE\n"))).toThrow(ParseError);
  });
});

describe("docker inspect where docker is podman", () => {
  const podman = (more: object = {}, state: object = {}) => ({
    Id: "b".repeat(64),
    Name: "trainer",
    ImageName: "docker.io/library/cuda:12",
    RestartCount: 2,
    State: { Status: "running", Pid: 77, OOMKilled: false, StartedAt: "2026-02-10T13:00:00.123456789+01:00", ...state },
    Config: { Env: ["container=podman", "PAI_JOB_NAME=job~1"], Labels: null },
    HostConfig: { Runtime: "oci", Devices: [], DeviceRequests: null },
    ...more,
  });
  const read = (...all: object[]) => parseDockerInspect(printed(JSON.stringify(all))).value;

  it("is read: the name without a slash, the image by its own key, no labels, a time with an offset", () => {
    expect(read(podman())[0]).toMatchObject({
      name: "trainer",
      image: "docker.io/library/cuda:12",
      job: { job: "job~1" },
      pid: 77,
      restartCount: 2,
      oomKilled: false,
      startTime: Date.parse("2026-02-10T12:00:00.123Z") / 1000,
      healthy: undefined,
    });
  });

  it.each([
    [{ Health: { Status: "healthy" } }, true],
    [{ Healthcheck: { Status: "unhealthy" } }, false],
    [{ Health: { Status: "", FailingStreak: 0, Log: null } }, undefined],
    [{ Healthcheck: { Status: "starting" } }, undefined],
  ])("a health check %j", (state, healthy) => {
    expect(read(podman({}, state))[0]?.healthy).toBe(healthy);
  });

  it("a container that went away is no failure, whatever podman calls it", () => {
    for (const text of ['Error: no such object: "bbb"\n', 'Error: inspecting object: no such container "bbb"\n']) {
      expect(parseDockerInspect(printed("[]\n", 125, text))).toEqual({ value: [], rejected: 0 });
    }
  });

  it("is read after podman-docker's words", () => {
    const words = "Emulate Docker CLI using podman. Create /etc/containers/nodocker to quiet msg.\n";
    expect(parseDockerInspect(printed(`${words}${JSON.stringify([podman()])}`)).value).toHaveLength(1);
  });
});
