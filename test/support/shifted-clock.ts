/**
 * Loaded before a program (`node --import`): its wall clock differs from the real one by the seconds in the file that
 * SHIFTED_CLOCK names, which may change at any time, as a clock that is set does. Timers go on, as with a real clock.
 */
import { readFileSync } from "node:fs";
import { env } from "node:process";

const Real = Date;
const file = env["SHIFTED_CLOCK"] ?? "";
const now = (): number => Real.now() + Number(readFileSync(file, "utf8")) * 1000;

globalThis.Date = new Proxy(Real, {
  construct: (target, given: readonly unknown[], newTarget): object =>
    Reflect.construct(target, given.length === 0 ? [now()] : given, newTarget),
  apply: () => new Real(now()).toString(),
  get: (target, key): unknown => (key === "now" ? now : Reflect.get(target, key)),
});
