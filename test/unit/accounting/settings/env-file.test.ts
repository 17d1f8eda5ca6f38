import { expect, test } from "vitest";
import { readEnvFile } from "../../../../lib/accounting/settings/env-file.ts";

const read = (text: string, env: Record<string, string> = {}): Record<string, string> =>
  Object.fromEntries(readEnvFile(text, env).values);

// The right values are what python-dotenv 1.2.2 gives (load_dotenv with override=False, as KAPEL calls it).
test.each<[string, string, Record<string, string>]>([
  ["blanks and export", "  A = s t  \nexport B=1\n", { A: "s t", B: "1" }],
  ["both kinds of quotes", `A='x y' # c\nB="x # y"# c\n`, { A: "x y", B: "x # y" }],
  ["quotes inside a value", `A=x"y"z\nB=cluster="prod"\n`, { A: 'x"y"z', B: 'cluster="prod"' }],
  ["a # with a blank before it, and without", "A=a#b #c\nB=#c\n# C=1\n", { A: "a#b", B: "#c" }],
  ["escapes in double quotes", String.raw`A="a\tb\n\"\q"`, { A: 'a\tb\n"\\q' }],
  ["escapes in single quotes", String.raw`A='a\nb\'\\'`, { A: "a\\nb'\\" }],
  ["escapes without quotes", String.raw`A=a\nb`, { A: "a\\nb" }],
  ["backticks, which are no quotes", "A=`a b`\n", { A: "`a b`" }],
  ["a value of several lines", 'A="one\ntwo"\nB=3\n', { A: "one\ntwo", B: "3" }],
  ["line ends of Windows, and a byte order mark", "\uFEFFA=1\r\nB=2\r\n", { A: "1", B: "2" }],
  ["a name twice: the later line", "A=1\nB=${A}\nA=2\nC=${A}\n", { A: "2", B: "1", C: "2" }],
  ["nothing", "\n  \n#\n", {}],
  ["an empty value", "A=\nB=''\nC= \n", { A: "", B: "", C: "" }],
])("%s", (_, text, values) => {
  expect(read(text)).toEqual(values);
});

test("a comment right behind the = is a comment, where python-dotenv takes it for the value", () => {
  expect(read("A= # none\nB=\t#none\n")).toEqual({ A: "", B: "" });
});

test.each<[string, string, string]>([
  ["the environment before the file", "A=file\nX=${A}|${ENV}", "env of A|e"],
  ["an empty variable of the environment is set", "EMPTY=file\nX=<${EMPTY:-default}>", "<>"],
  ["the lines above", "B=1\nX=${B}${B}", "11"],
  ["not the lines below", "X=${B:-}|\nB=1", "|"],
  ["a default", "X=${B:-d e}|${ENV:-d}|${B:-}", "d e|e|"],
  ["in double quotes", 'B=1\nX="a ${B}"', "a 1"],
  ["in single quotes too", "B=1\nX='a ${B}'", "a 1"],
  ["what was expanded is not expanded again", "B='$'\nX=${B}{ENV}", "${ENV}"],
  ["a default ends at the first }", "X=${B:-${ENV}}", "${ENV}"],
  ["itself", "X=1\nX=${X}2", "12"],
  ["no other form", "X=$ENV|${ENV:x}|${ENV-d}x|$(ENV)|\\${ENV}", "$ENV|${ENV:x}|x|$(ENV)|\\e"],
])("expanded: %s", (_, text, value) => {
  expect(read(text, { A: "env of A", ENV: "e", EMPTY: "" })["X"]).toBe(value);
});

test("a token with $ in it stays as it is", () => {
  for (const line of ["Bearer a$b$c", "'Bearer a$b$c'", '"Bearer a$b$c"', "Bearer $$a{b}$", "Basic $2y$10$abc"])
    expect(read(`PROMETHEUS_AUTH_HEADER=${line}`, { a: "1", b: "2" })["PROMETHEUS_AUTH_HEADER"]).toBe(
      line.replaceAll(/^['"]|['"]$/g, ""),
    );
});

test("a name that is set nowhere is read as empty, and said", () => {
  const file = readEnvFile("A=<${ONE}${TWO:-}${THREE:-3}>\nB=${LATER}\nLATER=1\nC=${ONE}\nC=plain\n", {});
  expect(Object.fromEntries(file.values)).toMatchObject({ A: "<3>", B: "", C: "plain" });
  expect(file.unset).toEqual([
    { variable: "A", name: "ONE" },
    { variable: "B", name: "LATER" },
  ]);
  expect([...file.used]).toEqual(["ONE", "TWO", "THREE", "LATER"]);
});

test("lines that are no NAME=value are left out and counted; the others are read", () => {
  const file = readEnvFile('\nA=1\nSITE_NAME\n\nB: 2\nC="x"y\nD=\'open\nE=5\n=6\nF=7', {});
  expect(Object.fromEntries(file.values)).toEqual({ A: "1", E: "5", F: "7" });
  expect(file.unread).toEqual([3, 5, 6, 7, 9]);
});

test("a quote that is never closed takes no time", () => {
  const started = performance.now();
  expect(readEnvFile(`A="${'\\"x'.repeat(20_000)}\nB=1`, {}).values.get("B")).toBe("1");
  expect(readEnvFile(`A=${" ".repeat(5_000)}x\nB=1`, {}).values.get("B")).toBe("1");
  expect(performance.now() - started).toBeLessThan(2_000);
});
