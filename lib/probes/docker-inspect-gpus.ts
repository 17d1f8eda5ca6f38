/** A GPU as a container's settings name it. `minor` is N of /dev/nvidiaN or /dev/dri/cardN, `index` the place in the tool's order. */
export type GpuReference =
  | { readonly by: "index"; readonly value: number }
  | { readonly by: "minor"; readonly value: number }
  /** a whole uuid, or the beginning of one, which NVIDIA takes too; a MIG device's may name its GPU's */
  | { readonly by: "uuid"; readonly value: string };

/** The GPUs that a container was given: `all` of them, some, or undefined where nothing says. */
export type AssignedGpus = "all" | readonly GpuReference[] | undefined;

/** What in a container's settings speaks of GPUs. */
export type GpuSettings = {
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
export const nvidiaGpus = (settings: GpuSettings): AssignedGpus => {
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
export const amdGpus = (settings: GpuSettings): AssignedGpus =>
  read(settings.environment.get("PAI_AMD_VISIBLE_DEVICES")) ??
  read(settings.environment.get("AMD_VISIBLE_DEVICES")) ??
  minors(settings.devices, /^\/dev\/dri\/card(\d{1,4})$/);
