import { Buffer } from "node:buffer";
import type { DayUsage, Job } from "./usage.ts";

/** Numbers of a job: its own six, where its texts end in all texts (bytes), and where the first of them ends. */
const WIDTH = 8;

/**
 * The single jobs of a day, by end and then by uid, which is the order of their APEL keys within a site. They are a table
 * of numbers and a text, outside of V8's heap (but for the few names of VOs): there a month of them would take twice as
 * much, and half of that again in garbage, which V8 leaves lying in proportion to what lives.
 */
export class JobList implements Iterable<Job> {
  readonly length: number;
  readonly #numbers: Float64Array;
  readonly #texts: Buffer;
  readonly #vos: readonly (string | null)[];

  constructor(jobs: Iterable<Job> = []) {
    const sorted = [...jobs].sort(inOrder);
    this.length = sorted.length;
    this.#numbers = new Float64Array(sorted.length * WIDTH);
    this.#vos = sorted.map(({ vo }) => vo);
    let end = 0;
    for (const [index, job] of sorted.entries()) {
      const { cpuMilliseconds = NaN, memoryRequest = NaN, memoryUsed = NaN } = job;
      const between = end + Buffer.byteLength(job.uid);
      end = between + Buffer.byteLength(job.pod);
      const row = [job.start, job.end, job.milliCores, cpuMilliseconds, memoryRequest, memoryUsed, between, end];
      this.#numbers.set(row, index * WIDTH);
    }
    this.#texts = Buffer.alloc(end);
    let at = 0;
    // One by one, as they were measured: put together, two texts may have fewer bytes than each by itself.
    for (const { uid, pod } of sorted) for (const text of [uid, pod]) at += this.#texts.write(text, at);
  }

  /** In order, each made again. */
  *[Symbol.iterator](): Generator<Job> {
    let from = 0;
    for (const [index, vo] of this.#vos.entries()) {
      const row = this.#numbers.subarray(index * WIDTH, (index + 1) * WIDTH);
      const [start = 0, end = 0, milliCores = 0, cpu = NaN, request = NaN, used = NaN, between = 0, to = 0] = row;
      const uid = this.#texts.toString("utf8", from, between);
      const pod = this.#texts.toString("utf8", between, to);
      from = to;
      yield {
        uid,
        pod,
        vo,
        start,
        end,
        milliCores,
        ...(Number.isNaN(cpu) ? {} : { cpuMilliseconds: cpu }),
        ...(Number.isNaN(request) ? {} : { memoryRequest: request }),
        ...(Number.isNaN(used) ? {} : { memoryUsed: used }),
      };
    }
  }
}

/** A day as it is kept until the run ends. */
export type CountedDay = { readonly usage: DayUsage; readonly jobs: JobList };

/** The order of jobs' APEL keys within a site: by EndTime, then by LocalJobId as it is in a key. */
export function inOrder(a: Pick<Job, "end" | "uid">, b: Pick<Job, "end" | "uid">): number {
  if (a.end !== b.end) return a.end - b.end;
  const [left, right] = [JSON.stringify(a.uid), JSON.stringify(b.uid)];
  return left < right ? -1 : left > right ? 1 : 0;
}
