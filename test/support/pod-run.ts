// A pod of the chart as processes on this machine: what helm renders decides which containers run, in which order, with which
// arguments, variables and volumes. Where a container would see a volume at /data, its process sees a folder; every path in
// arguments, variables and mounted files is turned to that.
import { spawn } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { KubernetesObject } from "./helm.ts";

const Source = z.looseObject({
  name: z.string(),
  persistentVolumeClaim: z.object({ claimName: z.string() }).optional(),
  emptyDir: z.unknown().optional(),
  configMap: z
    .looseObject({ name: z.string(), items: z.array(z.object({ key: z.string(), path: z.string() })).optional() })
    .optional(),
  secret: z
    .looseObject({
      secretName: z.string(),
      defaultMode: z.int(),
      items: z.array(z.object({ key: z.string(), path: z.string() })).optional(),
    })
    .optional(),
});
const Container = z.looseObject({
  name: z.string(),
  image: z.string(),
  command: z.array(z.string()).optional(),
  args: z.array(z.string()),
  envFrom: z.array(z.looseObject({ configMapRef: z.object({ name: z.string() }).optional() })).default([]),
  env: z
    .array(
      z.looseObject({
        name: z.string(),
        value: z.string().optional(),
        valueFrom: z.object({ secretKeyRef: z.object({ name: z.string(), key: z.string() }) }).optional(),
      }),
    )
    .default([]),
  volumeMounts: z.array(z.looseObject({ name: z.string(), mountPath: z.string() })),
});
type Container = z.infer<typeof Container>;
const Pod = z.looseObject({
  securityContext: z.looseObject({ runAsUser: z.int(), runAsGroup: z.int(), fsGroup: z.int() }),
  initContainers: z.array(Container).default([]),
  containers: z.array(Container),
  volumes: z.array(Source),
});
type Pod = z.infer<typeof Pod>;

/** How a container ended; undefined in a pod's result if it never started. */
export type ContainerRun = {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
};
export type PodRun = {
  /** as Kubernetes has it, of a pod that is never restarted */
  readonly phase: "Succeeded" | "Failed";
  readonly containers: Readonly<Record<string, ContainerRun>>;
};

type Secrets = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** A node that runs pods. Claims are folders in `place` that outlive them. */
export type PodHost = {
  readonly place: string;
  /** by image without its tag: the program and its first arguments */
  readonly programs: Readonly<Record<string, readonly string[]>>;
  readonly secrets: Secrets;
  /** variables beside those of the chart, as the image or the test gives them */
  readonly env?: Readonly<Record<string, string>>;
  /** put before a container's command */
  readonly before?: (container: string, data: string) => readonly string[];
  /** told of a container's process once it runs */
  readonly started?: (container: string, pid: number, kill: () => void) => void;
};

const isRoot = process.getuid?.() === 0;

/** The pod that a CronJob or Job of a rendering makes. */
export function podOf(objects: readonly KubernetesObject[], kind: string, ending: string): Pod {
  const found = objects.find((each) => each.kind === kind && each.metadata.name.endsWith(ending));
  const spec = z
    .looseObject({ jobTemplate: z.unknown().optional(), template: z.unknown().optional() })
    .parse(found?.["spec"]);
  const job =
    spec.jobTemplate === undefined ? spec : z.looseObject({ spec: z.looseObject({}) }).parse(spec.jobTemplate).spec;
  const template = z.looseObject({ spec: z.unknown() }).parse((job as { readonly template: unknown }).template);
  return Pod.parse(template.spec);
}

/** Runs a pod to its end: the init containers one after the other, then all containers at once. */
export async function runPod(objects: readonly KubernetesObject[], pod: Pod, host: PodHost): Promise<PodRun> {
  const folders = layOut(objects, pod, host);
  const containers: Record<string, ContainerRun> = {};
  const run = async (container: Container): Promise<boolean> => {
    const ended = await runContainer(objects, pod, container, folders, host);
    containers[container.name] = ended;
    return ended.code === 0;
  };
  for (const container of pod.initContainers) if (!(await run(container))) return { phase: "Failed", containers };
  const good = await Promise.all(pod.containers.map(run));
  return { phase: good.every(Boolean) ? "Succeeded" : "Failed", containers };
}

/** The folder of each volume, as the kubelet makes it: of root and the pod's group, which may write where writing is allowed. */
function layOut(objects: readonly KubernetesObject[], pod: Pod, host: PodHost): ReadonlyMap<string, string> {
  const own = mkdtempSync(join(host.place, "pod-"));
  chmodSync(own, 0o755);
  const folders = new Map<string, string>();
  for (const volume of pod.volumes) {
    const claim = volume.persistentVolumeClaim?.claimName;
    const folder = claim === undefined ? join(own, volume.name) : join(host.place, `claim-${claim}`);
    folders.set(volume.name, folder);
  }
  for (const volume of pod.volumes) {
    const folder = folders.get(volume.name) ?? "";
    mkdirSync(folder, { recursive: true });
    const files = filesOf(objects, volume, host.secrets);
    for (const [name, text] of Object.entries(files)) {
      const file = join(folder, name);
      writeFileSync(file, mapped(text, pod, folders));
      chmodSync(file, volume.secret?.defaultMode ?? 0o644);
      if (isRoot) chownSync(file, 0, pod.securityContext.fsGroup);
    }
    if (isRoot) chownSync(folder, 0, pod.securityContext.fsGroup);
    // Without root the volume is this user's own.
    chmodSync(folder, 0o2775);
  }
  return folders;
}

function filesOf(
  objects: readonly KubernetesObject[],
  volume: z.infer<typeof Source>,
  secrets: Secrets,
): Record<string, string> {
  const { configMap, secret } = volume;
  const from = configMap ?? secret;
  if (from === undefined) return {};
  const data =
    secret === undefined
      ? dataOf(objects, configMap?.name ?? "")
      : (secrets[secret.secretName] ?? decoded(objects, secret.secretName));
  const items = from.items ?? Object.keys(data).map((key) => ({ key, path: key }));
  return Object.fromEntries(
    items.map(({ key, path }) => {
      const text = data[key];
      // The kubelet does not start such a pod either.
      if (text === undefined) throw new Error(`${volume.name}: there is no key ${key}`);
      return [path, text];
    }),
  );
}

function dataOf(
  objects: readonly KubernetesObject[],
  name: string,
  kind = "ConfigMap",
): Readonly<Record<string, string>> {
  const found = objects.find((each) => each.kind === kind && each.metadata.name === name);
  if (found === undefined) throw new Error(`there is no ${kind} ${name}`);
  return z.record(z.string(), z.string()).parse(found["data"] ?? {});
}

const decoded = (objects: readonly KubernetesObject[], name: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(dataOf(objects, name, "Secret")).map(([key, text]) => [key, Buffer.from(text, "base64").toString()]),
  );

/** A text with the paths of mounts turned to this machine's folders. */
function mapped(text: string, pod: Pod, folders: ReadonlyMap<string, string>): string {
  const mounts = [...pod.initContainers, ...pod.containers]
    .flatMap(({ volumeMounts }) => volumeMounts)
    .filter(({ mountPath }) => mountPath !== "/tmp")
    .toSorted((a, b) => b.mountPath.length - a.mountPath.length);
  return mounts.reduce((all, { name, mountPath }) => {
    const folder = folders.get(name) ?? "";
    return all.replaceAll(new RegExp(`(?<![\\w/])${mountPath}(?=/|$|\\s)`, "g"), folder);
  }, text);
}

function variablesOf(
  objects: readonly KubernetesObject[],
  container: Container,
  { secrets, env = {} }: PodHost,
): Record<string, string> {
  const common = container.envFrom.flatMap(({ configMapRef }) =>
    configMapRef === undefined ? [] : Object.entries(dataOf(objects, configMapRef.name)),
  );
  const own = container.env.map(({ name, value, valueFrom }): [string, string] => {
    const ref = valueFrom?.secretKeyRef;
    return [name, value ?? secrets[ref?.name ?? ""]?.[ref?.key ?? ""] ?? ""];
  });
  return { ...env, ...Object.fromEntries(common), ...Object.fromEntries(own) };
}

function runContainer(
  objects: readonly KubernetesObject[],
  pod: Pod,
  container: Container,
  folders: ReadonlyMap<string, string>,
  host: PodHost,
): Promise<ContainerRun> {
  const image = container.image.replace(/:[^:/]+$/, "");
  const entry = host.programs[image];
  if (entry === undefined && container.command === undefined) throw new Error(`there is no image ${image}`);
  const data = folders.get("data") ?? "";
  const words = [
    ...(host.before?.(container.name, data) ?? []),
    ...(container.command ?? entry ?? []),
    ...container.args,
  ];
  const [program = "", ...args] = words.map((text) => mapped(text, pod, folders));
  const variables = Object.entries(variablesOf(objects, container, host)).map(([name, text]) => [
    name,
    mapped(text, pod, folders),
  ]);
  const { runAsUser: uid, runAsGroup: gid } = pod.securityContext;
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd: "/",
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: process.env["PATH"], HOME: "/", ...(Object.fromEntries(variables) as Record<string, string>) },
      ...(isRoot && host.before === undefined ? { uid, gid } : {}),
    });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    child.once("error", reject);
    child.once("spawn", () => host.started?.(container.name, child.pid ?? 0, () => child.kill("SIGKILL")));
    child.once("close", (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
}

/** A claim's folder on a host. */
export const claimFolder = (host: Pick<PodHost, "place">, claim: string): string => join(host.place, `claim-${claim}`);

/** The lines of a file, without the last line feed; none where there is no file. */
export function linesOf(file: string): readonly string[] {
  try {
    return readFileSync(file, "utf8")
      .split("\n")
      .filter((line) => line !== "");
  } catch {
    return [];
  }
}
