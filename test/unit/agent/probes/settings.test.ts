import { describe, expect, test } from "vitest";
import { PROBE_DEFAULTS, createProbe } from "../../../../lib/agent/probes/registry.ts";
import { PROBE_NAMES, type ProbeSettings, isProbeName } from "../../../../lib/agent/probes/common/settings.ts";
import { fillIn, hasPlaceholder } from "../../../../lib/agent/probes/common/probe.ts";

describe("a probe", () => {
  test.each(PROBE_NAMES)("%s has finite limits and a command by default", (name) => {
    const probe = createProbe(name);
    const { interval, timeout, command, description, maxBytes } = PROBE_DEFAULTS[name];
    expect([probe.name, probe.interval, probe.timeout, probe.stuck()]).toStrictEqual([name, interval, timeout, 0]);
    expect(timeout).toBeGreaterThan(0);
    expect(timeout).toBeLessThanOrEqual(interval);
    expect(maxBytes).toBeGreaterThan(0);
    expect(command[0]).toMatch(/^[a-z-]+$/);
    expect(description).toMatch(/^\S.{10,120}$/);
  });

  test("takes its limits from the settings", () => {
    const probe = createProbe("ps", { interval: 7, timeout: 0.5 });
    expect([probe.interval, probe.timeout]).toStrictEqual([7, 0.5]);
  });

  const refused: readonly (readonly [string, ProbeSettings, RegExp])[] = [
    ["ps", { timeout: 0 }, /timeout of the probe ps is 0\. Nothing was started/],
    ["ps", { timeout: -1 }, /timeout of the probe ps is -1/],
    ["ps", { timeout: Number.NaN }, /timeout of the probe ps is NaN/],
    ["ps", { timeout: Infinity }, /timeout of the probe ps is Infinity/],
    ["ps", { interval: 0 }, /interval of the probe ps is 0/],
    ["ps", { maxBytes: 0 }, /byte cap of the probe ps is 0/],
    ["lsof", { concurrency: 0 }, /concurrency of the probe lsof is 0/],
    ["docker-inspect", { commandTimeout: 0 }, /commandTimeout of the probe docker-inspect is 0/],
    ["docker-inspect", { command: ["docker", "inspect"] }, /\["docker","inspect"\], without \{id\}/],
    ["docker-logs", { command: ["docker", "logs", "{pid}"] }, /without \{id\}/],
    ["lsof", { command: ["lsof", "-i", "{id}"] }, /without \{pid\}/],
    ["docker-logs", { marker: "" }, /marker of the probe docker-logs is ""/],
    ["nvidia", {}, /probe "nvidia" has no command, and is none of gridmeter's own.*nvidia-smi/],
  ];
  test.each(refused)("%s is refused with %o", (name, settings, message) => {
    expect(() => createProbe(name, settings)).toThrow(message);
    expect(() => createProbe(name, settings)).toThrow(expect.objectContaining({ code: "config_invalid" }));
  });

  test("of another name than these is a custom one", () => {
    expect([isProbeName("lsof"), isProbeName("rooms"), isProbeName("toString")]).toStrictEqual([true, false, false]);
    expect(createProbe("toString", { command: ["true"] }).name).toBe("toString");
  });
});

describe("placeholders in a command", () => {
  test("are replaced wherever they are, if they have a value", () => {
    const argv = ["tool", "--id={id}", "{id}{pid}", "{{json .}}", "{toString}"] as const;
    expect(fillIn(argv, { id: "a{pid}" })).toStrictEqual([
      "tool",
      "--id=a{pid}",
      "a{pid}{pid}",
      "{{json .}}",
      "{toString}",
    ]);
    expect([hasPlaceholder(argv, "pid"), hasPlaceholder(argv, "json")]).toStrictEqual([true, false]);
  });

  test("are in the commands that are run once a container", () => {
    expect(PROBE_DEFAULTS.lsof.command.join(" ")).toBe("nsenter --target {pid} --net -- lsof -i -n -P -l");
    expect(PROBE_DEFAULTS["docker-logs"].command.join(" ")).toBe("docker logs --tail {lines} -- {id}");
    expect(PROBE_DEFAULTS["docker-inspect"].command.join(" ")).toBe("docker inspect --type container -- {id}");
    expect(PROBE_DEFAULTS.iftop.command.join(" ")).toMatch(/ -i \{interface\}$/);
  });
});
