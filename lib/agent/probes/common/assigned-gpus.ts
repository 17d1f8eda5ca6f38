// Which GPUs a container was given, by its settings: device files, `--gpus`, CDI names, and the variables of the makers' runtimes.
/** The GPUs that a container was given: `all`, some, or undefined where no setting names any. */
export type AssignedGpus = "all" | readonly GpuReference[] | undefined;

/** A GPU as a container's settings name it. `minor` is N of /dev/nvidiaN or /dev/dri/cardN, `index` the tool's own number. */
export type GpuReference =
  | { readonly by: "index"; readonly value: number }
  | { readonly by: "minor"; readonly value: number }
  /** a whole uuid, or the beginning of one, which NVIDIA takes too; a MIG device's may name its GPU's */
  | { readonly by: "uuid"; readonly value: string };

/** The settings of a container that may name GPUs. */
export type GpuSettings = {
  readonly environment: ReadonlyMap<string, string>;
  /** GPU_ID of a job's labels */
  readonly label: string | undefined;
  /** paths on the host of HostConfig.Devices */
  readonly devices: readonly string[];
  /** HostConfig.DeviceRequests, which `docker run --gpus` makes */
  readonly requests: readonly { readonly count: number; readonly ids: readonly string[] }[];
  /** more texts that may be CDI names: annotations, podman's command, mounts (see mountedDevice) */
  readonly cdi: readonly string[];
  /** HostConfig.Runtime is NVIDIA's */
  readonly nvidiaRuntime: boolean;
};

/**
 * The NVIDIA GPUs of a container. The settings count in this order: CDI names; NVIDIA_VISIBLE_DEVICES unless it is `all`; device
 * files; the request of `--gpus`; the label GPU_ID of OpenPAI's YARN jobs, which numbers device files; and last
 * NVIDIA_VISIBLE_DEVICES=all, which every CUDA image has, and only where NVIDIA's runtime reads it.
 */
export const nvidiaGpus = (settings: GpuSettings): AssignedGpus => {
  const variable = settings.environment.get("NVIDIA_VISIBLE_DEVICES");
  const named = cdiGpus(settings, variable, NVIDIA_VENDORS);
  if (named !== undefined) return named;
  const visible = visibleGpus(variable);
  if (visible !== undefined && visible !== "all") return visible;
  return (
    deviceFiles(settings.devices, /^\/dev\/nvidia(\d{1,4})$/) ??
    requestedGpus(settings.requests) ??
    labelledGpus(settings.label) ??
    (settings.nvidiaRuntime ? visible : undefined)
  );
};

/** The AMD GPUs of a container: CDI names, the variables of OpenPAI and of AMD's own runtime, then device files. */
export const amdGpus = (settings: GpuSettings): AssignedGpus =>
  cdiGpus(settings, settings.environment.get("AMD_VISIBLE_DEVICES"), AMD_VENDORS) ??
  visibleGpus(settings.environment.get("PAI_AMD_VISIBLE_DEVICES")) ??
  visibleGpus(settings.environment.get("AMD_VISIBLE_DEVICES")) ??
  deviceFiles(settings.devices, /^\/dev\/dri\/card(\d{1,4})$/);

const NVIDIA_VENDORS: readonly string[] = [
  "nvidia.com",
  "runtime.nvidia.com",
  "management.nvidia.com",
  "k8s.device-plugin.nvidia.com",
];
const AMD_VENDORS: readonly string[] = ["amd.com"];

/** A device's name in the Container Device Interface: nvidia.com/gpu=0, =all, =GPU-<uuid>, =0:1 for a MIG device of GPU 0. */
const CDI_NAME = /^([a-z0-9.-]{1,128})\/(?:gpu|mig)=(.{1,128})$/i;

/**
 * The CDI name that a mount gives; undefined for any other mount. The kubelet's device plugin may give GPUs so, as
 * `/var/run/nvidia-container-devices/GPU-<uuid>` or `/var/run/nvidia-container-devices/cdi/nvidia.com/gpu/0`.
 */
export const mountedDevice = (destination: string): string | undefined => {
  const [, vendor = "nvidia.com", name] =
    /^(?:\/var)?\/run\/nvidia-container-devices\/(?:cdi\/([^/]{1,128})\/(?:gpu|mig)\/)?([^/]{1,128})$/.exec(
      destination,
    ) ?? [];
  return name === undefined ? undefined : `${vendor}/gpu=${name}`;
};

/** The CDI names in annotations, that the kubelet gives the runtime. */
export const annotatedDevices = (annotations: ReadonlyMap<string, string>): readonly string[] =>
  [...annotations].flatMap(([key, value]) => (key.startsWith("cdi.k8s.io/") ? itemsOf(value) : []));

/** The devices that podman was told to give (`--device NAME`): later versions list no CDI name among a container's devices. */
export const orderedDevices = (command: readonly unknown[]): readonly string[] =>
  command.flatMap((word, index) => {
    if (typeof word !== "string") return [];
    return command[index - 1] === "--device" ? [word] : word.startsWith("--device=") ? [word.slice(9)] : [];
  });

/**
 * The GPUs that CDI names give a container: in docker's DeviceRequests (docker 28.2 and later give GPUs so), in podman's Devices, in the
 * variable of the maker's runtime, and where else containers have them.
 */
const cdiGpus = (settings: GpuSettings, variable: string | undefined, vendors: readonly string[]): AssignedGpus => {
  const requested = settings.requests.flatMap(({ ids }) => ids);
  const texts = [...requested, ...settings.devices, ...itemsOf(variable ?? ""), ...settings.cdi];
  const names = texts.flatMap((text) => {
    const [, vendor, name] = CDI_NAME.exec(text.trim()) ?? [];
    return vendor !== undefined && name !== undefined && vendors.includes(vendor.toLowerCase()) ? [name] : [];
  });
  if (names.includes("all")) return "all";
  // A specification may number them as gpu0 and mig0:1 (nvidia-ctk's strategy type-index).
  const found = names
    .map((name) => referenceOf(name.replace(/^(?:gpu|mig)(?=\d)/i, "")))
    .filter((one) => one !== undefined);
  return found.length === 0 ? undefined : found;
};

/** Undefined for `void`, `none` and an empty text, which name no GPU (openpai#2447): other settings may. */
const visibleGpus = (text: string | undefined): AssignedGpus => {
  if (text === undefined) return undefined;
  const items = itemsOf(text);
  if (items.includes("all")) return "all";
  const found = items.map(referenceOf).filter((item) => item !== undefined);
  return found.length === 0 ? undefined : found;
};

const deviceFiles = (devices: readonly string[], pattern: RegExp): AssignedGpus => {
  const found = devices.flatMap((path): GpuReference[] => {
    const number = pattern.exec(path)?.[1];
    return number === undefined ? [] : [{ by: "minor", value: Number(number) }];
  });
  return found.length === 0 ? undefined : found;
};

const requestedGpus = (requests: GpuSettings["requests"]): AssignedGpus => {
  if (requests.some(({ count, ids }) => ids.length === 0 && count < 0)) return "all";
  const found = requests.flatMap(({ count, ids }): GpuReference[] =>
    ids.length > 0
      ? ids.map(referenceOf).filter((item) => item !== undefined)
      : // docker gives the first ones
        Array.from({ length: Math.min(count, 64) }, (_, index) => ({ by: "index", value: index })),
  );
  return found.length === 0 ? undefined : found;
};

const labelledGpus = (text: string | undefined): AssignedGpus => {
  const found = itemsOf(text ?? "").filter((item) => /^\d{1,4}$/.test(item));
  return found.length === 0 ? undefined : found.map((item) => ({ by: "minor", value: Number(item) }));
};

const referenceOf = (text: string): GpuReference | undefined => {
  const number = /^(\d{1,4})(?::\d{1,4})?$/.exec(text)?.[1];
  if (number !== undefined) return { by: "index", value: Number(number) };
  // Drivers before 470 print MIG-GPU-<uuid>/<instance>/<instance>.
  const uuid = /^(?:MIG-)?(GPU-[0-9a-f-]{8,36})/i.exec(text)?.[1] ?? /^(?:MIG-|0x)?[0-9a-f-]{8,40}$/i.exec(text)?.[0];
  return uuid === undefined ? undefined : { by: "uuid", value: uuid };
};

/** A list of GPUs is cut here. */
const LONGEST_LIST = 16_384;

const itemsOf = (text: string): string[] =>
  text
    .slice(0, LONGEST_LIST)
    .split(",")
    .map((item) => item.trim().slice(0, 256))
    .filter((item) => item !== "");
