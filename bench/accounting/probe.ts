// Loaded before each measured program (`node --import`), the same for all of them: sets its clock, and at its end writes
// down how much memory it needed at most. What resourceUsage() gives would include the program that started it.
import { readFileSync, writeFileSync } from "node:fs";
import { env } from "node:process";

const now = env["GRIDMETER_BENCH_NOW"];
const peakFile = env["GRIDMETER_BENCH_PEAK"];

if (now !== undefined) {
  const Real = Date;
  const shift = Number(now) * 1000 - Real.now();
  globalThis.Date = new Proxy(Real, {
    construct: (target, given: readonly unknown[], newTarget): object =>
      Reflect.construct(target, given.length === 0 ? [Real.now() + shift] : given, newTarget),
    apply: () => new Real(Real.now() + shift).toString(),
    get: (target, key): unknown => (key === "now" ? () => Real.now() + shift : Reflect.get(target, key)),
  });
}

if (peakFile !== undefined) {
  process.on("exit", () => {
    const kib = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1];
    writeFileSync(peakFile, String(Number(kib) * 1024));
  });
}
