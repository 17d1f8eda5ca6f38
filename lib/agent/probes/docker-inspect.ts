import * as z from "zod";
import type { Metric } from "../../shared/exposition.ts";
import type { Command, Output, Parsed } from "../command/types.ts";
import { type ContainerNames, containerLabels, isContainerId, kubernetesNames, shortId } from "./common/container.ts";
import { dockerError, dockerFailure } from "./common/docker.ts";
import { labelText } from "./common/gpu.ts";
import { type NodeMetricName, nodeMetrics } from "./common/metric-families.ts";
import { PER_CONTAINER_DEFAULTS, perContainer, perContainerProbe } from "./common/per-container.ts";
import { Count, Flag, ParseError, type ProbeKind, Text, Texts, limitsOf, parseJson } from "./common/probe.ts";
import { type ProbeDefaults, USUAL_INTERVAL, commandDefaults } from "./common/settings.ts";

export type InspectReadings = { readonly containers: readonly DockerContainer[] };

/** Inspects one container; it takes 50 ms. */
export const dockerInspectCommand = (id: string): Command => ({
  argv: ["docker", "inspect", "--type", "container", "--", id],
  timeout: 5,
  maxBytes: 4 * 1024 * 1024,
});

export const DOCKER_INSPECT_DEFAULTS = {
  description: "what each container is, which job it belongs to, and which GPUs it was given",
  interval: USUAL_INTERVAL,
  timeout: 20,
  ...commandDefaults(dockerInspectCommand("{id}")),
  options: PER_CONTAINER_DEFAULTS,
} as const satisfies ProbeDefaults;

/** Inspects containers one by one: in one command for all, the one that hangs would cost all others. */
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

/** How docker, and podman, exit when there is no such container. */
const GONE_CODES: readonly number[] = [1, 125];

/** A container that went away between the list and now: an absence, and no failure. */
const isGone = (output: Output): boolean =>
  GONE_CODES.includes(output.exitCode) &&
  dockerFailure(output) === "other" &&
  /no such (?:object|container)/i.test(output.stderr.slice(0, 4096));

/**
 * Reads docker inspect: an array of containers, or one as the daemon's API gives it. A container that no longer exists is
 * left out; what is no container, and the second one of an id, is left out and counted.
 *
 * @throws {ParseError} when docker failed, or printed no JSON with containers
 */
export const parseDockerInspect = (output: Output): Parsed<readonly DockerContainer[]> => {
  const gone = isGone(output);
  if (output.exitCode !== 0 && !gone) throw dockerError("docker inspect", output);
  const json = parseJson(output.stdout);
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
type ContainerGpus = {
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
const Inspected = z.object({
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
const readContainer = ({ Id, Name, RestartCount, State, Config, HostConfig }: z.infer<typeof Inspected>) => {
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

/** A GPU as a container's settings name it. `minor` is N of /dev/nvidiaN or /dev/dri/cardN, `index` the place in the tool's order. */
export type GpuReference =
  | { readonly by: "index"; readonly value: number }
  | { readonly by: "minor"; readonly value: number }
  /** a whole uuid, or the beginning of one, which NVIDIA takes too; a MIG device's may name its GPU's */
  | { readonly by: "uuid"; readonly value: string };

/** The GPUs that a container was given: `all` of them, some, or undefined where nothing says. */
export type AssignedGpus = "all" | readonly GpuReference[] | undefined;

/** What in a container's settings speaks of GPUs. */
type GpuSettings = {
  readonly environment: ReadonlyMap<string, string>;
  /** GPU_ID of a job's labels */
  readonly label: string | undefined;
  /** paths on the host of HostConfig.Devices */
  readonly devices: readonly string[];
  /** HostConfig.DeviceRequests, which `docker run --gpus` makes */
  readonly requests: readonly { readonly count: number; readonly ids: readonly string[] }[];
  /** HostConfig.Runtime is NVIDIA's */
  readonly nvidiaRuntime: boolean;
};

const reference = (text: string): GpuReference | undefined => {
  const number = /^(\d{1,4})(?::\d{1,4})?$/.exec(text)?.[1];
  if (number !== undefined) return { by: "index", value: Number(number) };
  // MIG-GPU-<uuid>/<instance>/<instance> of drivers before 470
  const uuid = /^(?:MIG-)?(GPU-[0-9a-f-]{8,36})/i.exec(text)?.[1] ?? /^(?:MIG-|0x)?[0-9a-f-]{8,40}$/i.exec(text)?.[0];
  return uuid === undefined ? undefined : { by: "uuid", value: uuid };
};

/** No list of a node's GPUs is longer. */
const LONGEST_LIST = 16_384;

const list = (text: string): string[] =>
  text
    .slice(0, LONGEST_LIST)
    .split(",")
    .map((item) => item.trim().slice(0, 256))
    .filter((item) => item !== "");

/** `void`, `none` and an empty text say nothing about GPUs (openpai#2447): other settings may. */
const read = (text: string | undefined): AssignedGpus => {
  if (text === undefined) return undefined;
  const items = list(text);
  if (items.includes("all")) return "all";
  const found = items.map(reference).filter((item) => item !== undefined);
  return found.length === 0 ? undefined : found;
};

const minors = (devices: readonly string[], pattern: RegExp): AssignedGpus => {
  const found = devices.flatMap((path): GpuReference[] => {
    const number = pattern.exec(path)?.[1];
    return number === undefined ? [] : [{ by: "minor", value: Number(number) }];
  });
  return found.length === 0 ? undefined : found;
};

const requested = (requests: GpuSettings["requests"]): AssignedGpus => {
  if (requests.some(({ count, ids }) => ids.length === 0 && count < 0)) return "all";
  const found = requests.flatMap(({ count, ids }): GpuReference[] =>
    ids.length > 0
      ? ids.map(reference).filter((item) => item !== undefined)
      : // docker gives the first ones
        Array.from({ length: Math.min(count, 64) }, (_, index) => ({ by: "index", value: index })),
  );
  return found.length === 0 ? undefined : found;
};

const label = (text: string | undefined): AssignedGpus => {
  const found = list(text ?? "").filter((item) => /^\d{1,4}$/.test(item));
  return found.length === 0 ? undefined : found.map((item) => ({ by: "minor", value: Number(item) }));
};

/**
 * The NVIDIA GPUs of a container. An explicit NVIDIA_VISIBLE_DEVICES comes first, then device files, then what `--gpus` asked
 * for, then the label GPU_ID of OpenPAI's YARN jobs, which numbers device files. `all` is baked into every CUDA image, so it
 * only counts last, and only where NVIDIA's runtime reads it.
 */
const nvidiaGpus = (settings: GpuSettings): AssignedGpus => {
  const visible = read(settings.environment.get("NVIDIA_VISIBLE_DEVICES"));
  if (visible !== undefined && visible !== "all") return visible;
  return (
    minors(settings.devices, /^\/dev\/nvidia(\d{1,4})$/) ??
    requested(settings.requests) ??
    label(settings.label) ??
    (settings.nvidiaRuntime ? visible : undefined)
  );
};

/** The AMD GPUs of a container: the variables of OpenPAI and of AMD's own runtime, then device files. */
const amdGpus = (settings: GpuSettings): AssignedGpus =>
  read(settings.environment.get("PAI_AMD_VISIBLE_DEVICES")) ??
  read(settings.environment.get("AMD_VISIBLE_DEVICES")) ??
  minors(settings.devices, /^\/dev\/dri\/card(\d{1,4})$/);

/** The job that a container belongs to. What is not known is undefined. */
type ContainerJob = {
  readonly job: string | undefined;
  readonly user: string | undefined;
  readonly role: string | undefined;
  readonly taskIndex: string | undefined;
  /** one attempt of the job: a YARN application, or a framework attempt */
  readonly instance: string | undefined;
  readonly virtualCluster: string | undefined;
};

type TextsByName = ReadonlyMap<string, string>;

const first = (texts: TextsByName, ...keys: readonly string[]): string | undefined =>
  keys.map((key) => texts.get(key)).find((text) => text !== undefined && text !== "");

/**
 * Finds the job of OpenPAI, or of its fork DLWorkspace, in a container's environment and labels. The platform sets the environment
 * of every job, and has the last word on it. docker puts the labels of the image among those of the container, so that anyone who builds an image may write
 * any job there: a label only fills in what the environment leaves out, and only if it speaks of the same job. Where the
 * environment names no job, labels do (old jobs on YARN), but for containers of Kubernetes: it sets no such label.
 */
const readJob = (labels: TextsByName, environment: TextsByName, isKubernetes: boolean): ContainerJob => {
  const job = (texts: TextsByName) => first(texts, "PAI_JOB_NAME", "DLTS_JOB_ID", "DLWS_JOB_ID");
  const named = job(environment);
  const agree = !isKubernetes && (named === undefined || job(labels) === named);
  const known = agree ? labels : new Map<string, string>();
  const either = (...keys: readonly string[]) => first(environment, ...keys) ?? first(known, ...keys);
  return {
    job: named ?? job(known),
    user: either("PAI_USER_NAME", "PAI_USERNAME", "DLTS_USER_NAME", "DLWS_USER_NAME"),
    role: either("PAI_CURRENT_TASK_ROLE_NAME", "FC_TASKROLE_NAME"),
    taskIndex: either("PAI_TASK_INDEX", "FC_TASK_INDEX", "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"),
    instance: either("APP_ID", "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID"),
    virtualCluster: either("PAI_VIRTUAL_CLUSTER") ?? either("PAI_JOB_VC_NAME"),
  };
};
