import { showTime } from "../../../../lib/accounting/model/time.ts";
import type { Container, Job } from "../../../simulator/index.ts";

/** An example's text, as it must stand in docs/accounting-semantics.md between its marker and the next line of three backticks. */
export type Example = () => Promise<string> | string;

/** An instant without its zone; the document says that all times are UTC. */
export const when = (epoch: number | undefined): string =>
  epoch === undefined ? "-" : showTime(epoch).replace(" UTC", "");

export const cores = (milliCores: number): string => (milliCores / 1000).toString();

/** Rows under a head, in columns as wide as they must be. */
export function columns(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const all = [head, ...rows.map((row) => row.map(String))];
  const widths = head.map((_, index) => Math.max(...all.map((row) => (row[index] ?? "").length)));
  return all
    .map((row) =>
      row
        .map((cell, index) => cell.padEnd(widths[index] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** The first value of kube_pod_start_time and the last end of a container: what is known of a pod's run. */
export const startOfPod = (job: Job): number | undefined => job.starts[0]?.value;
export const endOfPod = (job: Job): number | undefined => {
  const ends = job.evicted === undefined ? job.containers.map((one) => one.runs.at(-1)?.to) : [];
  return ends.length === 0 || ends.includes(undefined) ? undefined : Math.max(...ends.map((end) => end ?? 0));
};

const requested = (containers: readonly Container[]): string => {
  const asked = containers.flatMap(({ milliCores }) => milliCores ?? []);
  return asked.length === 0 ? "-" : cores(asked.reduce((sum, one) => sum + one, 0));
};

/** Pods as a table, from the very jobs that are simulated. */
export const podTable = (jobs: readonly Job[]): string =>
  columns(
    ["pod", "start", "end", "cores requested"],
    jobs.map((job) => [job.pod, when(startOfPod(job)), when(endOfPod(job)), requested(job.containers)]),
  );

/** The lines `Key: value` of a message whose keys are wanted, in the message's order. */
export const fields = (message: string, wanted: RegExp): string =>
  message
    .split("\n")
    .filter((line) => wanted.test(line))
    .join("\n");
