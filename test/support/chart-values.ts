// Values of the chart for its tests: all that there is at once, and another value for each.
import type { Values } from "./helm.ts";

const SIDE_CAR = { repository: "registry.example.org/ssmsend", tag: "3.4.1", pullPolicy: "IfNotPresent" };

/** Everything that goes together, switched on. */
export const FULL: Values = {
  accounting: {
    config: {
      SITE_NAME: "EXAMPLE-T2",
      SUBMIT_HOST: "k8s.example.org/atlas-jobs",
      NAMESPACE: "atlas-jobs",
      VO_NAME: "atlas",
      PROMETHEUS_SERVER: "http://prometheus-operated.monitoring.svc:9090",
      BENCHMARK_VALUE: "15.0",
    },
    prometheus: {
      auth: { existingSecret: "prometheus", key: "header" },
      ca: { existingConfigMap: "site-ca" },
    },
    send: { existingSecret: "host-certificate", tokenKey: "token", ca: { existingConfigMap: "ams-ca" } },
    manualRecords: { october: "APEL-sync-message: v0.1\nSite: EXAMPLE-T2\n%%\n" },
    metrics: {
      pushgateway: {
        url: "http://pushgateway.monitoring.svc:9091",
        auth: { existingSecret: "gateway", key: "header" },
      },
      prometheusRule: { enabled: true },
    },
    networkPolicy: { enabled: true },
  },
  agent: {
    enabled: true,
    config: { pushgateway: { url: "http://pushgateway.monitoring.svc:9091" } },
    serviceMonitor: { enabled: true },
    prometheusRule: { enabled: true },
    dashboards: { enabled: true },
    networkPolicy: { enabled: true },
  },
};

/** The value at `a.b.c`; undefined where there is none. */
export function at(values: Values, path: string): unknown {
  return path.split(".").reduce<unknown>((value, key) => (value as Values | undefined)?.[key], values);
}

/** A copy with another value at `a.b.c`. */
export function withValue(values: Values, path: string, value: unknown): Values {
  const [key = "", ...rest] = path.split(".");
  const inner = rest.length === 0 ? value : withValue((values[key] ?? {}) as Values, rest.join("."), value);
  return { ...values, [key]: inner };
}

const withAll = (more: Values) => (values: Values) =>
  Object.entries(more).reduce((all, [path, value]) => withValue(all, path, value), values);

/** Paths below which a value is Kubernetes' own, and is changed as a whole. */
const WHOLE =
  /(?:^|\.)(?:resources|podSecurityContext|securityContext|updateStrategy|nodeSelector|affinity|labels|annotations)$/;

/** The paths of all values that there are: of lists, of empty mappings and of Kubernetes' own ones as a whole. */
export function leaves(values: Values, path = ""): readonly string[] {
  return Object.entries(values).flatMap(([key, value]) => {
    const own = path === "" ? key : `${path}.${key}`;
    const isInner =
      typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length > 0;
    return isInner && !WHOLE.test(own) && own !== "agent.config" ? leaves(value as Values, own) : [own];
  });
}

type Sample = { readonly value?: unknown; readonly base?: (values: Values) => Values };

const toleration = [{ key: "grid", operator: "Exists", effect: "NoSchedule" }];
const affinity = {
  nodeAffinity: {
    requiredDuringSchedulingIgnoredDuringExecution: {
      nodeSelectorTerms: [{ matchExpressions: [{ key: "gpu", operator: "Exists" }] }],
    },
  },
};
const volume = [{ name: "more", emptyDir: {} }];
const mount = [{ name: "more", mountPath: "/more" }];
const egress = [{ ports: [{ protocol: "TCP", port: 3128 }] }];
const resources = { requests: { cpu: "1", memory: "1Gi" } };
const withSsmsend = withAll({ "accounting.send.method": "ssmsend", "accounting.send.ssmsend.image": SIDE_CAR });
const withTenants = withAll({ "accounting.tenants": [{ name: "atlas", NAMESPACE: "atlas-jobs" }] });
const inBucket = withAll({
  "accounting.config.LEDGER_PATH": "s3://apel/prod",
  "accounting.config.OUTPUT_PATH": "s3://apel/prod",
});
const ownPair = withAll({
  "accounting.send.existingSecret": "",
  "accounting.send.x509cert": "Y2VydA==",
  "accounting.send.x509key": "a2V5",
});
const podMonitored = withAll({ "agent.serviceMonitor.enabled": false, "agent.podMonitor.enabled": true });

/** What to change each value to; a boolean without an entry is turned round. */
export const SAMPLES: Readonly<Record<string, Sample>> = {
  nameOverride: { value: "metering" },
  fullnameOverride: { value: "metering" },
  imagePullSecrets: { value: [{ name: "registry" }] },
  extraObjects: { value: [{ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "{{ .Release.Name }}-more" } }] },

  "accounting.image.repository": { value: "registry.example.org/accounting" },
  "accounting.image.tag": { value: "0.2.0" },
  "accounting.image.pullPolicy": { value: "Always" },
  "accounting.config": {
    value: { ...(at(FULL, "accounting.config") as Values), VO_NAME: "cms", HTTPS_PROXY: "http://p:3128" },
  },
  "accounting.tenants": {
    value: [{ name: "atlas", NAMESPACE: "atlas-jobs", PROMETHEUS_SERVER: "https://other.example.org" }],
  },
  "accounting.prometheus.auth.existingSecret": { value: "other" },
  "accounting.prometheus.auth.key": { value: "other" },
  "accounting.prometheus.ca.existingConfigMap": { value: "other" },
  "accounting.prometheus.ca.existingSecret": { value: "other" },
  "accounting.prometheus.ca.key": { value: "other" },
  "accounting.extraEnv": { value: [{ name: "TZ", value: "UTC" }] },
  "accounting.extraEnvFrom": { value: [{ secretRef: { name: "aws" } }] },
  "accounting.extraArgs": { value: ["--allow-incomplete"] },
  "accounting.schedule": { value: "@daily" },
  "accounting.timeZone": { value: "Europe/Paris" },
  "accounting.startingDeadlineSeconds": { value: 100 },
  "accounting.activeDeadlineSeconds": { value: 100 },
  "accounting.backoffLimit": { value: 0 },
  "accounting.ttlSecondsAfterFinished": { value: 8_640_000 },
  "accounting.successfulJobsHistoryLimit": { value: 1 },
  "accounting.failedJobsHistoryLimit": { value: 1 },
  "accounting.storage.enabled": { base: inBucket },
  "accounting.storage.existingClaim": { value: "apel" },
  "accounting.storage.size": { value: "2Gi" },
  "accounting.storage.storageClassName": { value: "fast" },
  "accounting.storage.accessModes": { value: ["ReadWriteMany"] },
  "accounting.storage.annotations": { value: { team: "grid" } },
  "accounting.send.method": { value: "none" },
  "accounting.send.existingSecret": { value: "other" },
  "accounting.send.x509cert": { base: ownPair, value: "b3RoZXI=" },
  "accounting.send.x509key": { base: ownPair, value: "b3RoZXI=" },
  "accounting.send.certificateKey": { value: "tls.crt" },
  "accounting.send.keyKey": { value: "tls.key" },
  "accounting.send.tokenKey": { value: "other" },
  "accounting.send.ams.host": { value: "msg-devel.argo.grnet.gr" },
  "accounting.send.ams.port": { value: 8080 },
  "accounting.send.ams.authnPort": { value: 9443 },
  "accounting.send.ams.project": { value: "test" },
  "accounting.send.ams.topic": { value: "test" },
  "accounting.send.ca.existingConfigMap": { value: "other" },
  "accounting.send.ca.key": { value: "other" },
  "accounting.send.ssmsend.image.repository": { base: withSsmsend, value: "other" },
  "accounting.send.ssmsend.image.tag": { base: withSsmsend, value: "4.0.0" },
  "accounting.send.ssmsend.image.pullPolicy": { base: withSsmsend, value: "Always" },
  "accounting.send.ssmsend.command": { base: withSsmsend, value: ["/bin/bash"] },
  "accounting.send.ssmsend.args": { base: withSsmsend, value: ["-c", "ssmsend"] },
  "accounting.send.ssmsend.caHostPath": { base: withSsmsend, value: "" },
  "accounting.send.ssmsend.logLevel": { base: withSsmsend, value: "DEBUG" },
  "accounting.send.ssmsend.resources": { base: withSsmsend, value: resources },
  "accounting.manualRecords": { value: { november: "APEL-sync-message: v0.1\n%%\n" } },
  "accounting.metrics.pushgateway.url": { value: "https://gateway.example.org" },
  "accounting.metrics.pushgateway.auth.existingSecret": { value: "other" },
  "accounting.metrics.pushgateway.auth.key": { value: "other" },
  "accounting.metrics.prometheusRule.labels": { value: { release: "prometheus" } },
  "accounting.resources": { value: resources },
  "accounting.priorityClassName": { value: "high" },
  "accounting.nodeSelector": { value: { disk: "ssd" } },
  "accounting.tolerations": { value: toleration },
  "accounting.affinity": { value: affinity },
  "accounting.podAnnotations": { value: { team: "grid" } },
  "accounting.podLabels": { value: { team: "grid" } },
  "accounting.extraVolumes": { value: volume },
  "accounting.extraVolumeMounts": { value: mount },
  "accounting.podSecurityContext": { value: { runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000 } },
  "accounting.securityContext": { value: { runAsUser: 1000 } },
  "accounting.networkPolicy.extraEgress": { value: egress },
  "accounting.metrics.prometheusRule.enabled": { base: withTenants },

  "agent.image.repository": { value: "registry.example.org/agent" },
  "agent.image.tag": { value: "0.2.0" },
  "agent.image.pullPolicy": { value: "Always" },
  "agent.config": { value: { listen: ":9200", probes: { iftop: { enabled: false } } } },
  "agent.existingSecret": { value: "gateway-password" },
  "agent.extraEnv": { value: [{ name: "HTTPS_PROXY", value: "http://proxy.example.org:3128" }] },
  "agent.updateStrategy": { value: { type: "OnDelete", rollingUpdate: null } },
  "agent.terminationGracePeriodSeconds": { value: 30 },
  "agent.resources": { value: resources },
  "agent.priorityClassName": { value: "system-node-critical" },
  "agent.nodeSelector": { value: { gpu: "yes" } },
  "agent.tolerations": { value: toleration },
  "agent.affinity": { value: affinity },
  "agent.podAnnotations": { value: { team: "grid" } },
  "agent.podLabels": { value: { team: "grid" } },
  "agent.extraVolumes": { value: volume },
  "agent.extraVolumeMounts": { value: mount },
  "agent.podSecurityContext": { value: { fsGroup: 1000 } },
  "agent.securityContext": { value: { privileged: false } },
  "agent.reap.schedule": { value: "@hourly" },
  "agent.reap.olderThan": { value: "2h" },
  "agent.reap.resources": { value: resources },
  "agent.reap.securityContext": { value: { runAsUser: 1000 } },
  "agent.serviceMonitor.labels": { value: { release: "prometheus" } },
  "agent.serviceMonitor.interval": { value: "30s" },
  "agent.podMonitor.enabled": { base: withAll({ "agent.serviceMonitor.enabled": false }) },
  "agent.podMonitor.labels": { base: podMonitored, value: { release: "prometheus" } },
  "agent.podMonitor.interval": { base: podMonitored, value: "30s" },
  "agent.prometheusRule.labels": { value: { release: "prometheus" } },
  "agent.dashboards.labels": { value: { dashboards: "yes" } },
  "agent.dashboards.annotations": { value: { folder: "grid" } },
  "agent.networkPolicy.from": { value: [{ namespaceSelector: {} }] },
  "agent.networkPolicy.extraEgress": { value: egress },
};
