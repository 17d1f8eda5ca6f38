import { GridmeterError } from "../../shared/errors.ts";
import type { Monitoring } from "../model/monitoring.ts";
import { type Unit, unitName } from "../model/tenant.ts";
import { endOfDay, startOf } from "../model/time.ts";
import { explainCpu, lookForCpu } from "./cadvisor.ts";
import type { CountedMonth } from "./count-month.ts";
import type { UsageGroup } from "./usage.ts";

type Share = { readonly jobs: number; readonly milliCoreSeconds: number; readonly of: number };

/** Above this share of core-seconds without measured CPU use the month is refused (accounting-rules, wallclock). */
export const REFUSED_ABOVE = 0.1;
/** How long before the worst day cAdvisor is looked for: jobs that end just after midnight. Seconds. */
const BEFORE = 3600;

function shareOf(groups: readonly UsageGroup[]): Share {
  return groups.reduce(
    (sum, group) => ({
      jobs: sum.jobs + group.jobs - (group.cpu?.jobs ?? 0),
      milliCoreSeconds: sum.milliCoreSeconds + group.milliCoreSeconds - (group.cpu?.milliCoreSeconds ?? 0),
      of: sum.of + group.milliCoreSeconds,
    }),
    { jobs: 0, milliCoreSeconds: 0, of: 0 },
  );
}

const isTooMuch = ({ milliCoreSeconds, of }: Share): boolean => milliCoreSeconds > of * REFUSED_ABOVE;
/** How many of a month's jobs and milli-core-seconds have no measured CPU use; zero where it is not asked for. */
export function withoutCpu(months: readonly CountedMonth[]): Share {
  const asked = months.filter(({ tenant }) => tenant.model === "wallclock");
  return shareOf(asked.flatMap((month) => month.days.flatMap((day) => day.groups)));
}

/**
 * The month with what cAdvisor shows of the day that lacks most CPU use, if so much is missing that the month is refused.
 * It is asked only then, and of the monitoring rather than of the count, since most days come from the ledger.
 */
export async function withCpuSeen(month: CountedMonth, monitoring: Monitoring): Promise<CountedMonth> {
  if (month.error !== undefined || !isTooMuch(withoutCpu([month]))) return month;
  const lacking = month.days.map(({ day, groups }) => ({ day, ...shareOf(groups) }));
  const { day } = lacking.reduce((worst, each) => (each.milliCoreSeconds >= worst.milliCoreSeconds ? each : worst));
  try {
    const seen = await lookForCpu(monitoring, { from: startOf(day) - BEFORE, to: endOfDay(day) });
    return { ...month, cpuSeen: { day, seen } };
  } catch (error) {
    // The month is refused all the same; only its cause is not known.
    if (error instanceof GridmeterError) return month;
    throw error;
  }
}

/** The refusal of a wallclock month whose CpuDuration would be a guess. */
export function cpuFault(unit: Unit, months: readonly CountedMonth[]): GridmeterError | undefined {
  const share = withoutCpu(months);
  if (!isTooMuch(share)) return undefined;
  const percent = ((100 * share.milliCoreSeconds) / share.of).toFixed(1);
  const causes = months.flatMap(({ tenant, cpuSeen }) => {
    if (cpuSeen === undefined) return [];
    const { what, remedy } = explainCpu(cpuSeen.seen);
    return [{ what: `on ${cpuSeen.day}, in namespace "${tenant.selection.namespace}", ${what}`, remedy }];
  });
  const what = causes.length === 0 ? "why could not be asked" : causes.map((cause) => cause.what).join("; ");
  const remedies = new Set(causes.map((cause) => cause.remedy));
  if (remedies.size === 0) remedies.add("Run gridmeter check, which looks at cAdvisor's series");
  return new GridmeterError(
    "cpu_data_refused",
    `${unitName(unit)}: ${share.jobs} jobs with ${percent} % of the core-seconds have no measured CPU use ` +
      `(10 % is the limit): ${what}. Nothing was published for it. ${[...remedies].join(". ")}. Or set ACCOUNTING_MODEL=core-seconds.`,
  );
}
