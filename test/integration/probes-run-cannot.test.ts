// Probes that cannot work on a node, as only a run of their command shows, with real child processes.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createProbe } from "../../lib/agent/probes/registry.ts";
import type { ProbeSettings } from "../../lib/agent/probes/common/settings.ts";

let folder: string;
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), "gridmeter-cannot-"))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const probeOf = (name: string, more: ProbeSettings) =>
  createProbe(name, { requireDevice: false, timeout: 30, ...more });

describe("a command that starts another program", () => {
  const end = async (command: readonly [string, ...string[]], name = "docker-stats") => {
    const probe = probeOf(name, { command });
    expect(await probe.unavailable()).toBeUndefined();
    return await probe.run();
  };

  test.each([
    [["env", "no-such-tool"]],
    [["timeout", "5", "no-such-tool"]],
    [["nice", "no-such-tool"]],
    [["setpriv", "--no-new-privs", "no-such-tool"]],
    [["sh", "-c", "no-such-tool"]],
    [["sh", "-c", "echo 'nsenter: failed to execute nvidia-smi: No such file or directory' >&2; exit 1"]],
    [["sh", "-c", "echo 'sudo: nvidia-smi: command not found' >&2; exit 1"]],
    [["sh", "-c", "echo 'exec of \"nvidia-smi\" failed: No such file or directory' >&2; exit 255"]],
  ] as const)("%j: the tool is not found", async (command) => {
    for (const name of ["docker-stats", "nvidia-smi", "ps"]) {
      expect(await end(command, name)).toMatchObject({ kind: "not_found", metrics: [] });
    }
  });

  test("one that may not be run is not executable", async () => {
    const file = join(folder, "may-not-run");
    writeFileSync(file, "x", { mode: 0o644 });
    expect(await end(["timeout", "5", file])).toMatchObject({ kind: "not_executable", exitCode: 126 });
  });

  test.each([
    [
      [
        "sh",
        "-c",
        "echo 'nvidia-smi: error while loading shared libraries: libc.so.6: cannot open shared object file: No such file or directory' >&2; exit 127",
      ],
    ],
    [["sh", "-c", "echo 'nsenter: cannot open /proc/7/ns/mnt: No such file or directory' >&2; exit 1"]],
    [["sh", "-c", "echo 'GPU 7: not found' >&2; exit 6"]],
    [["sh", "-c", "exit 127"]],
  ] as const)("%j: one that is there and fails has failed", async (command) => {
    expect(await end(command, "nvidia-smi")).toMatchObject({ kind: "exit_nonzero" });
  });
});

describe("a tool that can never do what it is asked on this node", () => {
  test.each([
    ["docker-stats", "Error: stats is not supported in rootless mode without cgroups v2", 125],
    ["docker-stats", "unknown flag: --no-stream", 125],
    ["docker-inspect", "unknown shorthand flag: 'n' in --no-trunc", 125],
    [
      "crictl-stats",
      'level=fatal msg="validate service connection: validate CRI v1 runtime API for endpoint: rpc error: code = Unimplemented desc = unknown service runtime.v1.RuntimeService"',
      1,
    ],
  ])("%s is off, which is no failure: %s", async (name, text, code) => {
    const list = { listCommand: ["sh", "-c", `echo "${text.replaceAll('"', "")}" >&2; exit ${code}`] as const };
    const own = { command: list.listCommand };
    const run = await probeOf(name, name === "docker-inspect" ? list : own).run();
    expect(run).toMatchObject({ kind: "disabled", exitCode: code, metrics: [] });
    expect(run.detail).toContain(text.replaceAll('"', "").slice(0, 40));
  });

  test("but a failure that may pass is one", async () => {
    const text = "Error response from daemon: permission denied";
    const run = await probeOf("docker-stats", { command: ["sh", "-c", `echo "${text}" >&2; exit 1`] }).run();
    expect(run.kind).toBe("exit_nonzero");
    const custom = await probeOf("own", { command: ["sh", "-c", "echo 'unknown flag: -z' >&2; exit 2"] }).run();
    expect(custom.kind).toBe("exit_nonzero");
  });

  test.each([
    "bash: train.py: command not found",
    "unknown command",
    "not supported in rootless mode",
    "configured logging driver does not support reading",
    "Error: no such container",
    "permission denied",
  ])("what a job wrote on its stderr (%s) is not docker's word", async (text) => {
    const run = await probeOf("docker-logs", {
      marker: "END",
      command: ["sh", "-c", `echo "${text}" >&2; echo "Error response from daemon: EOF" >&2; exit 1`, "logs", "{id}"],
      listCommand: ["sh", "-c", `echo ${"a".repeat(64)}`],
    }).run();
    expect(run).toMatchObject({ kind: "exit_nonzero", exitCode: 1 });
    expect(run.detail).toContain("(other)");
  });

  test("containers whose log is kept elsewhere: the others are read, and it is said", async () => {
    const script = `case "$1" in *1) echo "Error: configured logging driver does not support reading" >&2; exit 1;; esac; echo END`;
    const ids = ["a".repeat(64), `${"b".repeat(63)}1`];
    const run = await probeOf("docker-logs", {
      marker: "END",
      command: ["sh", "-c", script, "logs", "{id}"],
      listCommand: ["sh", "-c", `printf '%s %s\\n' ${ids[0]} k8s_main_web-0_shop_u-1_0 ${ids[1]} other`],
    }).run();
    expect(run).toMatchObject({ kind: "ok", rejected: 0, warning: expect.stringContaining("logging driver") });
    // Each has the names that docker ps lists.
    expect(run.metrics.map(({ samples }) => samples)).toEqual([
      [
        {
          labels: {
            container_id: "a".repeat(12),
            name: "k8s_main_web-0_shop_u-1_0",
            namespace: "shop",
            pod: "web-0",
            container: "main",
          },
          value: 1,
        },
      ],
    ]);
  });
});
