import { readFileSync, readdirSync } from "node:fs";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseStat } from "../../../lib/shared/proc.ts";
import { parseAddress } from "../../../lib/agent/server.ts";
import { ErrorLog } from "../../../lib/agent/push-errors.ts";
import type { Output } from "../../../lib/agent/command/types.ts";
import { gatewayUrl, listen, text as textSetting } from "../../../lib/agent/config-values.ts";
import { parseCgroup } from "../../../lib/agent/probes/common/cgroup.ts";
import { containerLabels, kubernetesNames } from "../../../lib/agent/probes/common/container.ts";
import { parseCrictlStats } from "../../../lib/agent/probes/crictl-stats.ts";
import { parseCustom } from "../../../lib/agent/probes/custom.ts";
import { parseDockerDaemon, parseSystemctl } from "../../../lib/agent/probes/docker-daemon.ts";
import { parseDockerInspect } from "../../../lib/agent/probes/docker-inspect.ts";
import { parseDockerList, parsePercent, parseSize, saysGone } from "../../../lib/agent/probes/common/docker.ts";
import { parseDockerLogs } from "../../../lib/agent/probes/docker-logs.ts";
import { parseDockerStats } from "../../../lib/agent/probes/docker-stats.ts";
import { labelText } from "../../../lib/agent/probes/common/parse.ts";
import { defaultInterface, parseIftop } from "../../../lib/agent/probes/iftop.ts";
import { parseEndpoint, parseLsof } from "../../../lib/agent/probes/lsof.ts";
import { parseNvidiaSmi } from "../../../lib/agent/probes/nvidia-smi.ts";
import { parseGpuList } from "../../../lib/agent/probes/nvidia-smi-lost.ts";
import { readResult } from "../../../lib/agent/probes/common/probe.ts";
import { agentOf } from "../../../lib/agent/command/start.ts";
import { parseNumber } from "../../../lib/agent/probes/nvidia-smi-log.ts";
import { commandName, kernelName, parsePs, psMetrics } from "../../../lib/agent/probes/ps.ts";
import { longStanding, watchProcesses } from "../../../lib/agent/probes/ps-watch.ts";
import { parseAmdSmi } from "../../../lib/agent/probes/amd-smi.ts";
import { parseRocmSmi } from "../../../lib/agent/probes/rocm-smi.ts";
import { PROBE_DEFAULTS } from "../../../lib/agent/probes/registry.ts";
import { GroupList } from "../../../lib/shared/pushgateway-groups.ts";
import { groupPath } from "../../../lib/shared/pushgateway.ts";
import { below, nameOf, parseUrl } from "../../../lib/shared/server-url.ts";
import { HOSTILE, KINDS, growth, repeated } from "../../support/growth.ts";
import { keptLog } from "../../support/agent-parts.ts";
import { fixture } from "../../support/probe-fixtures.ts";
import { duration } from "../../../lib/shared/config-values.ts";
import { isLong } from "../../support/size.ts";

type Work = (text: string) => unknown;

const out = (stdout: string, stderr = "", exitCode = 0): Output => ({ stdout, stderr, exitCode });
const both =
  (parse: (output: Output) => unknown): Work =>
  (text) => [
    attempt(() => parse(out(text))),
    attempt(() => parse(out("", text, 1))),
    attempt(() => parse(out(text, text))),
  ];
const attempt = (work: () => unknown): unknown => {
  try {
    return work();
  } catch {
    return undefined;
  }
};
const psWork: Work = (text) => {
  const { value } = parsePs(out(text));
  const watch = watchProcesses(watchProcesses(undefined, value, 0), value, 30);
  return psMetrics(value, { longStanding: longStanding(watch, 10), largeResidentBytes: -1 });
};

const NVIDIA = fixture("nvidia-smi-v12-mig.xml");
const GPU = '<nvidia_smi_log>\n\t<attached_gpus>1</attached_gpus>\n\t<gpu id="0">\n\t\t<uuid>GPU-1</uuid>\n';
const NAME = `${GPU}\t\t<processes>\n\t\t\t<process_info>\n\t\t\t\t<pid>1</pid>\n\t\t\t\t<process_name>`;
const END = "</process_name>\n\t\t\t</process_info>\n\t\t</processes>\n\t</gpu>\n</nvidia_smi_log>\n";
const IFTOP = fixture("iftop.txt");
const TABLE = "CONTAINER ID,NAME,CPU %,MEM USAGE / LIMIT\n";
const { crictl, ...MOST } = Object.fromEntries([
  ...Object.entries(PROBE_DEFAULTS).map(([name, { maxBytes }]) => [name, maxBytes] as const),
  ["crictl", PROBE_DEFAULTS["crictl-stats"].maxBytes] as const,
]);
const KIB = 1024;

/** Every parser of text that others write, with the length that it may have. */
const PARSERS: readonly (readonly [string, number, Work])[] = [
  ["ps, as it is", MOST["ps"]!, psWork],
  ["ps, a command line", MOST["ps"]!, (text) => psWork(`S 1 1 init\nD 600000 7 ${text}\nS 1 8 a\n`)],
  ["ps, a kernel's name", MOST["ps"]!, (text) => psWork(`S 1 1 0 0 do_wait init\nD 600000 7 0 0 x ${text}\nS 1 8 0 0 x a\n`)],
  ["ps, a wait", MOST["ps"]!, (text) => psWork(`S 1 1 0 0 do_wait init\nD 6 7 0 0 ${text} x\nS 1 8 0 0 x a\n`)],
  ["a command line", 131_072, commandName],
  ["a bracketed command line", 131_072, (text) => commandName(`[${text}`)],
  ["a path", 131_072, (text) => commandName(`/${text}x`)],
  ["a kernel's name", 131_072, kernelName],
  ["nvidia-smi, as it is", MOST["nvidia-smi"]!, both(parseNvidiaSmi)],
  ["nvidia-smi, before the log", MOST["nvidia-smi"]!, (text) => parseNvidiaSmi(out(text + NVIDIA))],
  ["nvidia-smi, a name", MOST["nvidia-smi"]!, (text) => parseNvidiaSmi(out(NAME + text + END))],
  ["nvidia-smi, a value", MOST["nvidia-smi"]!, (text) => parseNvidiaSmi(out(`${GPU}<fan_speed>${text}</fan_speed>\n</gpu></nvidia_smi_log>`))],
  ["nvidia-smi, a log without lines", MOST["nvidia-smi"]!, (text) => parseNvidiaSmi(out(`<nvidia_smi_log>${text}</nvidia_smi_log>`))],
  ["a number of nvidia-smi", 131_072, (text) => parseNumber(text, "bytes")],
  ["nvidia-smi, a lost GPU", MOST["nvidia-smi"]!, (text) => attempt(() => parseNvidiaSmi(out(`Unable to determine the device handle for GPU0000:CF:00.0: ${text}`, text, 255)))],
  ["nvidia-smi -L", MOST["nvidia-smi"]!, (text) => [parseGpuList(out(text)), parseGpuList(out(`GPU 0: ${text} (UUID: GPU-${text})`))]],
  ["amd-smi, as it is", MOST["amd-smi"]!, both(parseAmdSmi)],
  ["amd-smi, a value", MOST["amd-smi"]!, (text) => parseAmdSmi(out(JSON.stringify([{ gpu: 0, usage: { gfx_activity: text }, asic: { market_name: text } }])))],
  ["rocm-smi, as it is", MOST["rocm-smi"]!, both(parseRocmSmi)],
  ["rocm-smi, a value", MOST["rocm-smi"]!, (text) => parseRocmSmi(out(JSON.stringify({ card0: { "GPU use (%)": text, "PCI Bus": text }, system: { PID1: text, "PIDs for KFD processes": text } })))],
  ["rocm-smi, a key", MOST["rocm-smi"]!, (text) => parseRocmSmi(out(JSON.stringify({ card0: { [text]: "1" }, system: { [text]: "1" } })))],
  ["docker info", MOST["docker-daemon"]!, both(parseDockerDaemon)],
  ["docker info of podman", MOST["docker-daemon"]!, (text) => attempt(() => parseDockerDaemon(out(`${text}\n${JSON.stringify({ store: { graphDriverName: text, containerStore: { number: text } }, version: { Version: text } })}`)))],
  ["why a command failed", 1024 * KIB, (text) => readResult({ kind: "exit_nonzero", output: out(text, `exec of ${text}`, 127), seconds: 1 }, parseDockerStats)],
  ["a mark", 128 * KIB, (text) => agentOf(`pid:[1]/${text}`)],
  ["docker stats, as it is", MOST["docker-stats"]!, both(parseDockerStats)],
  ["docker stats, a table", MOST["docker-stats"]!, (text) => parseDockerStats(out(TABLE + text))],
  ["docker stats, a heading", MOST["docker-stats"]!, (text) => parseDockerStats(out(`${TABLE.trim()}${text}\n`))],
  ["docker stats, values", MOST["docker-stats"]!, (text) => parseDockerStats(out(JSON.stringify({ ID: "0a1b2c3d4e5f", Name: text, CPUPerc: text, MemUsage: text, NetIO: text, PIDs: text })))],
  ["docker ps", 1024 * KIB, both(parseDockerList)],
  ["docker ps, names", 1024 * KIB, (text) => parseDockerList(out(`0a1b2c3d4e5f ${text}`))],
  ["docker inspect, as it is", MOST["docker-inspect"]!, both(parseDockerInspect)],
  ["docker inspect, texts", MOST["docker-inspect"]!, (text) => parseDockerInspect(out(JSON.stringify([{ Id: "0a1b2c3d4e5f", Name: `/k8s_${text}`, State: { StartedAt: text, Status: text }, Config: { Image: text, Env: [`NVIDIA_VISIBLE_DEVICES=${text}`, text], Labels: { GPU_ID: text } }, HostConfig: { Devices: [{ PathOnHost: `/dev/nvidia${text}` }] } }])))],
  ["docker inspect, CDI", MOST["docker-inspect"]!, (text) => parseDockerInspect(out(JSON.stringify([{ Id: "0a1b2c3d4e5f", Config: { CreateCommand: ["--device", text], Annotations: { "cdi.k8s.io/x": text } }, Mounts: [{ Destination: `/var/run/nvidia-container-devices/${text}` }], HostConfig: { DeviceRequests: [{ DeviceIDs: [`nvidia.com/gpu=${text}`] }], Devices: [{ PathOnHost: text }] } }])))],
  ["docker logs", MOST["docker-logs"]!, both((output) => parseDockerLogs(output, "USER COMMAND END"))],
  ["docker's errors", 1024 * KIB, (text) => saysGone(out("", text, 1))],
  ["iftop, as it is", MOST["iftop"]!, both(parseIftop)],
  ["iftop, a line", MOST["iftop"]!, (text) => parseIftop(out(`${IFTOP}\n1 10.0.0.1 ${text} => ${text}\n ${text} <= ${text}\nTotal send rate: ${text}`))],
  ["routes", 1024 * KIB, (text) => defaultInterface(`eth0 00000000 ${text}\n${text}`)],
  ["lsof, as it is", MOST["lsof"]!, both(parseLsof)],
  ["lsof, a row", MOST["lsof"]!, (text) => parseLsof(out(`COMMAND PID USER FD TYPE DEVICE SIZE/OFF NODE NAME\na 1 0 3u IPv4 1 0t0 UDP ${text}(ESTABLISHED)`))],
  ["lsof, a heading", MOST["lsof"]!, (text) => parseLsof(out(`COMMAND  PID${text} NAME${text}`))],
  ["crictl stats", crictl!, both(parseCrictlStats)],
  ["systemctl", 64 * KIB, both(parseSystemctl)],
  ["a custom command, as it is", 1024 * KIB, both(parseCustom)],
  ["a custom command, a help", 1024 * KIB, (text) => parseCustom(out(`# HELP a ${text}\n# TYPE a${text}\na 1\n`))],
  ["a custom command, a help and what ends no line", 1024 * KIB, (text) => parseCustom(out(`# HELP a ${text}\u2028x\na 1\n`))],
  ["a custom command, a value", 1024 * KIB, (text) => parseCustom(out(`a ${text}x\nb ${text}\nc 1\n`))],
  ["a custom command, labels", 1024 * KIB, (text) => parseCustom(out(`a{a="${text}\nb{${text}} 1\nc{a="${text}"} 1\n`))],
  ["a control group", 64 * KIB, (text) => parseCgroup(`0::/${text}\n${text}`)],
  ["an endpoint", 64 * KIB, parseEndpoint],
  ["a size", 64 * KIB, (text) => [parseSize(text), parsePercent(text)]],
  ["a container's name", 64 * KIB, (text) => containerLabels({ id: text, name: text, ...kubernetesNames(`k8s_${text}`) })],
  ["a label", 64 * KIB, labelText],
  ["/proc/PID/stat", 64 * KIB, parseStat],
  ["an address to listen on", 64 * KIB, parseAddress],
  ["a gateway's list", 1024 * KIB, (text) => new GroupList(() => undefined).write(`{"status":"success","data":[{"labels":{"${text}`)],
  ["a gateway's group", 64 * KIB, (text) => groupPath({ job: text, a: text })],
  ["a gateway's address", 64 * KIB, (text) => [parseUrl(`http://x/${text}`, ""), nameOf(new URL(`http://x/${text}x`)), below(new URL(`http://x/${text}`), "/a")]],
  ["a gateway's words", 64 * KIB, (text) => new ErrorLog(keptLog()).met({}, { result: "refused", status: 400, message: text, seconds: 0, ofGroup: false })],
  ["a duration", 64 * KIB, (text) => [duration(1, 10)(text), duration(1, 10)(`${text}x`)]],
  ["settings", 64 * KIB, (text) => [listen.safeParse(text), gatewayUrl.safeParse(`http://x/${text}x`), textSetting("a").safeParse(text)]],
]; // prettier-ignore

describe("twice the text takes at most three times as long, up to the length that it may have", () => {
  it.each(PARSERS)("%s", { timeout: 600_000 }, (_, cap, work) => {
    const slow = [
      // The shortest text at which what grows with the square takes seconds; the long tests go up to each cap.
      ...KINDS.map((unit) => [unit, isLong ? cap : Math.min(cap, 512 * KIB)] as const),
      ...HOSTILE.map((unit) => [unit, Math.min(cap, (isLong ? 128 : 32) * KIB)] as const),
    ]
      .map(([unit, longest]) => ({ unit, longest, growth: growth(work, unit, longest) }))
      .filter((one) => one.growth > 3);
    expect(slow).toEqual([]);
  });

  it.each(PARSERS)("%s, of drawn pieces", { timeout: 600_000 }, (_, cap, work) => {
    const unit = fc.array(fc.oneof(fc.constantFrom(...HOSTILE), fc.string({ maxLength: 4 })), {
      minLength: 1,
      maxLength: 6,
    });
    fc.assert(
      fc.property(unit, (parts) => {
        expect(growth(work, parts.join("") || " ", Math.min(cap, (isLong ? 256 : 64) * KIB))).toBeLessThanOrEqual(3);
      }),
      { numRuns: isLong ? 8 : 3 },
    );
  });
});

it("131,000 colons as the name of a process cost nothing", () => {
  const start = performance.now();
  for (let count = 0; count < 100; count++) commandName(repeated(":", 131_000));
  expect(performance.now() - start).toBeLessThan(500);
});

describe("patterns of the agent", () => {
  const files = ["lib/agent", "lib/shared"]
    .flatMap((folder) => readdirSync(folder, { recursive: true, encoding: "utf8" }).map((name) => `${folder}/${name}`))
    .filter((path) => path.endsWith(".ts"));
  const code = (path: string): string =>
    readFileSync(path, "utf8")
      .replaceAll(/\/\*[\s\S]*?\*\//g, "")
      .replaceAll(/^\s*\/\/.*$/gm, "");

  it("are looked at", () => {
    expect(files.length).toBeGreaterThan(40);
  });

  it.each(files)("%s: none repeats without an end before `$`, and none repeats a repetition", (path) => {
    const patterns =
      code(path).match(/(?<=[=(:,&|?!]\s*|^\s*)\/(?![/*])(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\n[])+\/[a-z]*/gm) ?? [];
    for (const pattern of patterns) {
      // with ^ in front it is tried from one place only
      if (!/^\/\(?\^/.test(pattern) && !/\/[a-z]*y[a-z]*$/.test(pattern)) expect(pattern).not.toMatch(/[^\\][+*]\)?\$/);
      expect(pattern).not.toMatch(/\([^()|]*[^\\][+*][^()|]*\)[+*]/);
    }
  });
});
