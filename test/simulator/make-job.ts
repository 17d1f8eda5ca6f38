import type { Container, Job, Run } from "./job.ts";
import type { Random } from "./random.ts";

const MEBI = 1024 * 1024;

/** What a kind says about a container; the rest is filled in. */
export type ContainerPlan = {
  readonly name?: string;
  readonly milliCores?: number;
  readonly resized?: { readonly at: number; readonly milliCores: number };
  readonly memory?: number;
  readonly from?: number;
  /** null: runs on */
  readonly to?: number | null;
  /** instead of from and to */
  readonly runs?: readonly (readonly [number, number])[];
  /** false: cAdvisor never sees it */
  readonly measured?: boolean;
};

/** What a kind says about a job; the rest is filled in. `end`: null means that it runs on. */
export type JobPlan = {
  readonly start: number;
  readonly end: number | null;
  readonly pod?: string;
  readonly containers?: readonly ContainerPlan[];
  readonly sidecars?: readonly ContainerPlan[];
  readonly initContainers?: readonly ContainerPlan[];
  readonly outcome?: "Succeeded" | "Failed";
  /** seconds from the end to the deletion of the pod object; null: it stays */
  readonly lingers?: number | null;
  readonly deleted?: number;
  readonly evicted?: number;
  readonly starts?: Job["starts"];
  readonly placements?: Job["placements"];
  readonly labels?: Readonly<Record<string, string>>;
};

/** A whole job from a plan: a pod of one container and one core that is deleted 10 to 60 minutes after its end. */
export function makeJob(kind: string, namespace: string, random: Random, plan: JobPlan): Job {
  const { start, end } = plan;
  const containers = plan.containers ?? [{ milliCores: 1000, memory: 512 * MEBI }];
  const built = (one: ContainerPlan, index: number, from: number): Container =>
    container(one, `${one.name ?? "main"}${one.name === undefined && index > 0 ? index + 1 : ""}`, from, end);
  const lingers = plan.lingers === undefined ? random.int(600, 3600) : plan.lingers;
  const gone = plan.deleted ?? (lingers === null || end === null ? undefined : Math.max(start, end) + lingers);
  const vo = random.pick(["atlas", "cms", ""]);
  return {
    kind,
    namespace,
    pod: plan.pod ?? `${kind}-${random.suffix()}`,
    uid: random.uid(),
    labels: plan.labels ?? { app: kind, ...(vo === "" ? {} : { "example.org/vo": vo }) },
    created: start - random.int(65, 130),
    placements: plan.placements ?? [{ node: `node-${random.int(1, 4)}`, from: start - 1 }],
    starts: plan.starts ?? [{ value: start, from: start }],
    initContainers: (plan.initContainers ?? []).map((one, index) => built(one, index, start + 1)),
    sidecars: (plan.sidecars ?? []).map((one, index) => built(one, index, start + 2)),
    containers: containers.map((one, index) => built(one, index, start + 3)),
    outcome: plan.outcome ?? "Succeeded",
    ...(plan.evicted === undefined ? {} : { evicted: plan.evicted }),
    ...(gone === undefined ? {} : { deleted: gone }),
  };
}

function container(plan: ContainerPlan, name: string, start: number, end: number | null): Container {
  const to = plan.to === undefined ? end : plan.to;
  const stretches = plan.runs ?? [[plan.from ?? start, to] as const];
  const rate = (plan.milliCores ?? 40) * 0.7;
  const runs = stretches.map(([from, until]): Run => {
    const used = Math.round(rate * Math.max(0, (until ?? from + 86_400) - from));
    return {
      from,
      ...(until === null ? {} : { to: until }),
      ...(plan.measured === false ? {} : { cpuMs: used }),
    };
  });
  return {
    name,
    runs,
    ...(plan.milliCores === undefined ? {} : { milliCores: plan.milliCores }),
    ...(plan.resized === undefined ? {} : { resized: plan.resized }),
    ...(plan.memory === undefined ? {} : { memory: plan.memory, memoryUsed: Math.round(plan.memory * 0.8) }),
  };
}
