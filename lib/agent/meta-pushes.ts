import type { Family } from "./exposition.ts";
import { PUSH_RESULTS } from "./meta-catalogue.ts";
import type { PushResult } from "./meta-catalogue.ts";
import { family, single } from "./meta-family.ts";

/** Keeps the account of what was sent to the Pushgateway. */
export class PushAccount {
  readonly #results = new Map<PushResult, number>(PUSH_RESULTS.map((result) => [result, 0]));
  #lastSuccess: number | undefined;
  #lastSeconds: number | undefined;
  #pending: () => number = () => 0;

  /** One push has ended. `at`: epoch seconds. */
  ended(result: PushResult, seconds: number, at: number): void {
    this.#results.set(result, (this.#results.get(result) ?? 0) + 1);
    this.#lastSeconds = seconds;
    if (result === "ok") this.#lastSuccess = at;
  }

  /** Says who knows how many groups wait. */
  pendingFrom(count: () => number): void {
    this.#pending = count;
  }

  families(): readonly Family[] {
    return [
      family(
        "gridmeter_push_total",
        [...this.#results].map(([result, value]) => ({ labels: { result }, value })),
      ),
      single("gridmeter_push_last_success_timestamp_seconds", this.#lastSuccess),
      single("gridmeter_push_last_duration_seconds", this.#lastSeconds),
      single("gridmeter_push_groups_pending", this.#pending()),
    ];
  }
}
