import type { UsageGroup } from "../counting/usage.ts";
import type { Tenant } from "../model/tenant.ts";
import { HOUR } from "../model/time.ts";

/**
 * Usage as it is shown: hours and percentages are rounded to one decimal, once, here, so that page, tables, CSV and JSON have the same
 * figures. Null: not known.
 */
export type Usage = {
  readonly jobs: number;
  readonly coreHours: number;
  readonly wallHours: number;
  /** measured, of the jobs of which it is known */
  readonly cpuHours: number | null;
  /** CPU hours of the core hours of the same jobs, percent */
  readonly efficiency: number | null;
  /** of how much of the core hours CPU use is known, percent */
  readonly cpuKnown: number | null;
  /** core hours x HS06 of a core, of tenants whose benchmark is HS06 (si2k or hepspec) */
  readonly hs06Hours: number | null;
  /** core hours x HEPscore23 of a core */
  readonly hs23Hours: number | null;
};

const MILLISECONDS_OF_AN_HOUR = 1000 * HOUR;

/** To one decimal; -0 becomes 0. */
export const rounded = (value: number): number => Math.round(value * 10) / 10 + 0;

/** Milli-core-seconds as core hours, rounded. */
export const coreHoursOf = (milliCoreSeconds: number): number => rounded(milliCoreSeconds / MILLISECONDS_OF_AN_HOUR);

/** A share in percent, rounded; null of nothing. */
export function percent(part: number, whole: number): number | null {
  return whole === 0 ? null : rounded((100 * part) / whole);
}

/** A sum of usage. What is added are integers, so that it is exact until it is shown; normalised hours are the only products. */
export class Sum {
  jobs = 0;
  milliCoreSeconds = 0;
  #wallSeconds = 0;
  #cpu: { milliseconds: number; milliCoreSeconds: number } | undefined;
  #hs06: number | undefined;
  #hs23: number | undefined;

  /** Adds the jobs of a group. A benchmark named si2k is HS06 x 250. */
  add(group: UsageGroup, { serviceLevel }: Pick<Tenant, "serviceLevel">): void {
    this.jobs += group.jobs;
    this.milliCoreSeconds += group.milliCoreSeconds;
    this.#wallSeconds += group.wallSeconds;
    if (group.cpu !== undefined) {
      this.#cpu ??= { milliseconds: 0, milliCoreSeconds: 0 };
      this.#cpu.milliseconds += group.cpu.milliseconds;
      this.#cpu.milliCoreSeconds += group.cpu.milliCoreSeconds;
    }
    if (serviceLevel === undefined) return;
    const { type, value } = serviceLevel;
    switch (type) {
      case "si2k":
        this.#hs06 = (this.#hs06 ?? 0) + (group.milliCoreSeconds * value) / 250;
        break;
      case "hepspec":
        this.#hs06 = (this.#hs06 ?? 0) + group.milliCoreSeconds * value;
        break;
      case "hepscore23":
        this.#hs23 = (this.#hs23 ?? 0) + group.milliCoreSeconds * value;
        break;
    }
  }

  usage(): Usage {
    const known = this.#cpu?.milliCoreSeconds ?? 0;
    const hours = (value: number | undefined): number | null =>
      value === undefined ? null : rounded(value / MILLISECONDS_OF_AN_HOUR);
    return {
      jobs: this.jobs,
      coreHours: coreHoursOf(this.milliCoreSeconds),
      wallHours: rounded(this.#wallSeconds / HOUR),
      cpuHours: hours(this.#cpu?.milliseconds),
      efficiency: percent(this.#cpu?.milliseconds ?? 0, known),
      cpuKnown: this.#cpu === undefined ? null : percent(known, this.milliCoreSeconds),
      hs06Hours: hours(this.#hs06),
      hs23Hours: hours(this.#hs23),
    };
  }
}
