// A GPU off the bus: what the probe does with a real command that names it, and answers for each of the others.
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type ProbeRun } from "../../lib/agent/probes/common/probe.ts";
import { createProbe } from "../../lib/agent/probes/registry.ts";

const LOST = "Unable to determine the device handle for GPU0000:CF:00.0: Unknown Error";
let folder: string;
let command: readonly [string, ...string[]];

const gpuXml = (index: number) =>
  `<gpu id="00000000:${["01", "CF", "E1"][index]}:00.0">\n<uuid>GPU-0000000${index}</uuid>\n<minor_number>${index}</minor_number>\n` +
  `<utilization><gpu_util>${10 + index} %</gpu_util></utilization>\n</gpu>\n`;
const log = (...gpus: readonly number[]) =>
  `<?xml version="1.0" ?>\n<nvidia_smi_log>\n<attached_gpus>3</attached_gpus>\n${gpus.map(gpuXml).join("")}</nvidia_smi_log>\n`;
const listed = (...gpus: readonly number[]) =>
  gpus.map((gpu, index) => `GPU ${index}: NVIDIA A100 (UUID: GPU-0000000${gpu})\n`).join("");

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gridmeter-lost-"));
  command = [join(folder, "nvidia-smi"), "-q", "-x"];
  says("whole", log(0, 1, 2), 0);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** What one call prints: `whole` is -q -x, `list` is -L, else the GPU of -i. Without it, the call hangs. */
function says(call: string, text: string, exitCode: number): void {
  writeFileSync(join(folder, `${call}.out`), text);
  writeFileSync(join(folder, `${call}.code`), String(exitCode));
  writeFileSync(
    join(folder, "nvidia-smi"),
    `#!/bin/sh
echo "$*" >> ${folder}/calls
case "$*" in *-L*) call=list;; *-i*) call=$4;; *) call=whole;; esac
[ -e ${folder}/$call.out ] || exec sleep 100
cat ${folder}/$call.out
exit $(cat ${folder}/$call.code)
`,
  );
  chmodSync(join(folder, "nvidia-smi"), 0o755);
}

const probe = (timeout = 10) => createProbe("nvidia-smi", { command, timeout, requireDevice: false });
const calls = () => readFileSync(join(folder, "calls"), "utf8").trim().split("\n");
const series = ({ metrics }: ProbeRun, name: string) =>
  metrics
    .filter((metric) => metric.name === name)
    .flatMap(({ samples }) => samples.map(({ labels, value }) => [labels["gpu"], labels["pci_bus_id"] ?? "", value]));
const use = (run: ProbeRun) => series(run, "gridmeter_gpu_utilization_ratio").map(([gpu, , value]) => [gpu, value]);

function lose(exitCode = 255): void {
  says("whole", `${LOST}\n`, exitCode);
  // nvidia-smi counts anew without the lost one.
  says("list", listed(0, 2), 0);
  says("0", log(0), 0);
  says("1", log(2), 0);
}

test.each([15, 255])("the others' series stay, under their indexes, with exit code %i", async (exitCode) => {
  const nvidia = probe();
  expect(use(await nvidia.run())).toEqual([
    ["0", 0.1],
    ["1", 0.11],
    ["2", 0.12],
  ]);
  lose(exitCode);
  const run = await nvidia.run();
  expect(run).toMatchObject({ kind: "ok", exitCode, warning: expect.stringContaining(LOST) });
  expect(use(run)).toEqual([
    ["0", 0.1],
    ["2", 0.12],
  ]);
  expect(series(run, "gridmeter_gpu_lost")).toEqual([
    ["1", "00000000:CF:00.0", 1],
    ["0", "00000000:01:00.0", 0],
    ["2", "00000000:E1:00.0", 0],
  ]);
  expect(series(run, "gridmeter_gpu_seen")).toEqual([[undefined, "", 2]]);
  expect(calls().slice(1)).toEqual(["-q -x", "-L", "-q -x -i 0", "-q -x -i 1"]);
  says("whole", log(0, 1, 2), 0);
  const after = await nvidia.run();
  expect(after).toMatchObject({ kind: "ok", exitCode: 0 });
  expect(after.warning).toBeUndefined();
});

test("from the first run on, by the list of those that work", async () => {
  lose();
  const run = await probe().run();
  expect(run.kind).toBe("ok");
  expect(use(run)).toEqual([
    ["0", 0.1],
    ["1", 0.12],
  ]);
  expect(series(run, "gridmeter_gpu_lost").at(0)).toEqual(["", "0000:CF:00.0", 1]);
});

test("without a list, those of the last complete log are asked", async () => {
  const nvidia = probe();
  await nvidia.run();
  lose();
  says("list", "", 255);
  says("2", log(2), 0);
  expect(use(await nvidia.run())).toEqual([
    ["0", 0.1],
    ["2", 0.12],
  ]);
});

test("one that hangs costs itself, within the probe's timeout, and is no second time started while it hangs", async () => {
  lose();
  rmSync(join(folder, "0.out"));
  const nvidia = probe(3);
  const run = await nvidia.run();
  expect(run.kind).toBe("ok");
  expect(run.seconds).toBeLessThan(3.5);
  expect(use(run)).toEqual([["1", 0.12]]);
  expect(run.commands.map(({ kind }) => kind)).toEqual(["ok", "ok", "timeout", "ok"]);
});

test("if none of the others answers, the run fails and names the lost one", async () => {
  lose();
  for (const index of ["0", "1"]) says(index, "Failed to initialize NVML: Unknown Error", 255);
  const run = await probe().run();
  expect(run).toMatchObject({
    kind: "exit_nonzero",
    exitCode: 255,
    metrics: [],
    detail: expect.stringContaining("CF:00.0"),
  });
});

test("the only GPU of a node is lost: that is what is read", async () => {
  says("whole", LOST, 255);
  says("list", "No devices found.", 0);
  const run = await probe().run();
  expect(run.kind).toBe("ok");
  expect(run.metrics.map(({ name }) => name)).toEqual(["gridmeter_gpu_lost"]);
});

test("a second lost GPU, which the text did not name, is named by its own answer", async () => {
  lose();
  says("0", "Unable to determine the device handle for GPU 0000:01:00.0: Unknown Error", 255);
  const run = await probe().run();
  expect(use(run)).toEqual([["1", 0.12]]);
  expect(series(run, "gridmeter_gpu_lost").map(([, address, value]) => [address, value])).toEqual([
    ["0000:CF:00.0", 1],
    ["0000:01:00.0", 1],
    ["00000000:E1:00.0", 0],
  ]);
});
