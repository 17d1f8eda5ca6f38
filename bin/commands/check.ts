import { isIndividual } from "../../lib/accounting/records.ts";
import { checkPrometheus } from "../../lib/prometheus/check.ts";
import { clientOf } from "../../lib/wiring/run-ports.ts";
import { settingsOf } from "./account.ts";
import type { AccountOptions } from "./account.ts";
import { nowInSeconds } from "./options.ts";

/** `gridmeter check`: asks what an administrator should know before the first run. Exit code 4 if an answer is not good. */
export async function check(options: AccountOptions): Promise<number> {
  const settings = settingsOf(options);
  const client = clientOf(settings);
  const tenants: { tenant: string; findings: Awaited<ReturnType<typeof checkPrometheus>> }[] = [];
  for (const { tenant } of settings.tenants) {
    const cpu = tenant.model === "wallclock" ? "needed" : isIndividual(tenant) ? "useful" : undefined;
    tenants.push({
      tenant: tenant.name,
      findings: await checkPrometheus(client(tenant), tenant.selection, nowInSeconds(), cpu),
    });
  }
  const exitCode = tenants.every(({ findings }) => findings.every(({ ok }) => ok)) ? 0 : 4;
  if (options.json === true) {
    process.stdout.write(`${JSON.stringify({ tenants, exitCode })}\n`);
    return exitCode;
  }
  for (const { tenant, findings } of tenants) {
    process.stdout.write(`${tenant}\n`);
    for (const { question, ok, answer, remedy } of findings) {
      process.stdout.write(
        `  ${ok ? "ok  " : "BAD "} ${question} ${answer}\n${remedy === undefined || ok ? "" : `       ${remedy}\n`}`,
      );
    }
  }
  return exitCode;
}
