import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type AgentOverrides, loadAgentConfig } from "../../../lib/agent/config.ts";
import { GridmeterError } from "../../../lib/shared/errors.ts";
import { PROBE_NAMES } from "../../../lib/agent/probes/common/settings.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gridmeter-agent-config-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const write = (text: string, name = "agent.yaml"): string => {
  const file = join(folder, name);
  writeFileSync(file, text);
  return file;
};
const load = (text: string, overrides: AgentOverrides = {}, env = {}) =>
  loadAgentConfig(env, { config: write(text), ...overrides });

/** The lines of the error, one a problem. */
const problems = (read: () => unknown): string[] => {
  try {
    read();
  } catch (error) {
    expect(error).toBeInstanceOf(GridmeterError);
    expect((error as GridmeterError).code).toBe("config_invalid");
    expect((error as GridmeterError).message).toContain("nothing was started and nothing was published");
    return (error as GridmeterError).message
      .split("\n")
      .filter((line) => line.startsWith("  - "))
      .map((line) => line.slice(4));
  }
  return [];
};

describe("what is read", () => {
  it("is the defaults, without any configuration", () => {
    expect(loadAgentConfig({})).toEqual({
      listen: ":9102",
      instance: hostname(),
      job: "gridmeter_agent",
      pushgateway: undefined,
      probes: {},
      openpaiNames: false,
      logLevel: "info",
      file: undefined,
    });
    for (const empty of ["", "# nothing\n", "{}", "probes:\npushgateway:\n"]) {
      expect(load(empty), empty).toMatchObject({ listen: ":9102", probes: {}, pushgateway: undefined });
    }
  });

  it("is YAML, and JSON alike", () => {
    const config = {
      listen: "[::1]:0",
      instance: "gpu-7",
      job: "nodes",
      logLevel: "warn",
      openpaiNames: true,
      pushgateway: { url: "https://push.example.org/prefix/", interval: "1m" },
      probes: {
        "nvidia-smi": { command: ["/opt/bin/nvidia-smi", "-q", "-x"], interval: "1m30s", timeout: 45, expectedGpus: 8 },
        "docker-logs": { marker: "USER COMMAND END", lines: 20, commandTimeout: "500ms", concurrency: 2 },
        ps: { enabled: false },
        fans: { type: "custom", command: ["/usr/local/bin/fans", "--count", 3] },
      },
    };
    const yaml = `listen: "[::1]:0"
instance: gpu-7
job: nodes
logLevel: warn
openpaiNames: true
pushgateway:
  url: https://push.example.org/prefix/
  interval: 1m
probes:
  nvidia-smi:
    command: [/opt/bin/nvidia-smi, -q, -x]
    interval: 1m30s
    timeout: 45
    expectedGpus: 8
  docker-logs: { marker: USER COMMAND END, lines: 20, commandTimeout: 500ms, concurrency: 2 }
  ps: { enabled: false }
  fans: { type: custom, command: [/usr/local/bin/fans, --count, 3] }
`;
    const read = load(yaml);
    expect(read).toEqual(load(JSON.stringify(config)));
    expect(read).toMatchObject({
      listen: "[::1]:0",
      pushgateway: { url: "https://push.example.org/prefix", interval: 60 },
      probes: {
        "nvidia-smi": { interval: 90, timeout: 45, expectedGpus: 8 },
        "docker-logs": { commandTimeout: 0.5, marker: "USER COMMAND END" },
        ps: { enabled: false },
        fans: { command: ["/usr/local/bin/fans", "--count", "3"] },
      },
    });
  });

  it("takes an option before a variable before the file", () => {
    const text = "instance: file\nlisten: :1\npushgateway: {url: 'http://file', interval: 5s}\n";
    const env = { NODE_NAME: "variable", PUSHGATEWAY_URL: "http://variable" };
    expect(load(text)).toMatchObject({ instance: "file", listen: ":1", pushgateway: { url: "http://file" } });
    expect(load(text, {}, env)).toMatchObject({
      instance: "variable",
      pushgateway: { url: "http://variable", interval: 5 },
    });
    const options = { instance: "option", pushgateway: "http://option", listen: "off", openpaiNames: true };
    expect(load(text, options, env)).toMatchObject({
      instance: "option",
      pushgateway: { url: "http://option", interval: 5 },
      listen: undefined,
      openpaiNames: true,
    });
    // a variable that is empty counts as not set, as everywhere
    expect(load(text, {}, { NODE_NAME: "", PUSHGATEWAY_URL: " " })).toMatchObject({ instance: "file" });
    expect(loadAgentConfig({ GRIDMETER_AGENT_CONFIG: write(text) }).instance).toBe("file");
    expect(loadAgentConfig({ GRIDMETER_AGENT_CONFIG: "/nowhere" }, { config: write(text) }).instance).toBe("file");
  });

  it("finds files beside the configuration", () => {
    mkdirSync(join(folder, "secrets"));
    write("x", "secrets/token");
    const { pushgateway } = load("pushgateway: {url: 'http://h', bearerTokenFile: secrets/token, caFile: agent.yaml}");
    expect(pushgateway).toMatchObject({
      bearerTokenFile: join(folder, "secrets/token"),
      caFile: join(folder, "agent.yaml"),
    });
  });
});

describe("what is wrong", () => {
  it("is said all at once, each with its path, what was written and what to write", () => {
    const said = problems(() =>
      load(`listen: 9102999
instnce: x
job: ""
pushgateway: {url: "ftp://h", interval: 0}
probes:
  nvidia-smi: {interval: 2s, marker: x}
  nvidia_smi: {command: [nvidia-smi]}
  ps: {timeout: 0, interval: -3s, command: ps ax}
  docker-stats: {timeout: 2h, enabled: 2}
  docker-inspect: {timeout: 5 parsecs}
  iftop: 7
  own: {type: custom, command: []}
logLevel: loud
`),
    );
    const about = (start: string) => said.filter((line) => line.startsWith(start));
    expect(about("listen=9102999: ")[0]).toContain('Write for example ":9102"');
    expect(about("instnce: ")[0]).toContain("did you mean instance?");
    expect(about('job="": ')).toHaveLength(1);
    expect(about('pushgateway.url="ftp://h/": ')[0]).toContain("http://pushgateway:9091");
    expect(about("pushgateway.interval=0: ")[0]).toContain("is not a duration from 1s to 2m");
    expect(about('probes.nvidia-smi.interval="2s": ')[0]).toContain("is less than 5s");
    expect(about("probes.nvidia-smi.marker: ")[0]).toContain("expectedGpus");
    expect(about("probes.nvidia_smi: ")[0]).toContain("did you mean nvidia-smi?");
    expect(about("probes.ps.timeout=0: ")[0]).toContain("is not a duration from 100ms to 1h");
    expect(about('probes.ps.interval="-3s": ')[0]).toContain("30s");
    expect(about("probes.ps.command=")[0]).toContain("No shell reads it");
    expect(about('probes.docker-stats.timeout="2h": ')).toHaveLength(1);
    expect(about("probes.docker-stats.enabled=2: ")).toHaveLength(1);
    expect(about('probes.docker-inspect.timeout="5 parsecs": ')).toHaveLength(1);
    expect(about("probes.iftop=7: ")).toHaveLength(1);
    expect(about("probes.own.command: ")).toHaveLength(1);
    expect(about('logLevel="loud": ')[0]).toContain("debug, info, warn, error");
    expect(said).toHaveLength(17);
  });

  it("names the option or the variable that was given", () => {
    expect(problems(() => load("", { listen: "x" }))[0]).toMatch(/^--listen="x": /);
    expect(problems(() => load("", { pushgateway: "x" }))[0]).toMatch(/^--pushgateway="x": /);
    expect(problems(() => load("", {}, { PUSHGATEWAY_URL: "x" }))[0]).toMatch(/^PUSHGATEWAY_URL="x": /);
  });

  it.each([
    ["a: 1\na: 2", "has a key that occurs twice"],
    ["probes: {ps: {timeout: 1s}, ps: {timeout: 2s}}", "has a key that occurs twice"],
    ["a: [", "is not valid YAML"],
    ["- 1\n- 2", "is no mapping"],
    ["just a text", "is no mapping"],
    ["pushgateway: http://h", "is no mapping"],
    ["probes: [ps]", "is no mapping"],
    [`a: &a [x]\nb: &b [${"*a,".repeat(99)}]\nc: &c [${"*b,".repeat(99)}]\nd: [${"*c,".repeat(99)}]`, "aliases"],
  ])("%j is no configuration", (text, why) => {
    expect(problems(() => load(text)).join("\n")).toContain(why);
  });

  it("is a file that cannot be read", () => {
    expect(problems(() => loadAgentConfig({}, { config: join(folder, "none.yaml") }))[0]).toContain("ENOENT");
    const said = problems(() =>
      load("pushgateway: {url: 'http://h', username: u, passwordFile: none, caFile: ., bearerTokenFile: none}"),
    );
    expect(said.find((line) => line.startsWith('pushgateway.passwordFile="none"'))).toContain("ENOENT");
    expect(said.find((line) => line.startsWith('pushgateway.caFile="."'))).toContain("is a directory");
    expect(said.join()).toContain("only one can be sent");
  });

  it("is half of the credentials, or none to talk to", () => {
    expect(problems(() => load("pushgateway: {url: 'http://h', username: u}"))[0]).toContain(
      "passwordFile: is not set",
    );
    expect(problems(() => load("pushgateway: {url: 'http://h', passwordFile: agent.yaml}"))[0]).toContain("username");
    expect(problems(() => load("pushgateway: {interval: 5s}"))[0]).toContain("pushgateway.url: is not set");
  });

  it("never shows a secret", () => {
    const texts = [
      "pushgateway: {url: 'http://user:hunter2@h:x'}",
      "pushgateway: {url: 'ftp://user:hunter2@h'}",
      "pushgateway: {url: 'http://h', password: hunter2}",
      "pushgateway: {url: 'http://h', bearerToken: [hunter2]}",
      "password: hunter2",
      "probes: {own: {type: custom, command: curl -u user:hunter2 h}}",
      "probes: {own: {type: custom, command: [curl, {a: hunter2}]}}",
      "probes: {own: {token: hunter2, type: custom, command: [a]}}",
    ];
    for (const text of texts) {
      const said = problems(() => load(text)).join("\n");
      expect(said, text).not.toBe("");
      expect(said, text).not.toContain("hunter2");
    }
  });

  it.each(["agent", "a/b", "", "-x", "x".repeat(64), "a b"])("%j is no name for a probe", (name) => {
    const said = problems(() => load(JSON.stringify({ probes: { [name]: { type: "custom", command: ["x"] } } })));
    expect(said.join()).toContain("is no name for a probe");
  });
});

it("takes every duration there is, and no number that is none", () => {
  const timeoutOf = (timeout: unknown) => load(JSON.stringify({ probes: { ps: { timeout } } })).probes["ps"]?.timeout;
  expect(["100ms", "30s", "1.5s", "2m", "1m30s", "1h", 30, 0.5, "30"].map(timeoutOf)).toEqual([
    0.1, 30, 1.5, 120, 90, 3600, 30, 0.5, 30,
  ]);
  for (const bad of [
    0,
    -1,
    "0",
    "0s",
    "99ms",
    "61m",
    3601,
    "",
    "s",
    "1y",
    "30 seconds x",
    "1,5s",
    true,
    [30],
    "1e3s",
  ]) {
    expect(
      problems(() => timeoutOf(bad)),
      JSON.stringify(bad),
    ).toHaveLength(1);
  }
});

it("reads or refuses any document, and gives every probe of it a finite timeout", () => {
  const keys = fc.oneof(
    fc.constantFrom("listen", "probes", "pushgateway", "url", "interval", "timeout", "type", "command", ...PROBE_NAMES),
    fc.string({ maxLength: 5 }),
  );
  const value = fc.jsonValue({ maxDepth: 1 });
  const documents = fc.dictionary(
    keys,
    fc.oneof(value, fc.dictionary(keys, fc.oneof(value, fc.dictionary(keys, value)))),
  );
  fc.assert(
    fc.property(documents, (document) => {
      try {
        const { probes } = load(JSON.stringify(document));
        for (const { timeout = 1 } of Object.values(probes)) {
          expect(timeout).toBeGreaterThanOrEqual(0.1);
          expect(timeout).toBeLessThanOrEqual(3600);
        }
      } catch (error) {
        expect(error).toBeInstanceOf(GridmeterError);
      }
    }),
    { numRuns: 50 },
  );
});

it("a list with one number, or one word, is neither a number nor a word", () => {
  expect(() => load("probes: {ps: {largeResidentBytes: [5]}}")).toThrow("largeResidentBytes");
  expect(() => load("probes: {ps: {enabled: [true]}}")).toThrow("enabled");
});
