import * as fc from "fast-check";
import pino from "pino";
import { expect, test, vi } from "vitest";
import { report, say } from "../../../bin/commands/options.ts";
import { groupsTable } from "../../../bin/show/agent-groups.ts";
import { asJson } from "../../../bin/show/agent-probes.ts";
import { jsonLine, jsonPieces } from "../../../bin/show/json.ts";
import { plainLog } from "../../../bin/show/log.ts";
import { textTable } from "../../../bin/show/table.ts";
import { forReader } from "../../../bin/show/terminal.ts";
import { parseSettings } from "../../../lib/accounting/settings/load.ts";
import { GridmeterError } from "../../../lib/shared/errors.ts";
import { LONGEST_LINE, plainText } from "../../../lib/shared/text.ts";
import { logger } from "../../../functions/common/runtime.ts";

/** Spelt out, and not by Unicode's properties, which the code goes by. */
const NAMED = {
  "C0, with ESC": [0x00, 0x1f],
  "DEL and C1, with CSI": [0x7f, 0x9f],
  "the soft hyphen": [0xad, 0xad],
  "the Arabic letter mark": [0x61c, 0x61c],
  "zero-width characters and marks": [0x200b, 0x200f],
  "line and paragraph separators": [0x2028, 0x2029],
  "bidirectional embeddings and overrides": [0x202a, 0x202e],
  "word joiner and invisible operators": [0x2060, 0x2064],
  "bidirectional isolates": [0x2066, 0x206f],
  "the Hangul filler": [0x3164, 0x3164],
  "halves of a pair": [0xd800, 0xdfff],
  "variation selectors": [0xfe00, 0xfe0f],
  "the byte order mark": [0xfeff, 0xfeff],
  "interlinear annotations": [0xfff9, 0xfffb],
  tags: [0xe0001, 0xe007f],
} as const;
const odd = Object.values(NAMED).flatMap(([from, to]) =>
  Array.from({ length: to - from + 1 }, (_, index) => String.fromCodePoint(from + index)),
);
const oddOnes = new Set(odd);
const isOdd = (text: string): boolean => Array.from(text).some((character) => oddOnes.has(character));
const hostile = fc
  .array(
    fc.oneof(
      fc.constantFrom(...odd),
      fc.constantFrom("gridmeter: all was published", "[31m", "é", "😀", "\\", '"', "x"),
    ),
  )
  .map((parts) => parts.join(""));
const withOdd = fc.tuple(hostile, fc.constantFrom(...odd), hostile).map((parts) => parts.join(""));

/** What a call writes to stdout and stderr. */
function written(call: () => void): string {
  let text = "";
  const take = (chunk: string | Uint8Array): boolean => {
    text += String(chunk);
    return true;
  };
  const spies = [
    vi.spyOn(process.stderr, "write").mockImplementation(take),
    vi.spyOn(process.stdout, "write").mockImplementation(take),
  ];
  try {
    call();
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
  return text;
}

function logged(fields: object, message: string): string {
  let text = "";
  pino({ hooks: plainLog }, { write: (line: string) => void (text += line) }).warn(fields, message);
  return text;
}

function loggedByFunction(text: string): string {
  let line = "";
  // The logger holds a console of its own.
  const spy = vi
    .spyOn(Reflect.get(logger, "console") as Console, "warn")
    .mockImplementation((...one: unknown[]) => void (line += `${one.join(" ")}\n`));
  try {
    logger.warn(text, { key: text, deep: { list: [text] } });
  } finally {
    spy.mockRestore();
  }
  return line;
}

const UNIT = {
  PROMETHEUS_SERVER: "http://p",
  NAMESPACE: "n",
  SITE_NAME: "s",
  SUBMIT_HOST: "h",
  VO_NAME: "v",
  BENCHMARK_VALUE: "10",
};
const thrownBy = (call: () => unknown): unknown => {
  try {
    return call();
  } catch (error) {
    return error;
  }
};

/** Each channel with a hostile text in it, and how many lines it has whatever the text is. */
const CHANNELS: Readonly<Record<string, (text: string) => readonly [text: string, lines: number]>> = {
  "a warning": (text) => [written(() => say(text)), 1],
  "an error": (text) => [written(() => report(new GridmeterError("store_failed", `it said ${text}`), false)), 1],
  "an error as JSON": (text) => [written(() => report(new GridmeterError("store_failed", text), true)), 2],
  "an error that is not ours, as JSON": (text) => [jsonLine({ message: text }), 1],
  "a setting's value in an error": (text) => [
    `${String(thrownBy(() => parseSettings({ ...UNIT, NODECOUNT: `x${text}` })))}\n`,
    // What is wrong, and where settings are described.
    3,
  ],
  "a table": (text) => [`${textTable(["name"], [[text]])}\n`, 5],
  "a table of groups": (text) => [
    `${groupsTable([{ grouping: { job: text, instance: text, probe: text, [`${text}-`]: text }, pushedAt: 1 }], 2)}\n`,
    6,
  ],
  "JSON in pieces": (text) => [`${[...jsonPieces({ [text]: [text] })].join("")}\n`, 1],
  "what a probe read": (text) => [asJson(new Map([[text, text]])), 1],
  "an exposition on a terminal": (text) => [forReader(`a{b="${text.replaceAll("\n", "\\n")}"} 1\n`, true), 1],
  "the log": (text) => [logged({ text, [text]: { deep: [text] } }, text), 1],
  "a function's log": (text) => [loggedByFunction(text), 1],
};

test.each(Object.entries(CHANNELS))("no odd character comes out of %s, and no line of its own", (_, channel) => {
  fc.assert(
    fc.property(withOdd, (text) => {
      const [shown, lines] = channel(text);
      expect(isOdd(shown.replaceAll("\n", ""))).toBe(false);
      expect(shown.split("\n").length - 1).toBe(lines);
    }),
    { numRuns: 100 },
  );
});

test.each(Object.entries(NAMED))("%s are written as JSON writes them", (_, [from, to]) => {
  for (let code = from; code <= to; code++) {
    const text = String.fromCodePoint(code);
    expect(JSON.parse(`"${plainText(`a${text}b`)}"`)).toBe(`a${text}b`);
    expect(plainText(text)).toMatch(/^(\\[nrt]|(\\u[0-9a-f]{4}){1,2})$/);
  }
});

test("letters, signs and emoji of any script stay", () => {
  const text = "Zürich Ελλάδα 東京 عربى 😀 100 % — ok";
  expect(plainText(text)).toBe(text);
});

test("JSON has the same value", () => {
  const value = fc.dictionary(hostile, fc.oneof(hostile, fc.integer(), fc.array(hostile)), { noNullPrototype: true });
  fc.assert(
    fc.property(value, (one) => {
      expect(JSON.parse(jsonLine(one))).toEqual(JSON.parse(JSON.stringify(one)));
      expect(`${[...jsonPieces(one)].join("")}\n`).toBe(jsonLine(one));
    }),
  );
});

test("a line has a bound, and a long text costs no more than a short one", () => {
  const units = ["\u001b", "x", "\n", "\u{e0041}", "\ud800", "\u202e "];
  const time = (text: string): number => {
    const began = performance.now();
    for (let count = 0; count < 20; count++) plainText(text);
    return performance.now() - began;
  };
  for (const unit of units) {
    expect(plainText(unit.repeat(1_000_000)).length).toBeLessThanOrEqual(LONGEST_LINE);
    expect(written(() => say(unit.repeat(1_000_000))).length).toBeLessThanOrEqual(LONGEST_LINE + 1);
    expect(new GridmeterError("usage", unit.repeat(1_000_000)).message.length).toBeLessThanOrEqual(LONGEST_LINE);
    expect(logged({}, unit.repeat(1_000_000)).length).toBeLessThanOrEqual(LONGEST_LINE * 2 + 200);
    time(unit.repeat(100_000));
    expect(time(unit.repeat(1_000_000))).toBeLessThan(3 * time(unit.repeat(500_000)) + 50);
  }
});

test("an error's own lines stay lines", () => {
  const error = new GridmeterError("config_invalid", "Two are wrong.", { lines: ["  - a\u001b", "  - b\nc"] });
  expect(error.message).toBe("Two are wrong.\n  - a\\u001b\n  - b\\nc");
  expect(written(() => void report(error, false))).toBe(
    "gridmeter: config_invalid: Two are wrong.\n  - a\\u001b\n  - b\\nc\nSee docs/errors.md#config_invalid\n",
  );
});

test("an exposition for a program is as it is", () => {
  expect(forReader('a{b="\u001b"} 1\n', false)).toBe('a{b="\u001b"} 1\n');
});
