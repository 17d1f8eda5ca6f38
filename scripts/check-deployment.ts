// Checks the settings of a deployment, which deploy/plugin.cjs hands over on stdin once osls has resolved them. Warnings and
// problems go to stderr; exits with 2 if there is a problem.
import { text } from "node:stream/consumers";
import { z } from "zod";
import { judgeDeployment } from "../lib/accounting/settings/deployment.ts";
import { settingsError } from "../lib/shared/config-problems.ts";

const texts = z.record(z.string(), z.string());
const deployment = z.object({
  stage: z.string(),
  region: z.string(),
  env: texts,
  envFile: z.string(),
  environment: texts,
  parameters: texts,
});

const { problems, warnings } = judgeDeployment(deployment.parse(JSON.parse(await text(process.stdin))));
for (const warning of warnings) console.error(`gridmeter: warning: ${warning}`);
if (problems.length > 0) {
  const how = { of: " of the deployment", done: "nothing was packaged or sent", docs: "docs/configuration.md" };
  const { code, message } = settingsError("config_invalid", problems, how);
  console.error(`gridmeter: ${code}: ${message}`);
  process.exitCode = 2;
}
