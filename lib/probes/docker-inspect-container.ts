import * as z from "zod";
import { kubernetesNames, type ContainerNames } from "./container.ts";
import { readJob, type ContainerJob } from "./docker-inspect-job.ts";
import { amdGpus, nvidiaGpus, type AssignedGpus } from "./docker-inspect-gpus.ts";
import { Count, Flag, Text, Texts } from "./json.ts";

/** One container in docker inspect. What is not known is undefined. */
export type DockerContainer = ContainerNames & {
  readonly podUid: string | undefined;
  readonly image: string | undefined;
  readonly job: ContainerJob;
  /** `running`, `exited` and so on */
  readonly status: string | undefined;
  /** the process on the host; undefined where there is none */
  readonly pid: number | undefined;
  /** as printed; undefined for one that never started */
  readonly startedAt: string | undefined;
  /** seconds since 1970 */
  readonly startTime: number | undefined;
  readonly restartCount: number | undefined;
  readonly oomKilled: boolean | undefined;
  /** its own health check; undefined where it has none or it has not come to a result */
  readonly healthy: boolean | undefined;
  readonly kubeletManaged: boolean;
  readonly labelCount: number;
  /** variables that have a value */
  readonly environmentCount: number;
  readonly gpus: ContainerGpus;
};

/** The GPUs given to a container, by maker, and the texts that say so. The rest of the environment holds secrets: it is not kept. */
export type ContainerGpus = {
  readonly nvidia: AssignedGpus;
  readonly amd: AssignedGpus;
  readonly nvidiaVisibleDevices: string | undefined;
  readonly paiAmdVisibleDevices: string | undefined;
  readonly gpuIdLabel: string | undefined;
};

const Devices = z.array(z.object({ PathOnHost: z.string() }).or(z.unknown().transform(() => undefined))).catch([]);

const Request = z.object({ Count: z.int().catch(0), DeviceIDs: z.array(z.string()).catch([]) });
const Requests = z.array(Request.or(z.unknown().transform(() => undefined))).catch([]);

const HostConfig = z
  .object({ Runtime: Text, Devices, DeviceRequests: Requests })
  .catch({ Runtime: undefined, Devices: [], DeviceRequests: [] });

const State = z
  .object({
    Status: Text,
    Pid: Count,
    StartedAt: Text,
    OOMKilled: Flag,
    Health: z.object({ Status: Text }).optional().catch(undefined),
  })
  .catch({ Status: undefined, Pid: undefined, StartedAt: undefined, OOMKilled: undefined, Health: undefined });

const Config = z
  .object({ Image: Text, Labels: Texts, Env: z.array(z.unknown()).catch([]) })
  .catch({ Image: undefined, Labels: new Map(), Env: [] });

/** An element of docker inspect's array, or the answer of the daemon's own /containers/ID/json. */
export const Inspected = z.object({
  Id: z.string(),
  Name: Text,
  RestartCount: Count,
  State,
  Config,
  HostConfig,
});

/** `NAME=value`; a variable without `=` has no value and says nothing. The last one of a name counts. */
const readEnvironment = (lines: readonly unknown[]): ReadonlyMap<string, string> =>
  new Map(
    lines.flatMap((line) => {
      const equals = typeof line === "string" ? line.indexOf("=") : -1;
      return typeof line === "string" && equals > 0 ? [[line.slice(0, equals), line.slice(equals + 1)] as const] : [];
    }),
  );

const RFC_3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/;

/** Without luxon, which would be the only part of the agent that loads the tables of languages and time zones, 10 MB. */
const startOf = (text: string | undefined): number | undefined => {
  const start = text !== undefined && RFC_3339.test(text) ? Date.parse(text) : Number.NaN;
  // docker writes the year 1 for a container that never started
  return start >= 0 ? start / 1000 : undefined;
};

const healthOf = (status: string | undefined): boolean | undefined => {
  const word = status?.toLowerCase();
  return word === "healthy" ? true : word === "unhealthy" ? false : undefined;
};

/** Makes a container of what docker inspect says about it. */
export const readContainer = ({ Id, Name, RestartCount, State, Config, HostConfig }: z.infer<typeof Inspected>) => {
  const labels = Config.Labels;
  const environment = readEnvironment(Config.Env);
  const name = Name?.replace(/^\//, "");
  const names = kubernetesNames(name ?? "");
  // Its labels are the kubelet's only on a container that the kubelet has named: any image may have them too.
  const kubelet = names.pod === undefined ? new Map<string, string>() : labels;
  const isKubernetes = names.pod !== undefined || labels.has("io.kubernetes.pod.name");
  const startTime = startOf(State.StartedAt);
  const settings = {
    environment,
    // OpenPAI's label of its jobs on YARN; Kubernetes sets no such label, but an image may have it
    label: isKubernetes ? undefined : labels.get("GPU_ID"),
    devices: HostConfig.Devices.flatMap((device) => (device === undefined ? [] : [device.PathOnHost])),
    requests: HostConfig.DeviceRequests.flatMap((request) =>
      request === undefined ? [] : [{ count: request.Count, ids: request.DeviceIDs }],
    ),
    nvidiaRuntime: HostConfig.Runtime === "nvidia",
  };
  const container: DockerContainer = {
    id: Id === "" ? undefined : Id,
    name,
    namespace: kubelet.get("io.kubernetes.pod.namespace") ?? names.namespace,
    pod: kubelet.get("io.kubernetes.pod.name") ?? names.pod,
    container: kubelet.get("io.kubernetes.container.name") ?? names.container,
    podUid: kubelet.get("io.kubernetes.pod.uid"),
    image: Config.Image,
    job: readJob(labels, environment, isKubernetes),
    status: State.Status,
    pid: State.Pid === 0 ? undefined : State.Pid,
    startedAt: startTime === undefined ? undefined : State.StartedAt,
    startTime,
    restartCount: RestartCount,
    oomKilled: State.OOMKilled,
    healthy: healthOf(State.Health?.Status),
    kubeletManaged: labels.has("io.kubernetes.pod.name"),
    labelCount: labels.size,
    environmentCount: environment.size,
    gpus: {
      nvidia: nvidiaGpus(settings),
      amd: amdGpus(settings),
      nvidiaVisibleDevices: environment.get("NVIDIA_VISIBLE_DEVICES"),
      paiAmdVisibleDevices: environment.get("PAI_AMD_VISIBLE_DEVICES"),
      gpuIdLabel: labels.get("GPU_ID"),
    },
  };
  return container;
};
