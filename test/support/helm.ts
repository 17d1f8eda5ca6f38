// The real helm on the chart, and what it renders judged by the schemas of Kubernetes and of Prometheus Operator.
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { ensureTools } from "../../scripts/setup.ts";

export const CHART = new URL("../../deploy/chart/gridmeter", import.meta.url).pathname;

export type Values = Readonly<Record<string, unknown>>;
export type KubernetesObject = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly [key: string]: unknown;
};

type Ended = { readonly code: number; readonly stdout: string; readonly stderr: string };

/** Runs helm with values in a file; gives how it ended. `ARGS ... --values FILE`. */
export async function helm(args: readonly string[], values: Values = {}): Promise<Ended> {
  const folder = mkdtempSync(join(tmpdir(), "gridmeter-helm-"));
  const file = join(folder, "values.yaml");
  // JSON, which is YAML in which a text cannot be taken for something else.
  writeFileSync(file, JSON.stringify(values));
  const program = ensureTools(["helm"]).get("helm") ?? "";
  try {
    return await new Promise((resolve) => {
      execFile(program, [...args, "--values", file], { maxBuffer: 2 ** 26 }, (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
      );
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What `helm template` gives for these values, the pods of `helm test` included. Throws what helm says where it fails. */
export async function render(values: Values, ...more: readonly string[]): Promise<readonly KubernetesObject[]> {
  const { code, stdout, stderr } = await helm(["template", "site", CHART, "--namespace", "apel", ...more], values);
  if (code !== 0) throw new Error(stderr);
  return objectsOf(stdout);
}

/** The objects in a stream of YAML documents. Throws if one is no YAML. */
export function objectsOf(text: string): readonly KubernetesObject[] {
  // As Kubernetes' own parser does, in which an unquoted `on` is true.
  const documents = parseAllDocuments(text, { version: "1.1" });
  const errors = documents.flatMap(({ errors: found }) => found);
  if (errors.length > 0) throw new Error(errors.map(({ message }) => message).join("\n"));
  return documents.map((each) => each.toJS() as KubernetesObject | null).filter((each) => each !== null);
}

const MODULES = new URL("../../node_modules/", import.meta.url);
const OPERATOR =
  "@kubernetes-models/prometheus-operator/_schemas/ComGithubPrometheusOperatorPrometheusOperatorPkgApisMonitoringV1";

type Validator = { (data: unknown): boolean; errors?: unknown };

/** The schema of a kind. They are taken by their path: one of the packages does not export its own. */
const SCHEMAS: Readonly<Record<string, string>> = {
  "apps/v1 DaemonSet": "kubernetes-models/_schemas/IoK8sApiAppsV1DaemonSet.js",
  "batch/v1 CronJob": "kubernetes-models/_schemas/IoK8sApiBatchV1CronJob.js",
  "batch/v1 Job": "kubernetes-models/_schemas/IoK8sApiBatchV1Job.js",
  "monitoring.coreos.com/v1 PodMonitor": `${OPERATOR}PodMonitor.js`,
  "monitoring.coreos.com/v1 PrometheusRule": `${OPERATOR}PrometheusRule.js`,
  "monitoring.coreos.com/v1 ServiceMonitor": `${OPERATOR}ServiceMonitor.js`,
  "networking.k8s.io/v1 NetworkPolicy": "kubernetes-models/_schemas/IoK8sApiNetworkingV1NetworkPolicy.js",
  "v1 ConfigMap": "kubernetes-models/_schemas/IoK8sApiCoreV1ConfigMap.js",
  "v1 Namespace": "kubernetes-models/_schemas/IoK8sApiCoreV1Namespace.js",
  "v1 PersistentVolumeClaim": "kubernetes-models/_schemas/IoK8sApiCoreV1PersistentVolumeClaim.js",
  "v1 Pod": "kubernetes-models/_schemas/IoK8sApiCoreV1Pod.js",
  "v1 Secret": "kubernetes-models/_schemas/IoK8sApiCoreV1Secret.js",
  "v1 Service": "kubernetes-models/_schemas/IoK8sApiCoreV1Service.js",
};

/** What is wrong with an object by the schema of its kind: values that do not fit, and fields that the schema does not know. */
export async function schemaFaults(object: KubernetesObject): Promise<readonly string[]> {
  const kind = `${object.apiVersion} ${object.kind}`;
  const schema = SCHEMAS[kind];
  if (schema === undefined) return [`${kind}: no schema is at hand`];
  const { validate } = (await import(new URL(schema, MODULES).href)) as { validate: Validator };
  const unread = new Set<string>();
  const fits = validate(watched(object, "", unread));
  return [
    ...(fits ? [] : [JSON.stringify(validate.errors)]),
    ...[...unread].map((path) => `${path}: no such field`),
  ].map((fault) => `${kind} ${object.metadata.name}: ${fault}`);
}

/** The schemas allow fields that they do not know, as Kubernetes did once. A field that a validator never looks at is such a one. */
function watched<T extends object>(value: T, path: string, unread: Set<string>): T {
  const known = new Map<string, unknown>();
  const children = new Map<string, object>();
  for (const [key, child] of Object.entries(value)) {
    known.set(key, child);
    unread.add(`${path}/${key}`);
  }
  return new Proxy(value, {
    get(target, key, receiver) {
      if (typeof key !== "string" || !known.has(key)) return Reflect.get(target, key, receiver) as unknown;
      unread.delete(`${path}/${key}`);
      const child = known.get(key);
      if (typeof child !== "object" || child === null) return child;
      const made = children.get(key) ?? watched(child, `${path}/${key}`, unread);
      children.set(key, made);
      return made;
    },
  });
}
