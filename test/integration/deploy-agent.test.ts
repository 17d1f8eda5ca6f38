import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, describe, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { z } from "zod";
import { loadAgentConfig } from "../../lib/agent/config.ts";
import { PROBE_DEFAULTS } from "../../lib/agent/probes/registry.ts";
import { knownMetricNames, metricNames, promqlFaults } from "../support/promql-names.ts";

const deploy = new URL("../../deploy/", import.meta.url).pathname;
const text = (file: string): string => readFileSync(join(deploy, file), "utf8");
const scratch = mkdtempSync(join(tmpdir(), "gridmeter-deploy-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

describe("the dashboard", () => {
  const Target = z.object({ expr: z.string(), datasource: z.object({ uid: z.literal("${datasource}") }) });
  const Place = z.object({ x: z.int(), y: z.int(), w: z.int().positive(), h: z.int().positive() });
  const Panel = z.object({
    id: z.int(),
    type: z.string(),
    title: z.string().min(1),
    gridPos: Place,
    targets: z.array(Target).optional(),
  });
  const Dashboard = z.object({
    uid: z.literal("gridmeter-agent"),
    title: z.string(),
    panels: z.array(Panel),
    templating: z.object({ list: z.array(z.object({ name: z.string(), type: z.string(), query: z.unknown() })) }),
  });
  const { panels, templating } = Dashboard.parse(JSON.parse(text("grafana/gridmeter-agent.json")));
  const queries = panels.flatMap(({ targets = [] }) =>
    targets.map(({ expr }) => expr.replaceAll("$__rate_interval", "5m")),
  );

  test("asks only for metrics that there are, in PromQL", async () => {
    const known = knownMetricNames();
    expect(queries.length).toBeGreaterThan(25);
    for (const query of queries) {
      expect(promqlFaults(query), query).toEqual([]);
      expect(metricNames(query).length, query).toBeGreaterThan(0);
      for (const name of metricNames(query)) expect(known, query).toContain(name);
    }
  });

  test("uses no variable that it has not", () => {
    const names = templating.list.map(({ name }) => name);
    expect(names).toEqual(["datasource", "instance", "probe"]);
    const used = queries.flatMap((query): string[] =>
      [...query.matchAll(/\$(?<name>\w+)/g)].map((found) => found.groups?.["name"] ?? ""),
    );
    expect([...new Set(used)].sort()).toEqual(["instance", "probe"]);
  });

  test("has panels that do not overlap, of probes, commands, GPUs and containers", () => {
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    for (const [index, { gridPos: a, title }] of panels.entries()) {
      expect(a.x + a.w, title).toBeLessThanOrEqual(24);
      for (const { gridPos: b, title: other } of panels.slice(index + 1)) {
        const apart = a.x + a.w <= b.x || b.x + b.w <= a.x || a.y + a.h <= b.y || b.y + b.h <= a.y;
        expect(apart, `${title} / ${other}`).toBe(true);
      }
    }
    const rows = panels.flatMap(({ type, title }) => (type === "row" ? [title] : []));
    expect(rows).toEqual([
      "Agents and probes",
      "Durations of commands",
      "GPUs",
      "Containers and processes",
      "Pushgateway",
    ]);
  });
});

describe("scraping", () => {
  const Scrape = z.object({
    scrape_configs: z.array(
      z.object({
        job_name: z.string(),
        honor_labels: z.boolean().optional(),
        relabel_configs: z
          .array(
            z.object({
              target_label: z.string().optional(),
              replacement: z.string().optional(),
              regex: z.string().optional(),
            }),
          )
          .optional(),
      }),
    ),
  });
  const jobsOf = (file: string) => Scrape.parse(parse(text(file))).scrape_configs;

  test("is a configuration that Prometheus takes, with the alert rules", async () => {
    const { stdout } = await promisify(execFile)("/usr/bin/promtool", [
      "check",
      "config",
      join(deploy, "prometheus/scrape.example.yml"),
    ]);
    expect(stdout).toContain("2 rule files found");
    expect(stdout.match(/SUCCESS/g)?.length).toBe(4);
  });

  test("keeps the agents' own labels, and gives ports the job that the alerts look for", () => {
    const [gateway, port] = jobsOf("prometheus/scrape.example.yml");
    expect(gateway).toMatchObject({ job_name: "pushgateway", honor_labels: true });
    expect(port?.job_name).toBe("gridmeter-agent-port");
    const [pods] = jobsOf("prometheus/scrape-kubernetes.example.yml");
    expect(pods?.relabel_configs).toContainEqual({ target_label: "job", replacement: "gridmeter-agent-port" });
    expect(text("prometheus/gridmeter-agent.rules.yml")).toContain('up{job="gridmeter-agent-port"}');
  });

  test("calls a node as its host's name, whatever its port or domain", () => {
    const regex = jobsOf("prometheus/scrape.example.yml")[1]?.relabel_configs?.[0]?.regex ?? "";
    const instance = (address: string): string | undefined => new RegExp(`^(?:${regex})$`).exec(address)?.[1];
    expect(["gpu-node-17.example.org:9102", "gpu-node-17:9102"].map(instance)).toEqual(["gpu-node-17", "gpu-node-17"]);
  });
});

describe("the DaemonSet", () => {
  const source = text("kubernetes/agent.yaml");
  const documents = parseAllDocuments(source);
  const objects = documents.map((each) => each.toJS() as Record<string, unknown>);
  const Pod = z.object({
    hostPID: z.literal(true),
    hostNetwork: z.literal(true),
    dnsPolicy: z.literal("ClusterFirstWithHostNet"),
    automountServiceAccountToken: z.literal(false),
    tolerations: z.tuple([z.object({ operator: z.literal("Exists") })]),
    terminationGracePeriodSeconds: z.int().min(11),
    containers: z.tuple([z.record(z.string(), z.unknown())]),
    volumes: z.array(z.record(z.string(), z.unknown())),
  });
  const set = z
    .object({ spec: z.object({ selector: z.unknown(), template: z.object({ metadata: z.unknown(), spec: Pod }) }) })
    .parse(objects[2]);
  const pod = set.spec.template.spec;
  const [container] = pod.containers;

  test("is a namespace, a configuration, a DaemonSet and reap without faults of YAML", () => {
    expect(documents.flatMap(({ errors }) => errors)).toEqual([]);
    expect(objects.map(({ kind }) => kind)).toEqual(["Namespace", "ConfigMap", "DaemonSet", "CronJob"]);
    const labels = { "app.kubernetes.io/name": "gridmeter", "app.kubernetes.io/component": "agent" };
    expect(set.spec.template.metadata).toMatchObject({ labels });
    expect(set.spec.selector).toMatchObject({ matchLabels: labels });
  });

  test("asks the port whether the agent lives and is ready, and names the node", () => {
    expect(container).toMatchObject({
      livenessProbe: { httpGet: { path: "/healthz", port: "metrics" } },
      readinessProbe: { httpGet: { path: "/readyz", port: "metrics" } },
      ports: [{ name: "metrics", containerPort: 9102 }],
      resources: {
        requests: { memory: expect.any(String) as string },
        limits: { memory: expect.any(String) as string },
      },
    });
    expect(container?.["env"]).toContainEqual({
      name: "NODE_NAME",
      valueFrom: { fieldRef: { fieldPath: "spec.nodeName" } },
    });
    // A command that is throttled runs into its timeout.
    expect(container?.["resources"]).not.toHaveProperty("limits.cpu");
  });

  test("has devices, docker's socket by its directory, and its configuration; all mounts have a volume", () => {
    const mounts = z.array(z.object({ name: z.string(), mountPath: z.string() })).parse(container?.["volumeMounts"]);
    const volumes = z.array(z.object({ name: z.string() })).parse(pod.volumes);
    expect(mounts.map(({ name }) => name).sort()).toEqual(volumes.map(({ name }) => name).sort());
    expect(mounts.map(({ mountPath }) => mountPath)).toEqual([
      "/etc/gridmeter/agent.yaml",
      "/tmp",
      "/dev",
      "/host/run",
    ]);
    expect(container?.["env"]).toContainEqual({ name: "DOCKER_HOST", value: "unix:///host/run/docker.sock" });
  });

  test("says why it is privileged", () => {
    expect(container?.["securityContext"]).toMatchObject({ privileged: true, readOnlyRootFilesystem: true });
    const before = source.slice(0, source.indexOf("privileged: true")).split("\n").slice(-7).join("\n");
    for (const reason of ["/dev/nvidia", "SYS_ADMIN", "SYS_PTRACE", "NET_RAW"]) expect(before).toContain(reason);
  });

  test("has a configuration that the agent takes, with the probes' own commands", () => {
    const { data } = z.object({ data: z.object({ "agent.yaml": z.string() }) }).parse(objects[1]);
    const file = join(scratch, "agent.yaml");
    writeFileSync(file, data["agent.yaml"]);
    const config = loadAgentConfig({ NODE_NAME: "gpu-node-17" }, { config: file });
    expect(config).toMatchObject({ listen: ":9102", instance: "gpu-node-17" });
    const nsenter = ["nsenter", "--target", "1", "--mount", "--"];
    for (const name of ["nvidia-smi", "amd-smi", "rocm-smi", "crictl-stats"] as const) {
      expect(config.probes[name]?.command).toEqual([...nsenter, ...PROBE_DEFAULTS[name].command]);
    }
    expect(container?.["args"]).toEqual(["agent", "--config", "/etc/gridmeter/agent.yaml"]);
  });
});

describe("the systemd unit", () => {
  const unit = text("systemd/gridmeter-agent.service");
  const settings = new Map(
    unit.split("\n").flatMap((line) => {
      const [, key, value] = /^(\w+)=(.*)$/.exec(line) ?? [];
      return key === undefined || value === undefined ? [] : [[key, value] as const];
    }),
  );

  test("ends all commands with the agent, and starts it again whatever ended it but its configuration", () => {
    expect(Object.fromEntries(settings)).toMatchObject({
      KillMode: "control-group",
      Restart: "always",
      RestartPreventExitStatus: "2",
      NoNewPrivileges: "yes",
      ProtectSystem: "strict",
    });
    expect(Number(settings.get("TimeoutStopSec"))).toBeGreaterThan(10);
  });

  test("leaves GPUs, docker, other users' processes, namespaces and packets to the commands", () => {
    const harmful = [
      "PrivateDevices",
      "DeviceAllow",
      "ProtectClock",
      "ProtectKernelModules",
      "ProtectProc",
      "PrivateNetwork",
    ];
    for (const key of [...harmful, "RestrictNamespaces", "MemoryDenyWriteExecute", "PrivateUsers"]) {
      expect(settings.has(key), key).toBe(false);
    }
    expect(settings.get("User")).toBe("root");
    for (const family of ["AF_UNIX", "AF_INET", "AF_INET6", "AF_PACKET"]) {
      expect(settings.get("RestrictAddressFamilies")).toContain(family);
    }
    for (const capability of ["CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_NET_RAW", "CAP_KILL"]) {
      expect(settings.get("CapabilityBoundingSet")).toContain(capability);
    }
  });

  test("is one that systemd takes, where there is systemd to ask", async () => {
    // A program that exists here stands in for the agent's.
    const file = join(scratch, "gridmeter-agent.service");
    writeFileSync(file, unit.replace(/^ExecStart=\S+/m, "ExecStart=/bin/true"));
    const verify = "/usr/bin/systemd-analyze";
    if (existsSync(verify)) {
      const { stdout, stderr } = await promisify(execFile)(verify, ["verify", file]);
      expect(`${stdout}${stderr}`).not.toContain("gridmeter-agent");
    }
    expect(settings.get("ExecStart")).toBe("/usr/local/bin/gridmeter-agent agent --config /etc/gridmeter/agent.yaml");
  });
});

describe("the agent's image", () => {
  const dockerfile = text("docker/Dockerfile");
  const installed = /--no-install-recommends (?<packages>[\w .-]+?) \\/
    .exec(dockerfile)
    ?.groups?.["packages"]?.split(" ");

  test("has every command that probes run by default, but for those that belong to the node", () => {
    const packages: Readonly<Record<string, string>> = {
      iftop: "iftop",
      nsenter: "util-linux",
      lsof: "lsof",
      ps: "procps",
    };
    const node = ["nvidia-smi", "amd-smi", "rocm-smi", "crictl"];
    const commands = Object.values(PROBE_DEFAULTS).flatMap(({ command }) => {
      const argv: readonly string[] = command;
      return command[0] === "nsenter" ? [command[0], argv[argv.indexOf("--") + 1] ?? ""] : [command[0]];
    });
    for (const command of new Set(commands.map((each) => basename(each)))) {
      if (node.includes(command)) continue;
      if (command === "docker") expect(dockerfile).toContain("COPY --from=docker /usr/local/bin/docker");
      else expect(installed, command).toContain(packages[command]);
    }
    expect(installed).toContain("tini");
  });
});
