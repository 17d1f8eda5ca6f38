import { scrapesOf, STACK } from "../cluster.ts";
import type { Cluster, Stack } from "../cluster.ts";
import type { Job } from "../job.ts";
import { DAY, HOUR } from "../place.ts";
import { service } from "../services.ts";
import type { Series } from "../series.ts";
import { ALL_DAYS, at, batch, jobsOn, pod } from "./batch.ts";
import { allowed, plain, publishes, refuses } from "./situation.ts";
import type { Right, Situation } from "./situation.ts";

const QUIET: Partial<Right> = { silent: [/not seen/] };
const ONE_LINE: Partial<Right> = { saysOnce: [/not seen/] };

/** Which of two shards holds a pod. */
const ordinalOf = ({ uid }: Job): number => Number.parseInt(uid.slice(-1), 16) % 2;
const DAILY = jobsOn(ALL_DAYS, { perDay: 2 });
const heldBy = (ordinal: number): readonly Job[] => DAILY.filter((job) => ordinalOf(job) === ordinal);

const shard = (ordinal: number, more: Partial<Stack> = {}): Stack => ({
  ...STACK,
  instances: [{ instance: `10.42.0.${11 + ordinal}:8080`, from: 0 }],
  offset: 7 + 24 * ordinal,
  holds: (job) => ordinalOf(job) === ordinal,
  ...more,
});

/** What a shard says about itself on its second endpoint: how many there are, and which it is. */
function selfMetrics(cluster: Cluster, total: number): Series[] {
  return cluster.stacks.flatMap((stack, ordinal) => {
    const life = { from: 0, to: Infinity };
    const labels = { job: stack.job, instance: (stack.instances[0]?.instance ?? "").replace(":8080", ":8081") };
    const schedule = scrapesOf(cluster, stack);
    const one = (name: string, value: number, more: Record<string, string> = {}): Series => ({
      name,
      labels: { ...labels, ...more },
      segments: [{ ...life, value }],
      schedule,
    });
    return [
      one("up", 1),
      one("kube_state_metrics_total_shards", total),
      one("kube_state_metrics_shard_ordinal", ordinal, { shard_ordinal: `${ordinal}` }),
    ];
  });
}

/** The jobs that shard 1 shows although it is away: they did not end meanwhile. */
const seenWithout = (from: number, to: number): number =>
  heldBy(0).length + heldBy(1).filter((job) => !(job.created >= from - 3 * HOUR && job.created < to)).length;

const AWAY = [at(8), at(20)] as const;
/** A pod of shard 1 that runs before, meanwhile and after. */
const long = longJob();
function longJob(): Job {
  for (let hour = 1; hour < 24; hour += 1) {
    const job = pod(at(5, hour), at(5, hour) + 20 * DAY);
    if (ordinalOf(job) === 1) return job;
  }
  throw new Error("no pod of shard 1");
}
const withLong = (jobs: number) => ({ jobs: jobs + 1, coreHours: jobs * 4 + 20 * 24 * 2 });

const selfSituations = (["down", "absent"] as const).flatMap((kind): Situation[] => {
  const twelve = batch(DAILY, { stacks: [shard(0), shard(1, { outages: [{ from: AWAY[0], to: AWAY[1], kind }] })] });
  const three = batch(DAILY, {
    stacks: [shard(0), shard(1, { outages: [{ from: at(8, 13), to: at(8, 16), kind }] })],
  });
  return [
    {
      name: `one of two shards ${kind} for 12 days, with metrics about themselves`,
      after: "rule: with kube_state_metrics_total_shards above 1 every shard_ordinal must be seen",
      cluster: twelve,
      whole: false,
      held: (shown) => [...shown, ...selfMetrics(twelve, 2)],
      runs: [{ right: refuses(["monitoring_not_seen"]) }, allowed(plain(seenWithout(...AWAY)))],
    },
    {
      name: `one of two shards ${kind} for 3 hours, with metrics about themselves`,
      after: "rule: Gaps over 30 minutes",
      cluster: three,
      whole: true,
      held: (shown) => [...shown, ...selfMetrics(three, 2)],
      runs: [{ right: publishes(plain(62), { ...ONE_LINE, says: [/2025-01-08/] }) }],
    },
    {
      name: `one of two shards ${kind} for 12 days, without metrics about themselves`,
      after: "rule: a target up 0 for 30 minutes, or gone while its unfinished uids return later",
      cluster: { ...twelve, jobs: [...DAILY, long] },
      whole: false,
      runs: [{ right: refuses(["monitoring_not_seen"]) }, { ...allowed(withLong(seenWithout(...AWAY))) }],
    },
    {
      name: `one of two shards ${kind} for 3 hours, without metrics about themselves`,
      after: "rule: a target up 0 for 30 minutes, or gone while its unfinished uids return later",
      cluster: { ...three, jobs: [...DAILY, long] },
      whole: true,
      runs: [{ right: publishes(withLong(62), { ...ONE_LINE, says: [/2025-01-08/] }) }],
    },
  ];
});

/** Without a pod that runs on, shard 1 shows none of the tenant at the midnight at which it goes. */
const idleAway: Situation = {
  name: "one of two shards down for 12 days, idle when it goes, without metrics about themselves",
  after: "rule: of the targets of one job that show this tenant's pods, one that is up 0 for 30 minutes",
  cluster: batch(DAILY, {
    stacks: [shard(0), shard(1, { outages: [{ from: AWAY[0], to: AWAY[1], kind: "down" }] })],
  }),
  whole: false,
  runs: [{ right: refuses(["monitoring_not_seen"]) }, allowed(plain(seenWithout(...AWAY)))],
};

const mainDown = batch(DAILY, {
  stacks: [shard(0), shard(1, { outages: [{ from: AWAY[0], to: AWAY[1], kind: "down" }] })],
});
const mainDownSituation: Situation = {
  name: "the main endpoint of one of two shards down for 12 days, that about itself up",
  after: "kube-prometheus#2643, with two shards",
  cluster: mainDown,
  whole: false,
  held: (shown) => [...shown, ...selfMetrics({ ...mainDown, stacks: [shard(0), shard(1)] }, 2)],
  runs: [{ right: refuses(["monitoring_not_seen"]) }, allowed(plain(seenWithout(...AWAY)))],
};

const copy = (more: Partial<Stack>): Stack => ({
  ...STACK,
  instances: [{ instance: "10.42.0.12:8080", from: 0 }],
  offset: 31,
  ...more,
});

const shardsRedeployed = batch(DAILY, {
  stacks: [0, 1].map((ordinal) =>
    shard(ordinal, {
      instances: [
        { instance: `10.42.0.${11 + ordinal}:8080`, from: 0 },
        { instance: `10.42.0.${21 + ordinal}:8080`, from: at(15, 9, 10) },
      ],
    }),
  ),
});

const copies: readonly Situation[] = [
  ...(["down", "absent"] as const).map((kind): Situation => ({
    name: `a copy of kube-state-metrics ${kind} for 12 days`,
    after: "rule: unless another target shows a pod that it showed too (a copy)",
    cluster: batch([...DAILY, long], {
      stacks: [STACK, copy({ outages: [{ from: AWAY[0], to: AWAY[1], kind }] })],
    }),
    whole: true,
    runs: [{ right: publishes(withLong(62), QUIET) }],
  })),
  {
    name: "a copy of kube-state-metrics for three days",
    after: "rule: unless another target shows a pod that it showed too (a copy)",
    cluster: batch([...DAILY, long], { stacks: [STACK, copy({ life: { from: at(9), to: at(12) } })] }),
    whole: true,
    runs: [{ right: publishes(withLong(62), QUIET) }],
  },
  {
    name: "both shards redeployed, without metrics about themselves",
    after: "rule: unless another target shows a pod that it showed too (its successor)",
    cluster: { ...shardsRedeployed, jobs: [...DAILY, long] },
    whole: true,
    runs: [{ right: publishes(withLong(62), QUIET) }],
  },
];

const NODES = ["node-1", "node-2", "node-3"];
const nodeOf = (job: Job): string => job.placements.at(-1)?.node ?? "";

/** One kube-state-metrics a node, as a DaemonSet runs it, with a pod of the system on each. */
function daemons(jobs: readonly Job[], third: Partial<Stack>): Cluster {
  return batch(jobs, {
    stacks: NODES.map((node, index) => ({
      ...STACK,
      instances: [{ instance: `10.42.${index}.11:8080`, from: 0 }],
      offset: 7 + 17 * index,
      node,
      holds: (job) => nodeOf(job) === node,
      ...(node === "node-3" ? third : {}),
    })),
    services: NODES.map((node) =>
      service("kube-system", `kube-proxy-${node}`, { start: at(-20), placements: [{ node, from: at(-20) }] }),
    ),
  });
}

/** A job a day on each of the three nodes; on the third only while it is there. What is not on a node is in no shard. */
const onNodes = (there: (day: number) => boolean): Job[] =>
  ALL_DAYS.flatMap((day) =>
    NODES.filter((node) => node !== "node-3" || there(day)).map((node) => {
      const scheduled = at(day, 8) - 1;
      const job = pod(at(day, 8), at(day, 10), { pod: `job-${day}-${node}`, placements: [{ node, from: scheduled }] });
      return { ...job, created: scheduled };
    }),
  );

const untilAway = (day: number): boolean => day !== 15 && day !== 16;
/** A pod of the third node that runs before, meanwhile and after. */
const longOnNode: Job = {
  ...pod(at(14, 12), at(18, 12), { pod: "long", placements: [{ node: "node-3", from: at(14, 12) - 1 }] }),
  created: at(14, 12) - 1,
};
const withLongOnNode = (jobs: number) => ({ jobs: jobs + 1, coreHours: jobs * 4 + 96 * 2 });

const daemonSets: readonly Situation[] = [
  {
    name: "a kube-state-metrics on each node, one node goes for good",
    after: "rule: targets whose pods are all on one node; one that is gone for good is no gap",
    cluster: daemons(
      onNodes((day) => day < 15),
      { life: { from: 0, to: at(15) } },
    ),
    whole: true,
    runs: [{ right: publishes(plain(62 + 14), QUIET) }],
  },
  ...(["down", "absent"] as const).map((kind): Situation => ({
    name: `a kube-state-metrics on each node, one node ${kind} for two days`,
    after: "rule: targets whose pods are all on one node never make a day unseen",
    cluster: daemons([...onNodes(untilAway), longOnNode], { outages: [{ from: at(15), to: at(17), kind }] }),
    whole: true,
    runs: [{ right: publishes(withLongOnNode(62 + 29), { ...ONE_LINE, says: [/2025-01-15/] }) }],
  })),
  {
    name: "a kube-state-metrics on each node, one node down for two days, idle when it goes",
    after: "rule: targets whose pods are all on one node never make a day unseen",
    cluster: daemons(onNodes(untilAway), { outages: [{ from: at(15), to: at(17), kind: "down" }] }),
    whole: true,
    runs: [{ right: publishes(plain(62 + 29), { ...ONE_LINE, says: [/2025-01-15/] }) }],
  },
];

export const SHARDS: readonly Situation[] = [...selfSituations, idleAway, mainDownSituation, ...copies, ...daemonSets];
