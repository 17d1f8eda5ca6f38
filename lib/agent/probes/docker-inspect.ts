import * as z from "zod";
import type { Metric } from "../../shared/exposition.ts";
import type { Output, Parsed } from "../command/types.ts";
import {
  type AssignedGpus,
  amdGpus,
  annotatedDevices,
  mountedDevice,
  nvidiaGpus,
  orderedDevices,
} from "./common/assigned-gpus.ts";
import { type ContainerNames, containerLabels, isContainerId, kubernetesNames, shortId } from "./common/container.ts";
import { dockerError, dockerFailure } from "./common/docker.ts";
import { type NodeMetricName, nodeMetrics } from "./common/metric-families.ts";
import { Count, Flag, ParseError, Text, Texts, jsonAtEnd, labelText } from "./common/parse.ts";
import { PER_CONTAINER_DEFAULTS, perContainer, perContainerProbe } from "./common/per-container.ts";
import { type ProbeKind, limitsOf } from "./common/probe.ts";
import { type ProbeDefaults, USUAL_INTERVAL } from "./common/settings.ts";

export type InspectReadings = { readonly containers: readonly DockerContainer[] };

export const DOCKER_INSPECT_DEFAULTS = {
  description: "what each container is, which job it belongs to, and which GPUs it was given",
  interval: USUAL_INTERVAL,
  timeout: 20,
  command: ["docker", "inspect", "--type", "container", "--", "{id}"],
  maxBytes: 4 * 1024 * 1024,
  options: PER_CONTAINER_DEFAULTS,
} as const satisfies ProbeDefaults;

/** One command a container: in a command for all, a container whose inspection hangs would cost the others' data. */
export const dockerInspect: ProbeKind<InspectReadings> = {
  create: (settings) =>
    perContainerProbe({
      name: "docker-inspect",
      limits: limitsOf("docker-inspect", settings, DOCKER_INSPECT_DEFAULTS),
      perContainer: perContainer("docker-inspect", settings, DOCKER_INSPECT_DEFAULTS.options),
      label: "docker inspect",
      command: settings.command ?? DOCKER_INSPECT_DEFAULTS.command,
      parse: (output) => {
        const { value, rejected } = parseDockerInspect(output);
        return { value: value[0], rejected };
      },
      publish: (byId) => {
        const containers = [...byId.values()];
        return { metrics: dockerInspectMetrics(containers), readings: { containers } };
      },
    }),
  parseSaved: (output) => {
    const { value, rejected } = parseDockerInspect(output);
    return { metrics: dockerInspectMetrics(value), parsed: value, rejected };
  },
};

/** One container of docker inspect. A value that is missing is undefined. */
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

/** The GPUs given to a container, by maker, and the settings that name them. No other variable is kept, as it may hold a secret. */
type ContainerGpus = {
  readonly nvidia: AssignedGpus;
  readonly amd: AssignedGpus;
  readonly nvidiaVisibleDevices: string | undefined;
  readonly paiAmdVisibleDevices: string | undefined;
  readonly gpuIdLabel: string | undefined;
};

/**
 * Reads docker inspect: an array of containers, or one as the daemon's API gives it. A container that no longer exists is
 * left out; what is no container, and the second one of an id, is left out and counted.
 *
 * @throws {ParseError} when docker failed, or printed no JSON with containers
 */
export const parseDockerInspect = (output: Output): Parsed<readonly DockerContainer[]> => {
  const gone = isGone(output);
  if (output.exitCode !== 0 && !gone) throw dockerError("docker inspect", output);
  const json = jsonAtEnd(output.stdout);
  if (json === undefined && gone) return { value: [], rejected: 0 };
  const items: readonly unknown[] = Array.isArray(json) ? json : [json];
  const containers = new Map<string, DockerContainer>();
  let rejected = 0;
  for (const item of items) {
    const found = Inspected.safeParse(item);
    const key = shortId(found.data?.Id ?? "");
    if (found.success && !containers.has(key)) containers.set(key, readContainer(found.data));
    else rejected += 1;
  }
  if (rejected > 0 && containers.size === 0) {
    throw new ParseError(`docker inspect printed no container: ${JSON.stringify(output.stdout.slice(0, 200))}`);
  }
  return { value: [...containers.values()], rejected };
};

/** The exit codes of docker and podman when there is no such container. */
const GONE_CODES: readonly number[] = [1, 125];

/** Whether the container went away after it was listed: that is no failure. */
const isGone = (output: Output): boolean =>
  GONE_CODES.includes(output.exitCode) &&
  dockerFailure(output) === "other" &&
  /no such (?:object|container)/i.test(output.stderr.slice(0, 4096));

const Health = z.object({ Status: Text }).optional().catch(undefined);

/** Healthcheck: podman before 4 */
const State = z
  .object({ Status: Text, Pid: Count, StartedAt: Text, OOMKilled: Flag, Health, Healthcheck: Health })
  .catch({
    Status: undefined,
    Pid: undefined,
    StartedAt: undefined,
    OOMKilled: undefined,
    Health: undefined,
    Healthcheck: undefined,
  });

const Values = z.array(z.unknown()).catch([]);

/** CreateCommand: how podman was told to make the container */
const Config = z
  .object({ Image: Text, Labels: Texts, Env: Values, CreateCommand: Values, Annotations: Texts })
  .catch({ Image: undefined, Labels: new Map(), Env: [], CreateCommand: [], Annotations: new Map() });

const Mounts = z.array(z.object({ Destination: Text }).catch({ Destination: undefined })).catch([]);

const Devices = z.array(z.object({ PathOnHost: z.string() }).or(z.unknown().transform(() => undefined))).catch([]);

const Request = z.object({ Count: z.int().catch(0), DeviceIDs: z.array(z.string()).catch([]) });

const Requests = z.array(Request.or(z.unknown().transform(() => undefined))).catch([]);

const HostConfig = z
  .object({ Runtime: Text, Devices, DeviceRequests: Requests, Annotations: Texts })
  .catch({ Runtime: undefined, Devices: [], DeviceRequests: [], Annotations: new Map() });

/** An element of docker inspect's array, or the answer of the daemon's API to /containers/ID/json. */
const Inspected = z.object({
  Id: z.string(),
  Name: Text,
  /** podman's */
  ImageName: Text,
  RestartCount: Count,
  State,
  Config,
  HostConfig,
  Mounts,
});

type Inspected = z.infer<typeof Inspected>;

const readContainer = (inspected: Inspected): DockerContainer => {
  const { Id, Name, ImageName, RestartCount, State, Config } = inspected;
  const labels = Config.Labels;
  const environment = readEnvironment(Config.Env);
  const name = Name?.replace(/^\//, "");
  const names = kubernetesNames(name ?? "");
  // An image may have labels with the kubelet's names: they count only for a container with a name that the kubelet gives.
  const kubelet = names.pod === undefined ? new Map<string, string>() : labels;
  const isKubernetes = names.pod !== undefined || labels.has("io.kubernetes.pod.name");
  const startTime = startOf(State.StartedAt);
  return {
    id: Id === "" ? undefined : Id,
    name,
    namespace: kubelet.get("io.kubernetes.pod.namespace") ?? names.namespace,
    pod: kubelet.get("io.kubernetes.pod.name") ?? names.pod,
    container: kubelet.get("io.kubernetes.container.name") ?? names.container,
    podUid: kubelet.get("io.kubernetes.pod.uid"),
    image: Config.Image ?? ImageName,
    job: readJob(labels, environment, isKubernetes),
    status: State.Status,
    pid: State.Pid === 0 ? undefined : State.Pid,
    startedAt: startTime === undefined ? undefined : State.StartedAt,
    startTime,
    restartCount: RestartCount,
    oomKilled: State.OOMKilled,
    healthy: healthOf((State.Health ?? State.Healthcheck)?.Status),
    kubeletManaged: labels.has("io.kubernetes.pod.name"),
    labelCount: labels.size,
    environmentCount: environment.size,
    gpus: readGpus(inspected, environment, isKubernetes),
  };
};

const readGpus = (
  { Config, HostConfig, Mounts }: Inspected,
  environment: TextsByName,
  isKubernetes: boolean,
): ContainerGpus => {
  const labels = Config.Labels;
  const settings = {
    environment,
    // OpenPAI sets it for its jobs on YARN; on Kubernetes only an image can have set it
    label: isKubernetes ? undefined : labels.get("GPU_ID"),
    devices: HostConfig.Devices.flatMap((device) => (device === undefined ? [] : [device.PathOnHost])),
    requests: HostConfig.DeviceRequests.flatMap((request) =>
      request === undefined ? [] : [{ count: request.Count, ids: request.DeviceIDs }],
    ),
    cdi: [
      ...annotatedDevices(HostConfig.Annotations),
      ...annotatedDevices(Config.Annotations),
      ...orderedDevices(Config.CreateCommand),
      ...Mounts.flatMap(({ Destination }) => mountedDevice(Destination ?? "") ?? []),
    ],
    nvidiaRuntime: HostConfig.Runtime === "nvidia",
  };
  return {
    nvidia: nvidiaGpus(settings),
    amd: amdGpus(settings),
    nvidiaVisibleDevices: environment.get("NVIDIA_VISIBLE_DEVICES"),
    paiAmdVisibleDevices: environment.get("PAI_AMD_VISIBLE_DEVICES"),
    gpuIdLabel: labels.get("GPU_ID"),
  };
};

/** `NAME=value`; a variable without `=` has no value and is left out. The last one of a name counts. */
const readEnvironment = (lines: readonly unknown[]): ReadonlyMap<string, string> =>
  new Map(
    lines.flatMap((line) => {
      const equals = typeof line === "string" ? line.indexOf("=") : -1;
      return typeof line === "string" && equals > 0 ? [[line.slice(0, equals), line.slice(equals + 1)] as const] : [];
    }),
  );

const RFC_3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/;

/** Without luxon, which would add its tables of languages and time zones to the agent's memory, 10 MB. */
const startOf = (text: string | undefined): number | undefined => {
  const start = text !== undefined && RFC_3339.test(text) ? Date.parse(text) : Number.NaN;
  // docker prints the year 1 for a container that never started
  return start >= 0 ? start / 1000 : undefined;
};

const healthOf = (status: string | undefined): boolean | undefined => {
  const word = status?.toLowerCase();
  return word === "healthy" ? true : word === "unhealthy" ? false : undefined;
};

/** The job that a container belongs to. A value that is missing is undefined. */
type ContainerJob = {
  readonly job: string | undefined;
  readonly user: string | undefined;
  readonly role: string | undefined;
  readonly taskIndex: string | undefined;
  /** one attempt of the job: a YARN application, or a framework attempt */
  readonly instance: string | undefined;
  readonly virtualCluster: string | undefined;
};

/**
 * Finds the job of OpenPAI, or of its fork DLWorkspace, in a container's environment and labels. The platform sets the environment
 * of every job. Labels may come from the image, whose author may write any job there: a label counts only where the environment has
 * no such value, and only if the labels name the same job. Where the environment names no job, the labels may (old jobs on YARN),
 * but not in Kubernetes, which sets no such labels.
 */
const readJob = (labels: TextsByName, environment: TextsByName, isKubernetes: boolean): ContainerJob => {
  const job = (texts: TextsByName) => firstOf(texts, "PAI_JOB_NAME", "DLTS_JOB_ID", "DLWS_JOB_ID");
  const named = job(environment);
  const agree = !isKubernetes && (named === undefined || job(labels) === named);
  const known = agree ? labels : new Map<string, string>();
  const either = (...keys: readonly string[]) => firstOf(environment, ...keys) ?? firstOf(known, ...keys);
  return {
    job: named ?? job(known),
    user: either("PAI_USER_NAME", "PAI_USERNAME", "DLTS_USER_NAME", "DLWS_USER_NAME"),
    role: either("PAI_CURRENT_TASK_ROLE_NAME", "FC_TASKROLE_NAME"),
    taskIndex: either("PAI_TASK_INDEX", "FC_TASK_INDEX", "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"),
    instance: either("APP_ID", "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID"),
    virtualCluster: either("PAI_VIRTUAL_CLUSTER") ?? either("PAI_JOB_VC_NAME"),
  };
};

type TextsByName = ReadonlyMap<string, string>;

const firstOf = (texts: TextsByName, ...keys: readonly string[]): string | undefined =>
  keys.map((key) => texts.get(key)).find((text) => text !== undefined && text !== "");

/** The metrics of containers. This probe owns gridmeter_container_info, which other series are joined to by container_id. */
export const dockerInspectMetrics = (containers: readonly DockerContainer[]): Metric[] =>
  nodeMetrics(
    containers
      .filter(({ id }) => id !== undefined && isContainerId(id))
      .flatMap((one) => {
        const labels = containerLabels(one);
        const sample = (metric: NodeMetricName, value: number | boolean | undefined) => ({ metric, labels, value });
        const info = {
          pod_uid: labelText(one.podUid),
          image: labelText(one.image),
          job: labelText(one.job.job),
          user: labelText(one.job.user),
          role: labelText(one.job.role),
          task_index: labelText(one.job.taskIndex),
          job_instance: labelText(one.job.instance),
          virtual_cluster: labelText(one.job.virtualCluster),
        };
        return [
          { metric: "gridmeter_container_info" as const, labels: { ...labels, ...info }, value: 1 },
          sample("gridmeter_container_running", one.status === undefined ? undefined : one.status === "running"),
          sample("gridmeter_container_start_time_seconds", one.startTime),
          sample("gridmeter_container_restarts_total", one.restartCount),
          sample("gridmeter_container_oom_killed", one.oomKilled),
          sample("gridmeter_container_healthy", one.healthy),
        ];
      }),
  );
