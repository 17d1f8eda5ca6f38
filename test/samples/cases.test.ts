import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, describe, expect, it, test } from "vitest";
import { bundledCli } from "../support/run-cli.ts";

/** What people met in the field, as small inputs with a judge of their own; they are not part of the project. */
const folder = fileURLToPath(new URL("../../../shared/cases/accounting/", import.meta.url));
const run = promisify(execFile);

if (existsSync(folder)) {
  const cases = readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && existsSync(join(folder, entry.name, "steps")))
    .map(({ name }) => name);

  const built = mkdtempSync(join(tmpdir(), "gridmeter-cases-"));
  const gridmeter = bundledCli(built).join(" ");
  afterAll(() => rmSync(built, { recursive: true, force: true }));

  describe("a case of the field is right", () => {
    it.each(cases)("%s", async (name) => {
      const { stdout } = await run("bash", [join(folder, "run.sh"), name], { env: { ...process.env, GM: gridmeter } });
      expect(stdout.trim().split("\n").at(-1)).toBe(`${name}: right`);
    });
  });
} else {
  test("no cases are beside this checkout", () => expect(existsSync(folder)).toBe(false));
}
