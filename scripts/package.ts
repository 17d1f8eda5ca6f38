// `npm run package`: the functions' bundles and the CloudFormation template, in .serverless/. Needs neither credentials
// nor network. Arguments go to `serverless package`, such as --stage prod; deploy/plugin.cjs builds and checks.
import { spawnSync } from "node:child_process";
import { resolve } from "node:path";

const root = resolve(import.meta.dirname, "..");
const { status, error } = spawnSync("serverless", ["package", ...process.argv.slice(2)], {
  cwd: root,
  stdio: "inherit",
});
if (error !== undefined) throw error;
process.exitCode = status ?? 1;
