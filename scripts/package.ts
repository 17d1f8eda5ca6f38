// `npm run package`: the functions' bundles and the CloudFormation template, in .serverless/. Needs neither credentials
// nor network. Arguments go to `serverless package`, such as --stage prod.
import { spawnSync } from "node:child_process";
import { resolve } from "node:path";

const root = resolve(import.meta.dirname, "..");

function run(program: string, ...args: readonly string[]): void {
  const { status, error } = spawnSync(program, args, { cwd: root, stdio: "inherit" });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`\`${[program, ...args].join(" ")}\` ended with ${String(status)}, see above.`);
}

run(process.execPath, "scripts/build-functions.ts");
run("serverless", "package", ...process.argv.slice(2));
