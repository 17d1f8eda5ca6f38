import { describe, expect, it } from "vitest";
import { dockerDaemonMetrics, parseDockerDaemon, parseSystemctl } from "../../lib/agent/probes/docker-daemon.ts";
import { sameLabelsThroughout } from "../support/metrics.ts";
import { expectedOf, haveSamples, printed, readSample } from "../support/samples.ts";

/** The manifest's exit codes. */
const CODES: Record<string, number> = { active: 0, reloading: 0, unknown: 4, no_systemd: 1 };

if (haveSamples) {
  const outputs = expectedOf<{ active: 0 | 1 | null; state: string }>(/^systemctl_/);

  const run = (file: string) => {
    const [, word = ""] = /^systemctl_isactive_([a-z_]+)\./.exec(file) ?? [];
    const text = readSample(file);
    const code = CODES[word] ?? 3;
    return file.endsWith(".stderr.txt") ? printed("", code, text) : printed(text, code);
  };

  describe("real outputs of systemctl is-active", () => {
    it("are all looked at", () => {
      expect(outputs).toHaveLength(8);
    });

    it.each(outputs)("%s", (file, expected) => {
      const { value } = parseSystemctl(run(file));
      const active = value.active === undefined ? null : Number(value.active);
      expect({ active, probe: "systemctl", state: value.state }).toEqual(expected);
    });

    it.each(outputs)("%s as the docker-daemon probe", (file, { active }) => {
      const { value } = parseDockerDaemon(run(file));
      const metrics = dockerDaemonMetrics(value);
      sameLabelsThroughout(metrics);
      const up = metrics.find(({ name }) => name === "gridmeter_docker_up")?.samples[0]?.value;
      expect(up ?? null).toBe(active);
    });
  });
} else {
  it("has no shared samples here: the fixtures of test/unit/probes cover the same shapes", () => {
    expect(haveSamples).toBe(false);
  });
}
