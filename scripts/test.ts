// `npm test`: types, lint, format, build, and the tests of the projects fast and integration.
// `npm test -- PATH ...`: only the tests in these paths, at once; other arguments go to vitest as well.
// `npm run test:long [-- PATH ...]`: the tests of the project long.
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { z } from "zod";
import { VENV_BIN, ensureTools } from "./setup.ts";

const root = resolve(import.meta.dirname, "..");
const folder = mkdtempSync(join(tmpdir(), "gridmeter-test-"));
const reportFile = join(folder, "report.json");
let worst = 0;
// Where setup puts what the machine lacks; the tests find it by name.
process.env["PATH"] = `${VENV_BIN}${delimiter}${process.env["PATH"] ?? ""}`;

/** Runs one step to its end and goes on whatever comes of it: one run shows all that is wrong. */
function step(name: string, action: () => number): void {
  console.log(`\n--- ${name}`);
  const start = performance.now();
  let code: number;
  try {
    code = action();
  } catch (thrown) {
    console.error(thrown instanceof Error ? thrown.message : String(thrown));
    code = 1;
  }
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  console.log(`--- ${name}: ${code === 0 ? "ok" : `failed with ${code}`}, ${seconds} s`);
  worst = Math.max(worst, code);
}

function run(program: string, ...args: readonly string[]): number {
  const { status, error } = spawnSync(program, args, { cwd: root, stdio: "inherit" });
  if (error !== undefined) throw error;
  return status ?? 1;
}

const report = z.object({
  numPassedTests: z.number(),
  numFailedTests: z.number(),
  testResults: z.array(z.object({ status: z.string(), assertionResults: z.array(z.object({ status: z.string() })) })),
});

/** A file that could not even be loaded has no failed test, and is one failure all the same. */
function counts(): { readonly passed: number; readonly failed: number } {
  if (!existsSync(reportFile)) {
    console.error("vitest ended without a report, which counts as one failure.");
    return { passed: 0, failed: 1 };
  }
  const { numPassedTests, numFailedTests, testResults } = report.parse(JSON.parse(readFileSync(reportFile, "utf8")));
  const broken = testResults.filter(
    (file) => file.status === "failed" && !file.assertionResults.some((one) => one.status === "failed"),
  );
  return { passed: numPassedTests, failed: numFailedTests + broken.length };
}

const [isLong, args] = process.argv[2] === "--long" ? [true, process.argv.slice(3)] : [false, process.argv.slice(2)];

/** Runs vitest; the report is what `counts` reads. */
function vitest(): number {
  const projects = isLong ? ["long"] : ["fast", "integration"];
  return run(
    "vitest",
    "run",
    ...projects.map((name) => `--project=${name}`),
    "--reporter=default",
    "--reporter=json",
    `--outputFile.json=${reportFile}`,
    ...args,
  );
}

try {
  const tools = [
    "prometheus",
    "promtool",
    "pushgateway",
    "victoriaMetrics",
    "dirq",
    "moto",
    "cfnLint",
    "awsCli",
    "helm",
    "kubectl",
    "logrotate",
    "chromium",
    "zsh",
    "fish",
  ] as const;
  const forCases = existsSync(resolve(root, "..", "shared", "cases")) ? (["faketime", "curl"] as const) : [];
  step("tools", () => (ensureTools([...tools, ...forCases]), 0));
  if (args.length === 0 && !isLong) {
    step("types", () => run("tsc", "--noEmit"));
    step("lint", () => run("oxlint", "--type-aware", "--deny-warnings"));
    step("format", () => run("oxfmt", "--check"));
  }
  // Some tests run what is shipped.
  if (args.length === 0) step("build", () => run(process.execPath, "scripts/build.ts"));
  step("tests", vitest);
  // The last line, for a reader of no more than that.
  const { passed, failed } = counts();
  if (passed === 0 || failed > 0) worst = Math.max(worst, 1);
  console.log(`\n${passed} passed, ${failed} failed`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exitCode = worst;
