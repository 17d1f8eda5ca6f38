import { execFileSync } from "node:child_process";
import { arch, availableParallelism, cpus, totalmem, type } from "node:os";

/** The machine and the programs in words; no names and no paths. */
export function machine(): string {
  const cores = availableParallelism();
  const model = cpus()[0]?.model.trim() ?? "an unknown processor";
  const memory = Math.round(totalmem() / 2 ** 30);
  const version = /version (?<version>[\d.]+)/.exec(execFileSync("prometheus", ["--version"], { encoding: "utf8" }));
  return (
    `${cores} cores (${model}, ${arch()}) and ${memory} GiB of memory, ${type()}; Prometheus ` +
    `${version?.groups?.["version"] ?? "of an unknown version"} and the measured program on the same machine; Node ${process.versions.node}.`
  );
}
