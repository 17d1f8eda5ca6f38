/** One life of a container, epoch seconds, [from, to); without `to` it runs on. */
export type Run = {
  readonly from: number;
  readonly to?: number;
  /** CPU milliseconds it uses in all; absent: cAdvisor never reports this run */
  readonly cpuMs?: number;
};

export type Container = {
  readonly name: string;
  /** CPU request; absent: none */
  readonly milliCores?: number;
  /** a later CPU request, resized in place */
  readonly resized?: { readonly at: number; readonly milliCores: number };
  /** memory request, bytes */
  readonly memory?: number;
  /** peak of the working set, bytes */
  readonly memoryUsed?: number;
  /** ascending, not overlapping; several where it was restarted or moved */
  readonly runs: readonly Run[];
};

/** What really happened to one pod; everything else (series, truth) follows from it. Times are whole epoch seconds. */
export type Job = {
  readonly kind: string;
  readonly namespace: string;
  readonly pod: string;
  readonly uid: string;
  readonly labels: Readonly<Record<string, string>>;
  /** what made the pod; absent: a Job */
  readonly owner?: "ReplicaSet";
  /** the pod's own address, where it matters */
  readonly address?: string;
  readonly created: number;
  /** the nodes it was on, each from the given moment; empty: never scheduled */
  readonly placements: readonly { readonly node: string; readonly from: number }[];
  /** values of kube_pod_start_time, each reported from the given moment */
  readonly starts: readonly { readonly value: number; readonly from: number }[];
  readonly initContainers: readonly Container[];
  /** native sidecars: init containers with restartPolicy Always */
  readonly sidecars: readonly Container[];
  readonly containers: readonly Container[];
  readonly outcome: "Succeeded" | "Failed";
  /** evicted: phase Failed from here on, no container has an end */
  readonly evicted?: number;
  /** when the pod object is deleted; absent: it stays */
  readonly deleted?: number;
};

/** The last end of a container, or undefined while it runs on. */
export function lastEnd(container: Container): number | undefined {
  return container.runs.at(-1)?.to;
}

/** When the phase becomes Succeeded or Failed: all containers and native sidecars have ended, or it was evicted. */
export function finishedAt(job: Job): number | undefined {
  if (job.evicted !== undefined) return job.evicted;
  const ends = [...job.containers, ...job.sidecars].map(lastEnd);
  return ends.some((end) => end === undefined) ? undefined : Math.max(...ends.map((end) => end ?? 0));
}

/** When the first container started: the phase becomes Running. */
export function runningAt(job: Job): number {
  return Math.min(...job.containers.map((container) => container.runs[0]?.from ?? Infinity));
}

export type Termination = { readonly value: number; readonly from: number; readonly to: number };

/**
 * The stretches in which a container's state is "terminated", with its end. Native sidecars and init containers have no
 * part in kube_pod_completion_time. A container about to be restarted is terminated for the first half of the pause,
 * then waiting (CrashLoopBackOff).
 */
export function terminations(job: Job): readonly Termination[] {
  const found: Termination[] = [];
  const until = job.evicted ?? Infinity;
  for (const { runs } of job.containers) {
    runs.forEach(({ to }, index) => {
      if (to === undefined) return;
      const next = runs[index + 1]?.from;
      const gone = Math.min(until, next === undefined ? Infinity : to + Math.floor((next - to) / 2));
      if (gone > to) found.push({ value: to, from: to, to: gone });
    });
  }
  return found;
}

/** CPU milliseconds a run has used up to a moment. All of it is used in the first half, so that the last samples hold the total. */
export function usedCpuMs(run: Run, at: number): number {
  const length = ((run.to ?? run.from + 86_400) - run.from) / 2;
  const share = length <= 0 ? 1 : Math.min(1, Math.max(0, (at - run.from) / length));
  return Math.round((run.cpuMs ?? 0) * share);
}

/** The CPU request in force at a moment, milli-cores, or undefined if there is none. */
export function requestAt(container: Container, at: number): number | undefined {
  const { resized } = container;
  return resized !== undefined && at >= resized.at ? resized.milliCores : container.milliCores;
}
