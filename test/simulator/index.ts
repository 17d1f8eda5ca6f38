/** A simulated Kubernetes cluster: what happened (jobs), what Prometheus holds of it (series), what must be counted (truth). */
export { arbitraryCluster } from "./arbitrary.ts";
export * from "./cluster.ts";
export * from "./clusters.ts";
export type { Container, Job, Run } from "./job.ts";
export { KINDS, KIND_NAMES } from "./kinds.ts";
export type { Kind } from "./kinds.ts";
export { makeJob } from "./make-job.ts";
export { openMetrics, writeOpenMetrics } from "./openmetrics.ts";
export { Random } from "./random.ts";
export { samples } from "./series.ts";
export type { Series } from "./series.ts";
export { isService, service } from "./services.ts";
export { simulate } from "./simulate.ts";
export * from "./truth.ts";
