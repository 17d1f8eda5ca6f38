import type { GpuProcess } from "./gpu.ts";
import type { Reader } from "./nvidia-smi-reader.ts";

/**
 * The processes on a GPU: undefined where the list is missing or says something else than processes (`N/A`, permissions), as
 * nobody knows then who uses it. A process without a readable id is left out and counted.
 */
export const readProcesses = (gpu: Reader): readonly GpuProcess[] | undefined => {
  const list = gpu.at("processes");
  if (list === undefined || (!list.isNested() && list.ownText() !== "" && list.ownText() !== "None")) return undefined;
  return list.all("process_info").flatMap((row) => {
    const pid = row.integer("pid");
    if (pid === undefined) {
      row.reject();
      return [];
    }
    return [
      {
        pid,
        type: row.name("type"),
        usedBytes: row.number("bytes", "used_memory"),
        gpuInstance: row.integer("gpu_instance_id"),
        computeInstance: row.integer("compute_instance_id"),
      },
    ];
  });
};
