import { outlook } from "../accounting/outlook.ts";
import { runAccounting } from "../accounting/run.ts";
import { summarise } from "../accounting/summary.ts";
import type { Tenant } from "../accounting/tenant.ts";
import type { LoadedSettings } from "../config/load.ts";
import type { ObjectStore } from "../store/object-store.ts";
import { ReadOnlyStore } from "../store/read-only-store.ts";
import { warnDamaged } from "./lambda-log.ts";
import type { PlanRequest } from "./lambda-plan-event.ts";
import { runPorts } from "./run-ports.ts";

/** Lambda answers with 6 MB at most; what is over this is left out, and said so. */
const LARGEST = 5_000_000;

/**
 * What the run would ask for, decide and publish, with nothing written anywhere.
 * @param chosen the tenants that are counted
 * @throws GridmeterError `period_invalid`, `store_failed`
 */
export async function dryRun(
  { request, flags }: PlanRequest,
  settings: LoadedSettings,
  chosen: readonly Tenant[],
  below: ObjectStore,
  { now, stop }: { readonly now: number; readonly stop: () => boolean },
) {
  const store = new ReadOnlyStore(below);
  const recount = flags.recount === true;
  const { months, units } = await outlook(chosen, store, { now, request, recount, damaged: warnDamaged });
  const result = await runAccounting(
    settings.tenants.map(({ tenant }) => tenant),
    runPorts(settings, store),
    {
      now,
      request,
      only: chosen.map(({ name }) => name),
      recount,
      force: flags.force === true,
      allowDecrease: flags.allowDecrease === true,
      allowIncomplete: flags.allowIncomplete === true,
      stop,
    },
  );
  const summary = summarise(result, true);
  const messages = summary.months.flatMap(({ units: outcomes }) =>
    outcomes.map(({ messages: texts, ...rest }) => ({ ...rest, ...(texts && { messages: [...texts] }) })),
  );
  const tooLarge = JSON.stringify(messages).length > LARGEST;
  return {
    dryRun: true,
    now,
    plan: {
      months: months.map(({ tenant, plan, pieces }) => ({
        tenant: tenant.name,
        month: plan.period.month,
        settled: plan.days.filter((day) => plan.known.has(day)).length,
        recount: plan.recount,
        wouldAsk: pieces.map((days) => `${days[0]} to ${days.at(-1)}`),
      })),
      units: units.map(({ unit, tenants, state }) => ({
        ...unit,
        tenants,
        generation: state?.generation ?? 0,
        pins: state?.pins.length ?? 0,
      })),
    },
    /** out of time: nothing can be said of what would be published; ask for one tenant or month */
    interrupted: result.interrupted,
    counted: summary.months
      .flatMap(({ tenants }) => tenants)
      .filter(({ tenant }) => chosen.some((one) => one.name === tenant)),
    messages: tooLarge ? messages.map(({ messages: _texts, ...rest }) => rest) : messages,
    ...(tooLarge
      ? { warning: "The messages are too large for one answer and were left out; ask for one tenant or month." }
      : {}),
  };
}
