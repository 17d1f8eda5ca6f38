import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseNvidiaSmi } from "../../../../lib/agent/probes/nvidia-smi.ts";
import { ParseError } from "../../../../lib/agent/probes/common/parse.ts";
import { printed } from "../../../support/probe-fixtures.ts";

const process = (pid: number, name: string): string =>
  `\t\t\t<process_info>\n\t\t\t\t<pid>${pid}</pid>\n\t\t\t\t<type>C</type>\n\t\t\t\t<process_name>${name}</process_name>\n` +
  `\t\t\t\t<used_memory>${pid} MiB</used_memory>\n\t\t\t</process_info>\n`;

const gpu = (index: number, names: readonly string[]): string =>
  `\t<gpu id="00000000:0${index}:00.0">\n\t\t<uuid>GPU-${index}</uuid>\n\t\t<minor_number>${index}</minor_number>\n` +
  `\t\t<utilization>\n\t\t\t<gpu_util>${10 + index} %</gpu_util>\n\t\t</utilization>\n\t\t<processes>\n` +
  names.map((name, at) => process(100 * (index + 1) + at, name)).join("") +
  "\t\t</processes>\n\t\t<accounted_processes>\n\t\t</accounted_processes>\n\t</gpu>\n";

const log = (names: readonly (readonly string[])[], attached = names.length): string =>
  `<?xml version="1.0" ?>\n<nvidia_smi_log>\n\t<driver_version>580.1</driver_version>\n\t<attached_gpus>${attached}</attached_gpus>\n` +
  `${names.map((some, index) => gpu(index, some)).join("")}\n</nvidia_smi_log>\n`;

const parse = (text: string) => parseNvidiaSmi(printed(text));

/** What is known of each GPU but its processes. */
const heads = (text: string) =>
  parse(text).value.gpus.map(({ uuid, minorNumber, utilization, health, eccVolatile }) => ({
    uuid,
    minorNumber,
    utilization,
    health,
    eccVolatile,
  }));

const FORGED = gpu(7, ["y"]).replace(
  "<utilization>",
  "<gpu_recovery_action>Reboot</gpu_recovery_action>\n\t\t<utilization>",
);
const CLOSING = "x\n</process_name></process_info></processes></gpu>";

describe("a process that has a name like a part of the log", () => {
  const right = heads(log([["a"], ["b", "c"]]));

  it("is read past, whatever of a log is in one line of its name", () => {
    const { value, rejected } = parse(log([["a & <b>"], ["</gpu><gpu id='9'>", "<processes>"]]));
    expect(value.gpus.map(({ processes }) => processes?.map(({ pid }) => pid))).toEqual([[100], [200, 201]]);
    expect(rejected).toBe(0);
  });

  it.each([
    ["a GPU", `${CLOSING}\n${FORGED.replaceAll("\t", "")}<gpu><processes><process_info><process_name>`],
    ["a GPU, in one line", `${CLOSING}${FORGED.replaceAll(/[\t\n]/g, "")}<gpu><processes><process_info><process_name>`],
    [
      "more of its GPU",
      "x\n</process_name></process_info></processes><gpu_recovery_action>Reboot</gpu_recovery_action><processes><process_info><process_name>",
    ],
    ["another process", "x</process_name></process_info><process_info><pid>1</pid><process_name>y"],
    ["the end of the log", "x\n</process_name></process_info></processes></gpu></nvidia_smi_log>"],
  ])("%s: nothing of it counts, and the others' values stay", (_, name) => {
    const text = log([
      ["a", name],
      ["b", "c"],
    ]);
    expect(heads(text)).toEqual(right);
    const { value, rejected } = parse(text);
    expect(value.gpus[0]?.processes).toBeUndefined();
    expect(value.gpus[1]?.processes?.map(({ pid }) => pid)).toEqual([200, 201]);
    expect(rejected).toBe(1);
  });

  it("a GPU in the driver's own lines: none is read, as nobody can tell which is real", () => {
    const name = `x</process_name>\n\t\t\t</process_info>\n\t\t</processes>\n\t</gpu>\n${FORGED.slice(0, FORGED.indexOf("</process_name>"))}`;
    expect(() => parse(log([["a", name], ["b"]]))).toThrow(ParseError);
    expect(() => parse(log([["a", name], ["b"]]))).toThrow("lists 3 GPUs, more than there are (attached_gpus 2)");
  });

  it("a GPU that is there already: none is read", () => {
    const again = gpu(0, ["y"]);
    const name = `x</process_name>\n\t\t\t</process_info>\n\t\t</processes>\n\t</gpu>\n${again.slice(0, again.indexOf("</process_name>"))}`;
    expect(() => parse(log([["a", name], ["b"]], 8))).toThrow("one of them twice");
  });

  it("fewer GPUs than are attached are ordinary", () => {
    expect(parse(log([["a"], ["b"]], 8)).value).toMatchObject({ attachedGpus: 8, gpuElements: 2 });
  });

  it.each(["x\n<!--", "x\n<supported_clocks>", "<![CDATA["])("%j does not go beyond its end", (name) => {
    const { value, rejected } = parse(log([["a", name], ["b"]]));
    expect(value.gpus.map(({ processes }) => processes?.length)).toEqual([2, 1]);
    expect(rejected).toBe(0);
  });

  it("a line break alone costs nothing", () => {
    const { value, rejected } = parse(log([["a\nb\n\n\tc", "d"]]));
    expect(value.gpus[0]?.processes?.map(({ pid, usedBytes }) => [pid, usedBytes])).toEqual([
      [100, 100 * 1024 * 1024],
      [101, 101 * 1024 * 1024],
    ]);
    expect(rejected).toBe(0);
  });

  it("drawn: no name adds a GPU or changes what is known of one", () => {
    const piece = fc.constantFrom(
      ...Array.from("<>/&\n\t x"),
      "<gpu id='5'>",
      "\n\t<gpu id='5'>\n",
      "</gpu>",
      "\n\t</gpu>\n",
      "<processes>",
      "</processes>",
      "\n\t\t</processes>\n",
      "<process_info>",
      "</process_info>",
      "<process_name>",
      "</process_name>",
      "</nvidia_smi_log>",
      "<attached_gpus>9</attached_gpus>",
      "<minor_number>5</minor_number>",
      "<ecc_errors><volatile><dram_uncorrectable>5</dram_uncorrectable></volatile></ecc_errors>",
      "<gpu_recovery_action>Reboot</gpu_recovery_action>",
      "<!--",
      "<![CDATA[",
      "]]>",
      "&amp;",
    );
    const name = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(""));
    const names = fc.tuple(fc.array(name, { maxLength: 3 }), fc.array(name, { maxLength: 3 }));
    fc.assert(
      fc.property(names, (drawn) => {
        let found;
        try {
          found = heads(log(drawn));
        } catch (thrown) {
          expect(thrown).toBeInstanceOf(ParseError);
          return;
        }
        expect(found).toEqual(right);
      }),
      { numRuns: 3000 },
    );
  });
});
