// What the chart's pods may do, and what they run.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { FULL, withValue } from "../support/chart-values.ts";
import { type KubernetesObject, type Values, render } from "../support/helm.ts";

const Container = z.looseObject({
  name: z.string(),
  image: z.string(),
  command: z.array(z.string()).optional(),
  args: z.array(z.string()),
  env: z.array(z.looseObject({ name: z.string() })).default([]),
  securityContext: z.looseObject({
    privileged: z.boolean().optional(),
    readOnlyRootFilesystem: z.boolean().optional(),
    allowPrivilegeEscalation: z.boolean().optional(),
    capabilities: z.object({ drop: z.array(z.string()), add: z.array(z.string()).optional() }).optional(),
  }),
  volumeMounts: z.array(z.looseObject({ name: z.string(), mountPath: z.string() })),
});
const PodSpec = z.looseObject({
  automountServiceAccountToken: z.literal(false),
  enableServiceLinks: z.literal(false),
  hostPID: z.boolean().default(false),
  hostNetwork: z.boolean().default(false),
  securityContext: z.looseObject({
    runAsNonRoot: z.boolean().optional(),
    runAsUser: z.int(),
    seccompProfile: z.object({ type: z.string() }),
  }),
  initContainers: z.array(Container).default([]),
  containers: z.array(Container),
  volumes: z.array(z.looseObject({ name: z.string() })),
});
const JobSpec = z.looseObject({
  activeDeadlineSeconds: z.int(),
  backoffLimit: z.int(),
  podFailurePolicy: z.looseObject({ rules: z.array(z.looseObject({ action: z.string() })) }).optional(),
  template: z.looseObject({ spec: PodSpec }),
});
const CronSpec = z.looseObject({
  concurrencyPolicy: z.string(),
  startingDeadlineSeconds: z.int(),
  jobTemplate: z.looseObject({ spec: JobSpec }),
});

const find = (objects: readonly KubernetesObject[], kind: string, ending: string): KubernetesObject => {
  const found = objects.find(({ kind: own, metadata }) => own === kind && metadata.name.endsWith(ending));
  if (found === undefined) throw new Error(`no ${kind} ${ending}`);
  return found;
};
const cron = (objects: readonly KubernetesObject[], ending: string) =>
  CronSpec.parse(find(objects, "CronJob", ending)["spec"]);
const daemon = (objects: readonly KubernetesObject[]) =>
  z.looseObject({ template: z.looseObject({ spec: PodSpec }) }).parse(find(objects, "DaemonSet", "-agent")["spec"])
    .template.spec;
/** Every pod of a rendering, of whatever it is made by. */
const pods = (objects: readonly KubernetesObject[]) =>
  objects.flatMap(({ kind, spec }) => {
    if (kind === "CronJob") return [CronSpec.parse(spec).jobTemplate.spec.template.spec];
    if (kind === "Job") return [JobSpec.parse(spec).template.spec];
    if (kind === "Pod") return [PodSpec.parse(spec)];
    return kind === "DaemonSet" ? [daemon(objects)] : [];
  });

const withSsmsend = withValue(withValue(FULL, "accounting.send.method", "ssmsend"), "accounting.send.ssmsend.image", {
  repository: "registry.example.org/ssmsend",
  tag: "3.4.1",
});

test("every mount has a volume and every volume a mount, in every pod", async () => {
  for (const values of [FULL, withSsmsend]) {
    const all = pods(await render(values));
    expect(all).toHaveLength(5);
    for (const { initContainers, containers, volumes } of all) {
      const mounts = [...initContainers, ...containers].flatMap(({ volumeMounts }) =>
        volumeMounts.map(({ name }) => name),
      );
      expect([...new Set(mounts)].toSorted()).toEqual(volumes.map(({ name }) => name).toSorted());
    }
  }
});

describe("the accounting's pods", () => {
  test("are nobody: not root, no rights, no token, nothing to write on but the volume and /tmp", async () => {
    const all = pods(await render(withSsmsend)).filter(({ hostPID }) => !hostPID);
    expect(all).toHaveLength(4);
    for (const { securityContext, hostNetwork, initContainers, containers } of all) {
      expect(securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } });
      expect(securityContext.runAsUser).toBeGreaterThan(0);
      expect(hostNetwork).toBe(false);
      for (const { securityContext: own } of [...initContainers, ...containers]) {
        expect(own).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        });
      }
    }
  });

  test("with ams: one container counts and sends; it fails with its own code, which is final where a retry says the same", async () => {
    const spec = cron(await render(FULL), "-accounting");
    const { activeDeadlineSeconds, podFailurePolicy, template } = spec.jobTemplate.spec;
    expect(spec.concurrencyPolicy).toBe("Forbid");
    expect(activeDeadlineSeconds).toBeLessThan(86_400);
    expect(template.spec.initContainers).toEqual([]);
    expect(template.spec.containers.map(({ name, args }) => [name, args])).toEqual([
      ["account", ["account", "--send"]],
    ]);
    expect(podFailurePolicy?.rules).toContainEqual({
      action: "FailJob",
      onExitCodes: { containerName: "account", operator: "In", values: [2, 3] },
    });
  });

  test("with ssmsend: account lets it start whatever came of it, and outcome fails the pod; all as one user", async () => {
    const objects = await render(withSsmsend);
    const { podFailurePolicy, template } = cron(objects, "-accounting").jobTemplate.spec;
    const [account] = template.spec.initContainers;
    expect(account?.args).toEqual(["account", "--exit-code-to", "/run/gridmeter/outcome"]);
    const [outcome, ssmsend] = template.spec.containers;
    expect(outcome?.args).toEqual(["outcome", "/run/gridmeter/outcome"]);
    expect([ssmsend?.command, ssmsend?.args]).toEqual([["ssmsend"], ["-c", "/etc/gridmeter/ssm/sender.cfg"]]);
    expect(podFailurePolicy?.rules).toContainEqual({
      action: "FailJob",
      onExitCodes: { containerName: "outcome", operator: "In", values: [2, 3] },
    });
    expect(template.spec.securityContext).toMatchObject({ runAsUser: 10000, runAsGroup: 10000, fsGroup: 10000 });
    // Both see the one volume, and the same queue in it.
    const data = (mounts: z.infer<typeof Container> | undefined) =>
      mounts?.volumeMounts.find(({ name }) => name === "data");
    expect(data(ssmsend)).toEqual(data(account));
    const config = find(objects, "ConfigMap", "-ssmsend")["data"] as Readonly<Record<string, string>>;
    const settings = find(objects, "ConfigMap", "-accounting")["data"] as Readonly<Record<string, string>>;
    expect(settings["OUTPUT_PATH"]).toBe("dirq:/data/outgoing");
    expect(config["sender.cfg"]).toMatch(/^path: \/data\/outgoing$/m);
    expect(config["sender.cfg"]).toMatch(/^path_type: dirq$/m);
  });

  test("with none and with dryRun: nothing is sent, and no certificate is asked for", async () => {
    const without = withValue(FULL, "accounting.send", { method: "none" });
    const none = cron(await render(without), "-accounting").jobTemplate.spec.template.spec;
    expect(none.containers.map(({ args }) => args)).toEqual([["account"]]);
    const dry = cron(await render(withValue(without, "accounting.dryRun", true)), "-accounting").jobTemplate.spec
      .template.spec;
    expect(dry.containers.map(({ args }) => args)).toEqual([["account", "--dry-run"]]);
    for (const { volumes } of [none, dry]) expect(volumes.map(({ name }) => name)).not.toContain("host");
  });

  test("keep what was counted and is not sent: the claim outlives the release, and no pod's own folder holds it", async () => {
    const objects = await render(FULL);
    expect(find(objects, "PersistentVolumeClaim", "-accounting").metadata).toMatchObject({
      annotations: { "helm.sh/resource-policy": "keep" },
    });
    const { volumes } = cron(objects, "-accounting").jobTemplate.spec.template.spec;
    expect(volumes.find(({ name }) => name === "data")).toEqual({
      name: "data",
      persistentVolumeClaim: { claimName: "site-gridmeter-accounting" },
    });
  });
});

describe("the agent's rights", () => {
  const ALL = [
    "docker-daemon",
    "docker-stats",
    "docker-inspect",
    "docker-logs",
    "nvidia-smi",
    "amd-smi",
    "rocm-smi",
    "iftop",
    "lsof",
    "ps",
    "crictl-stats",
  ];
  /** A rendering in which these probes are on and no others. */
  const only = async (...names: readonly string[]) => {
    const probes = Object.fromEntries(
      ALL.map((name) => [
        name,
        { enabled: names.includes(name), ...(name === "docker-logs" ? { marker: "END" } : {}) },
      ]),
    );
    const values: Values = withValue(FULL, "agent.config.probes", probes);
    const pod = daemon(await render(values));
    const [container] = pod.containers;
    return {
      hostPID: pod.hostPID,
      hostNetwork: pod.hostNetwork,
      privileged: container?.securityContext.privileged ?? false,
      added: container?.securityContext.capabilities?.add ?? [],
      mounts: container?.volumeMounts
        .map(({ mountPath }) => mountPath)
        .filter((path) => ["/dev", "/host/run"].includes(path)),
      unconfined: container?.securityContext["appArmorProfile"] !== undefined,
    };
  };
  const NOTHING = {
    hostPID: false,
    hostNetwork: false,
    privileged: false,
    added: [] as string[],
    mounts: [] as string[],
    unconfined: false,
  };

  test.for<readonly [string, Partial<typeof NOTHING>]>([
    ["docker-daemon", { mounts: ["/host/run"] }],
    ["docker-stats", { mounts: ["/host/run"] }],
    ["docker-inspect", { mounts: ["/host/run"] }],
    ["docker-logs", { mounts: ["/host/run"] }],
    ["nvidia-smi", { hostPID: true, privileged: true, mounts: ["/dev"] }],
    ["amd-smi", { hostPID: true, privileged: true, mounts: ["/dev"] }],
    ["rocm-smi", { hostPID: true, privileged: true, mounts: ["/dev"] }],
    ["iftop", { hostNetwork: true, added: ["NET_ADMIN", "NET_RAW"] }],
    [
      "lsof",
      { hostPID: true, added: ["DAC_READ_SEARCH", "SYS_ADMIN", "SYS_PTRACE"], mounts: ["/host/run"], unconfined: true },
    ],
    ["ps", { hostPID: true, added: ["DAC_READ_SEARCH", "SYS_PTRACE"], unconfined: true }],
    ["crictl-stats", { hostPID: true, added: ["SYS_ADMIN", "SYS_CHROOT", "SYS_PTRACE"], unconfined: true }],
  ])("of %s alone are what it needs", async ([name, rights]) => {
    expect(await only(name)).toEqual({ ...NOTHING, ...rights });
  });

  test("of no probe are none, and add up for several", async () => {
    expect(await only()).toEqual(NOTHING);
    expect(await only("ps", "iftop", "docker-stats")).toEqual({
      hostPID: true,
      hostNetwork: true,
      privileged: false,
      added: ["DAC_READ_SEARCH", "NET_ADMIN", "NET_RAW", "SYS_PTRACE"],
      mounts: ["/host/run"],
      unconfined: true,
    });
  });

  test("cover every probe that there is", async () => {
    const { PROBE_DEFAULTS } = await import("../../lib/agent/probes/registry.ts");
    expect(ALL.toSorted()).toEqual(Object.keys(PROBE_DEFAULTS).toSorted());
  });

  test("say the same of AppArmor to an older Kubernetes", async () => {
    const off = Object.fromEntries(ALL.map((name) => [name, { enabled: name === "ps" }]));
    const values = withValue(FULL, "agent.config.probes", off);
    const older = find(await render(values, "--kube-version", "1.29.0"), "DaemonSet", "-agent")["spec"];
    expect(JSON.stringify(older)).toContain('"container.apparmor.security.beta.kubernetes.io/agent":"unconfined"');
    expect(JSON.stringify(older)).not.toContain("appArmorProfile");
    const newer = JSON.stringify(find(await render(values, "--kube-version", "1.30.0"), "DaemonSet", "-agent")["spec"]);
    expect(newer).toContain('"appArmorProfile":{"type":"Unconfined"}');
    expect(newer).not.toContain("container.apparmor");
  });

  test("can be set by hand, for a probe of one's own", async () => {
    const off = Object.fromEntries(ALL.map((name) => [name, { enabled: false }]));
    const values = withValue(withValue(FULL, "agent.config.probes", off), "agent.securityContext", {
      capabilities: { drop: ["ALL"], add: ["SYS_RAWIO"] },
    });
    expect(daemon(await render(values)).containers[0]?.securityContext).toMatchObject({
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"], add: ["SYS_RAWIO"] },
    });
  });
});

describe("reap", () => {
  test("runs each hour with the agent's image and file, where there is a Pushgateway", async () => {
    const objects = await render(FULL);
    const { spec } = cron(objects, "-reap").jobTemplate.spec.template;
    expect(spec.containers.map(({ image, args }) => [image, args])).toEqual([
      ["gridmeter-agent:0.1.0", ["reap", "--config", "/etc/gridmeter/agent.yaml", "--older-than", "1h"]],
    ]);
    expect(spec.securityContext).toMatchObject({ runAsNonRoot: true });
    expect(find(objects, "CronJob", "-reap")["spec"]).toMatchObject({ schedule: "17 * * * *" });
  });

  test("is not there without one", async () => {
    const objects = await render(withValue(FULL, "agent.config.pushgateway", null));
    expect(objects.filter(({ metadata }) => metadata.name.endsWith("-reap"))).toEqual([]);
  });
});

describe("the accounting's network policy", () => {
  const ports = async (values: Values): Promise<readonly unknown[]> => {
    const policy = z
      .looseObject({
        policyTypes: z.unknown(),
        egress: z.array(z.object({ ports: z.array(z.looseObject({ port: z.int() })) })),
      })
      .parse(find(await render(values), "NetworkPolicy", "-accounting")["spec"]);
    expect(policy.policyTypes).toEqual(["Ingress", "Egress"]);
    expect(policy).not.toHaveProperty("ingress");
    return policy.egress.map((rule) => rule.ports.map(({ port }) => port).toSorted((a, b) => a - b));
  };

  test("lets out to names, Prometheus, the Pushgateway and AMS, and nobody in", async () => {
    expect(await ports(FULL)).toEqual([
      [53, 53],
      [443, 8443, 9090, 9091],
    ]);
  });

  test("knows the port that an address leaves out, and each tenant's", async () => {
    const values = withValue(
      withValue(FULL, "accounting.config.PROMETHEUS_SERVER", "http://prometheus.example.org/prefix"),
      "accounting.tenants",
      [{ name: "east", PROMETHEUS_SERVER: "https://[2001:db8::1]:9443" }],
    );
    expect(await ports(values)).toEqual([
      [53, 53],
      [80, 443, 8443, 9091, 9443],
    ]);
  });

  test("has no rule that allows all where it knows of none", async () => {
    const bare = {
      accounting: {
        extraEnvFrom: [{ secretRef: { name: "settings" } }],
        send: { method: "none" },
        networkPolicy: { enabled: true },
      },
    };
    expect(await ports(bare)).toEqual([[53, 53]]);
  });
});
