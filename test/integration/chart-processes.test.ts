// The chart's pods as processes: what helm renders, against a real Prometheus and what stands in for ssmsend.
import { spawnSync } from "node:child_process";
import { cpSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { withValue } from "../support/chart-values.ts";
import { type Values, render } from "../support/helm.ts";
import { type PodHost, type PodRun, claimFolder, linesOf, podOf, runPod } from "../support/pod-run.ts";
import {
  CLAIM,
  CURRENT,
  GOOD,
  type PodWorld,
  endings,
  onlyCurrent,
  queuedOn,
  recordsOf,
  runOnce as runOn,
  startPodWorld,
} from "../support/pod-world.ts";
import { runCli } from "../support/run-cli.ts";

const SSMSEND = fileURLToPath(new URL("../support/ssmsend-stand-in.py", import.meta.url));
let world: PodWorld;
let host: PodHost;
let values: Values;
let sent: string;

beforeAll(async () => {
  world = await startPodWorld();
}, 180_000);

beforeEach(() => {
  host = world.host({
    secrets: { "host-certificate": { "x509cert.pem": "a certificate", "x509key.pem": "its key" } },
    env: {},
  });
  sent = join(host.place, "sent");
  host = { ...host, env: { ...host.env, SENT: sent } };
  values = {
    accounting: {
      config: world.settings,
      send: {
        method: "ssmsend",
        existingSecret: "host-certificate",
        ssmsend: {
          image: { repository: "ssmsend", tag: "stand-in" },
          command: ["/usr/bin/python3", SSMSEND],
        },
      },
    },
  };
});

afterAll(() => world.stop());

const runOnce = (of: Values, more: Partial<PodHost> = {}): Promise<PodRun> => runOn(of, { ...host, ...more });
const sentRecords = (): readonly string[] => recordsOf(linesOf(sent).map((line) => z.string().parse(JSON.parse(line))));
const queued = (): readonly string[] => queuedOn(host);

describe("with ssmsend beside it", () => {
  test("a first month is counted and sent, and the pod succeeds; the next day there is nothing new to send", async () => {
    const first = await runOnce(onlyCurrent(values));
    expect([first.phase, endings(first)]).toEqual(["Succeeded", { account: 0, outcome: 0, ssmsend: 0 }]);
    expect(sentRecords()).toEqual(GOOD);
    expect(queued()).toEqual([]);
    const second = await runOnce(onlyCurrent(values));
    expect(second.phase).toBe("Succeeded");
    expect(second.containers["account"]?.stdout).toContain("unchanged");
    expect(sentRecords()).toEqual(GOOD);
  });

  test("a refused month does not keep the good one back; then the pod fails, with account's code", async () => {
    const run = await runOnce(values);
    expect([run.phase, endings(run)]).toEqual(["Failed", { account: 0, outcome: 3, ssmsend: 0 }]);
    expect(run.containers["account"]?.stderr).toContain("monitoring_not_seen");
    expect(sentRecords()).toEqual(GOOD);
  });

  test("Prometheus away: what an earlier run left in the queue is sent all the same, and the pod fails with 4", async () => {
    // ssmsend could not send that day.
    const broken = withValue(onlyCurrent(values), "accounting.send.ssmsend.command", ["/bin/false"]);
    const first = await runOnce(broken);
    expect(endings(first)).toEqual({ account: 0, outcome: 0, ssmsend: 1 });
    expect(queued()).toHaveLength(2);
    const away = withValue(onlyCurrent(values), "accounting.config.PROMETHEUS_SERVER", "http://127.0.0.1:9");
    const second = await runOnce(away);
    expect([second.phase, endings(second)]).toEqual(["Failed", { account: 0, outcome: 4, ssmsend: 0 }]);
    expect(sentRecords()).toEqual(GOOD);
  });

  test("wrong settings: the pod fails with 2 and sends nothing", async () => {
    const run = await runOnce(withValue(values, "accounting.config.NAMESPACE", "No Namespace"));
    expect(endings(run)).toEqual({ account: 0, outcome: 2, ssmsend: 0 });
    expect(run.containers["account"]?.stderr).toMatch(/config_invalid.*\n?.*NAMESPACE/);
    expect(sentRecords()).toEqual([]);
  });

  test("a pod that is killed while it counts fails without ssmsend; the next one makes it up, nothing is doubled", async () => {
    let kills = 0;
    for (const delay of [150, 400, 700]) {
      const run = await runOnce(onlyCurrent(values), {
        started: (container, _pid, kill) => {
          if (container === "account") setTimeout(kill, delay);
        },
      });
      // On a fast machine the last one may be through before it is killed.
      if (run.containers["account"]?.signal !== "SIGKILL") continue;
      kills += 1;
      expect([run.phase, run.containers["ssmsend"]]).toEqual(["Failed", undefined]);
    }
    expect(kills).toBeGreaterThan(0);
    expect((await runOnce(onlyCurrent(values))).phase).toBe("Succeeded");
    expect(sentRecords()).toEqual(GOOD);
  });

  test("a lost queue: the month is sent again with --force, as the page says", async () => {
    const broken = withValue(onlyCurrent(values), "accounting.send.ssmsend.command", ["/bin/false"]);
    await runOnce(broken);
    rmSync(join(claimFolder(host, CLAIM), "outgoing"), { recursive: true });
    const next = await runOnce(onlyCurrent(values));
    expect(next.containers["account"]?.stdout).toContain("unchanged");
    expect(sentRecords()).toEqual([]);
    expect((await runOnce(withValue(onlyCurrent(values), "accounting.extraArgs", ["--force"]))).phase).toBe(
      "Succeeded",
    );
    expect(sentRecords()).toEqual(GOOD);
  });

  test("a ledger from a host goes on in the cluster: settled days are not asked again, nothing is sent twice", async () => {
    const at = join(host.place, "host");
    const env = {
      ...world.settings,
      ACCOUNTING_SINCE: `${CURRENT}-01`,
      SHIFTED_CLOCK: world.clock,
    };
    const before = await runCli(
      ["account", "--ledger", join(at, "ledger"), "--output", `dirq:${join(at, "outgoing")}`],
      { cwd: host.place, env, program: world.cli },
    );
    expect(before.code).toBe(0);
    // The volume is made by the pod's first mount; what is copied there belongs to the pod's user.
    const volume = claimFolder(host, CLAIM);
    cpSync(join(at, "ledger"), join(volume, "ledger"), { recursive: true });
    if (process.getuid?.() === 0) spawnSync("chown", ["-R", "10000:10000", join(volume, "ledger")]);
    const next = await runOnce(withValue(onlyCurrent(values), "accounting.extraArgs", ["--json"]));
    expect(next.phase).toBe("Succeeded");
    const { asked, months } = z
      .object({
        asked: z.object({ days: z.number() }),
        months: z.array(z.object({ units: z.array(z.object({ status: z.string() })) })),
      })
      .parse(JSON.parse(next.containers["account"]?.stdout ?? ""));
    expect(asked.days).toBeLessThanOrEqual(2);
    expect(months.flatMap(({ units }) => units.map(({ status }) => status))).toContain("unchanged");
    expect(sentRecords()).toEqual([]);
  });

  test("hand-written records go into the queue by a Job, once, and leave with the next run", async () => {
    const [year = "", month = ""] = CURRENT.split("-");
    const record = `APEL-sync-message: v0.1\nSite: EXAMPLE-SITE\nSubmitHost: other.example.org\nNumberOfJobs: 7\nMonth: ${Number(month)}\nYear: ${year}\n%%\n`;
    const withManual = withValue(onlyCurrent(values), "accounting.manualRecords", { correction: record });
    const objects = await render(withManual);
    const [job] = objects.filter(({ kind }) => kind === "Job");
    const pod = podOf(objects, "Job", job?.metadata.name ?? "");
    for (const phase of ["Succeeded", "Succeeded"]) expect((await runPod(objects, pod, host)).phase).toBe(phase);
    expect(queued()).toHaveLength(1);
    expect((await runOnce(withManual)).phase).toBe("Succeeded");
    expect(sentRecords()).toEqual([`sync ${CURRENT} 7`, ...GOOD]);
  });

  test("helm test's pod says whether a run can succeed, and writes nothing", async () => {
    const objects = await render(onlyCurrent(values));
    const check = objects.find(({ kind }) => kind === "Pod");
    const pod = podOf([{ ...check!, kind: "Job", spec: { template: { spec: check!["spec"] } } }], "Job", "-check");
    const run = await runPod(objects, pod, host);
    expect(run.containers["check"]?.stdout).toMatch(/Would \d{4}-\d{2} be published\? yes/);
    expect(readdirSync(claimFolder(host, CLAIM))).toEqual([]);
  });

  test("the key is read by the pod's group, and by nobody else", async () => {
    const run = await runOnce(onlyCurrent(values));
    expect(run.containers["ssmsend"]?.code).toBe(0);
    const [pod = ""] = readdirSync(host.place).filter((name) => name.startsWith("pod-"));
    const { mode, gid } = statSync(join(host.place, pod, "host", "key.pem"));
    expect(mode & 0o777).toBe(0o440);
    if (process.getuid?.() === 0) expect(gid).toBe(10000);
  });
});

const UNSHARED = ["unshare", process.getuid?.() === 0 ? "-m" : "-rm"];
const mountable = spawnSync("unshare", [...UNSHARED.slice(1), "mount", "-t", "tmpfs", "none", "/mnt"]).status === 0;

test.skipIf(!mountable)(
  "a full volume: nothing is published, the pod fails with 4; with room again all is made up",
  async () => {
    const full = await runOnce(withValue(onlyCurrent(values), "accounting.send", { method: "none" }), {
      before: (_container, data) => {
        const script = `mount -t tmpfs -o size=64k none "${data}" && { dd if=/dev/zero of="${data}/filler" bs=4k 2>/dev/null || true; } && exec "$@"`;
        return [...UNSHARED, "sh", "-c", script, "sh"];
      },
    });
    expect([full.phase, endings(full)]).toEqual(["Failed", { account: 4 }]);
    expect(full.containers["account"]?.stderr).toMatch(/store_failed.*ENOSPC.*free space/);
    const next = await runOnce(onlyCurrent(values));
    expect(next.phase).toBe("Succeeded");
    expect(sentRecords()).toEqual(GOOD);
  },
);
