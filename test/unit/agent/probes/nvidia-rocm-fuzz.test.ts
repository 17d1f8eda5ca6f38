import { readFileSync } from "node:fs";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Metric } from "../../../../lib/shared/exposition.ts";
import type { Output, Parsed } from "../../../../lib/agent/command/types.ts";
import { GPU_METRICS, type GpuMetricName } from "../../../../lib/agent/probes/common/metric-families.ts";
import { nvidiaSmiMetrics, parseNvidiaSmi } from "../../../../lib/agent/probes/nvidia-smi.ts";
import { parseGpuList } from "../../../../lib/agent/probes/nvidia-smi-lost.ts";
import { ParseError } from "../../../../lib/agent/probes/common/parse.ts";
import { isLong } from "../../../support/size.ts";
import { amdSmi, parseAmdSmi } from "../../../../lib/agent/probes/amd-smi.ts";
import { parseRocmSmi, rocmSmiMetrics } from "../../../../lib/agent/probes/rocm-smi.ts";

const fixture = (name: string) => readFileSync(new URL(`../../../fixtures/probes/${name}`, import.meta.url), "utf8");

const PARTS = 3;

/** Small seeds, so that many can be run: each has a third of one GPU's elements, and no indentation. */
const logs = ["nvidia-smi-v8-bits.xml", "nvidia-smi-v12-mig.xml", "nvidia-smi-v13-lost.xml"].flatMap((name) => {
  const xml = fixture(name);
  const start = xml.indexOf("<gpu ");
  const end = xml.lastIndexOf("</gpu>");
  return xml
    .slice(start, end)
    .split("</gpu>")
    .flatMap((gpu) => {
      const [open = "", ...elements] = gpu.trim().split(/\n(?=\t\t<\w)/);
      const part = (number: number) => elements.filter((_element, index) => index % PARTS === number);
      return Array.from({ length: PARTS }, (_, number) => [open, ...part(number)].join("\n"));
    })
    .map((gpu) => (xml.slice(0, start) + gpu + xml.slice(end)).replaceAll(/^\s+/gm, ""));
});
const reports = [fixture("rocm-smi-3-keys.json"), fixture("rocm-smi-6-dies.txt")];
const amdReports = [fixture("amd-smi-7-metric.json"), fixture("amd-smi-6-static.txt")];

const TOKENS = [
  ...Array.from("<>&;\"'{}[]:,/% \n\t\0-."),
  "N/A",
  "ERR!",
  "GPU is lost",
  "0",
  "-1",
  "1e400",
  "99999999999999999999 MiB",
  "1 %",
  "[",
  "[N/A]",
  "]]>",
  "<![CDATA[",
  "<!--",
  "-->",
  "&#0;",
  "&x;",
  "<gpu>",
  "</gpu>",
  "<gpu/>",
  "<process_name>",
  "</process_name>",
  "<supported_clocks>",
  "</supported_clocks>",
  "<__proto__>1</__proto__>",
  "<constructor>1</constructor>",
  "</nvidia_smi_log>",
  "<nvidia_smi_log>",
  '"__proto__":{"card0":1},',
  '"card0":',
  "null",
  "1e999",
  "\\ud800",
  "\ud800",
  "\u{1F600}",
];
const token = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...TOKENS) },
  fc.string({ maxLength: 12, unit: "binary" }),
);

type Edit = { kind: "insert" | "delete" | "repeat" | "cut" | "value"; at: number; length: number; text: string };
const edit: fc.Arbitrary<Edit> = fc.record({
  // values most often: edits of the structure mostly end at the first check
  kind: fc.constantFrom("value", "value", "value", "insert", "delete", "repeat", "cut"),
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  length: fc.integer({ min: 1, max: 60 }),
  text: token,
});

/** Puts the text where a value is: between tags, or between quotes. */
const replaceValue = (seed: string, at: number, text: string): string => {
  const open = seed.startsWith("{") || !seed.includes("<") ? '"' : ">";
  const start = seed.indexOf(open, at);
  const end = start < 0 ? -1 : seed.indexOf(open === '"' ? '"' : "<", start + 1);
  return end < 0 ? seed : seed.slice(0, start + 1) + text + seed.slice(end);
};

const apply = (seed: string, { kind, at, length, text }: Edit): string => {
  const place = Math.floor(at * seed.length);
  switch (kind) {
    case "value":
      return replaceValue(seed, place, text);
    case "insert":
      return seed.slice(0, place) + text + seed.slice(place);
    case "delete":
      return seed.slice(0, place) + seed.slice(place + length);
    case "repeat":
      return seed.slice(0, place + length) + seed.slice(place);
    case "cut":
      return length > 50 ? seed.slice(0, place) : seed;
  }
};

const mutated = (seeds: readonly string[]) =>
  fc
    .tuple(fc.constantFrom(...seeds), fc.array(edit, { minLength: 1, maxLength: 6 }))
    .map(([seed, edits]) => edits.reduce(apply, seed));

const noise = fc.array(token, { maxLength: 40 }).map((parts) => parts.join(""));

/** What every output must end in: refused with a ParseError, or metrics that can be published as they are. */
const check = <T>(
  parse: (output: Output) => Parsed<T>,
  metricsOf: (value: T) => Metric[],
  stdout: string,
): "refused" | "read" => {
  let parsed: Parsed<T>;
  try {
    parsed = parse({ stdout, stderr: "", exitCode: 0 });
  } catch (error) {
    if (error instanceof ParseError) return "refused";
    throw error;
  }
  const broken = (name: string) => new Error(`${name} of ${JSON.stringify(stdout)}`);
  if (!Number.isSafeInteger(parsed.rejected) || parsed.rejected < 0) throw broken("rejected");
  JSON.stringify(parsed.value);
  for (const { name, samples } of metricsOf(parsed.value)) {
    const wanted = [...GPU_METRICS[name as GpuMetricName].labels].toSorted().join();
    const seen = new Set<string>();
    for (const { labels, value } of samples) {
      const texts = Object.values(labels);
      if (!Number.isFinite(value) || Object.keys(labels).toSorted().join() !== wanted) throw broken(name);
      if (texts.some((text) => text.length > 128 || /\p{Cc}|\p{Cs}/u.test(text))) throw broken(name);
      seen.add(texts.join("\n"));
    }
    if (seen.size !== samples.length || samples.length === 0) throw broken(name);
  }
  return "read";
};

/** Runs a parser over that many outputs; counts how they ended, and how long the slowest took, in seconds. */
const fuzz = (arbitrary: fc.Arbitrary<string>, numRuns: number, end: (stdout: string) => "refused" | "read") => {
  const ends = { refused: 0, read: 0, slowest: 0 };
  fc.assert(
    fc.property(arbitrary, (stdout) => {
      const start = performance.now();
      ends[end(stdout)] += 1;
      ends.slowest = Math.max(ends.slowest, (performance.now() - start) / 1000);
    }),
    { numRuns },
  );
  return ends;
};

const nvidia = (stdout: string) => check(parseNvidiaSmi, nvidiaSmiMetrics, stdout);
/** Its metrics are made from the text again. */
const amd = (stdout: string) =>
  check(parseAmdSmi, () => [...amdSmi.parseSaved({ stdout, stderr: "", exitCode: 0 }, {}).metrics], stdout);
const rocm = (stdout: string) => check(parseRocmSmi, rocmSmiMetrics, stdout);

/** What is printed in place of a log, where a GPU is off the bus, and the list of those that work. */
const lostTexts = [
  "Unable to determine the device handle for GPU0000:CF:00.0: Unknown Error\n",
  "Unable to determine the device handle for GPU2: 0000:81:00.0: GPU is lost.  Reboot the system to recover this GPU\nNo devices were found\n",
];
const lists = [
  "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f)\n  MIG 1g.5gb Device 0: (UUID: MIG-1)\nGPU 1: Tesla T4 (UUID: GPU-00000001)\n",
];
const list = (stdout: string) => {
  const { value } = parseGpuList({ stdout, stderr: "", exitCode: 0 });
  if (!value.every(({ index }) => Number.isSafeInteger(index))) throw new Error(stdout);
  return value.length > 0 ? "read" : "refused";
};

/** In the long tests, 100,000 of each. */
const RUNS = isLong ? 100_000 : 16_000;

describe("outputs that no tool prints are refused or read, and nothing else", () => {
  it("has seeds of at most 5 kB, all readable", () => {
    expect(Math.max(...[...logs, ...reports].map((seed) => Buffer.byteLength(seed)))).toBeLessThan(5000);
    expect([...logs.map(nvidia), ...reports.map(rocm)]).toEqual(Array.from({ length: 5 * PARTS + 2 }, () => "read"));
  });

  it.each([
    ["logs of nvidia-smi, changed", mutated(logs), nvidia, 20],
    ["texts about a lost GPU, changed", mutated(lostTexts), nvidia, 50],
    ["lists of GPUs, changed", mutated(lists), list, 50],
    ["reports of rocm-smi, changed", mutated(reports), rocm, 20],
    ["reports of amd-smi, changed", mutated(amdReports), amd, 50],
  ] as const)("%s", { timeout: 600_000 }, (_what, arbitrary, end, part) => {
    const { refused, read, slowest } = fuzz(arbitrary, RUNS, end);
    // both ends are met, often
    expect(Math.min(refused, read)).toBeGreaterThan(RUNS / part);
    expect(refused + read).toBe(RUNS);
    expect(slowest).toBeLessThan(2);
  });

  it.each([
    ["noise for nvidia-smi", noise.map((text) => `<nvidia_smi_log>${text}</nvidia_smi_log>`), nvidia],
    ["noise for amd-smi", noise.map((text) => `[{"gpu":0,"usage":{"gfx_activity":${text}}}]`), amd],
    ["noise for rocm-smi", noise.map((text) => `{"card0":{"GPU use (%)":"${text}"}}`), rocm],
    ["noise", noise, (text: string) => (nvidia(text) === "read" ? "read" : rocm(text))],
  ] as const)("%s", (_what, arbitrary, end) => {
    const { slowest } = fuzz(arbitrary, 6000, end);
    expect(slowest).toBeLessThan(2);
  });
});
