import { GridmeterError } from "../errors.ts";
import type { CountedMonth } from "./counted-month.ts";
import type { Unit } from "./tenant.ts";

/** Above this share of core-seconds without measured CPU use the month is refused (accounting-rules, wallclock). */
const REFUSED_ABOVE = 0.1;

/** How many of a month's jobs and milli-core-seconds have no measured CPU use; zero where it is not asked for. */
export function withoutCpu(months: readonly CountedMonth[]): { jobs: number; milliCoreSeconds: number; of: number } {
  const groups = months
    .filter(({ tenant }) => tenant.model === "wallclock")
    .flatMap((month) => month.days.flatMap((day) => day.groups));
  return groups.reduce(
    (sum, group) => ({
      jobs: sum.jobs + group.jobs - (group.cpu?.jobs ?? 0),
      milliCoreSeconds: sum.milliCoreSeconds + group.milliCoreSeconds - (group.cpu?.milliCoreSeconds ?? 0),
      of: sum.of + group.milliCoreSeconds,
    }),
    { jobs: 0, milliCoreSeconds: 0, of: 0 },
  );
}

/** The refusal of a wallclock month whose CpuDuration would be a guess. */
export function cpuFault(unit: Unit, months: readonly CountedMonth[]): GridmeterError | undefined {
  const { jobs, milliCoreSeconds, of } = withoutCpu(months);
  if (milliCoreSeconds <= of * REFUSED_ABOVE) return undefined;
  const percent = ((100 * milliCoreSeconds) / of).toFixed(1);
  return new GridmeterError(
    "cpu_data_refused",
    `${unit.site} ${unit.submitHost} ${unit.month}: ${jobs} jobs with ${percent} % of the core-seconds have no container_cpu_usage_seconds_total (10 % is the limit). ` +
      "Nothing was published for it. Let Prometheus scrape the kubelets' cAdvisor, or set ACCOUNTING_MODEL=core-seconds.",
  );
}
