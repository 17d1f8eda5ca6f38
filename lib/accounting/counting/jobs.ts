import { Buffer } from "node:buffer";
import type { Job } from "./usage.ts";

/** Numbers of a job: its own six, where its uid ends in the bytes of all texts, and where its pod's name ends. */
const WIDTH = 8;

/**
 * The jobs of a day, in the order of their APEL keys within a site. They are kept as a table of numbers and the bytes of
 * their texts, which are outside V8's heap. As objects a month of jobs would take twice the memory, and leave half as much
 * again in garbage.
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
    // Each text is written by itself, as it was measured: joined, two halves of a character would have fewer bytes.
    for (const { uid, pod } of sorted) for (const text of [uid, pod]) at += this.#texts.write(text, at);
  }

  /** Each job is made again whenever the list is gone through. */
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

/** The order of jobs' APEL keys within a site: by EndTime, then by LocalJobId as it is written in a key. */
export function inOrder(a: Pick<Job, "end" | "uid">, b: Pick<Job, "end" | "uid">): number {
  if (a.end !== b.end) return a.end - b.end;
  const [left, right] = [JSON.stringify(a.uid), JSON.stringify(b.uid)];
  return left < right ? -1 : left > right ? 1 : 0;
}
