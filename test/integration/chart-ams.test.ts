// The chart's pods as processes that send to AMS by themselves: a real Prometheus, and what stands in for APEL's messaging service.
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type AmsServer, startAms } from "../support/ams-server.ts";
import { withValue } from "../support/chart-values.ts";
import { type Values, render } from "../support/helm.ts";
import { type PodHost, type PodRun, claimFolder, podOf, runPod } from "../support/pod-run.ts";
import {
  CLAIM,
  GOOD,
  NOW,
  type PodWorld,
  endings,
  onlyCurrent,
  queuedOn,
  recordsOf,
  runOnce as runOn,
  startPodWorld,
} from "../support/pod-world.ts";
import { verified } from "../support/smime.ts";
import { issueFrom } from "../support/early-certificate.ts";
import { type Authority, makeAuthority } from "../support/tls.ts";

let world: PodWorld;
let authority: Authority;
let ams: AmsServer;
let host: PodHost;
let values: Values;

beforeAll(async () => {
  world = await startPodWorld();
  authority = makeAuthority(world.scratch, "grid-ca");
}, 180_000);

beforeEach(async () => {
  ams = await startAms(authority);
  // Good since before the clock of the pods, which is in the middle of last month.
  const own = issueFrom(authority, "host.example.org", NOW - 86_400);
  host = world.host({
    secrets: {
      "host-certificate": {
        "x509cert.pem": await readFile(own.certFile, "utf8"),
        "x509key.pem": await readFile(own.keyFile, "utf8"),
      },
    },
    env: {},
  });
  values = {
    accounting: {
      config: world.settings,
      send: {
        existingSecret: "host-certificate",
        ams: { host: ams.host, port: ams.port, authnPort: ams.authnPort },
        ca: { existingConfigMap: "ams-ca" },
      },
    },
    extraObjects: [
      {
        apiVersion: "v1",
        kind: "ConfigMap",
        metadata: { name: "ams-ca" },
        data: { "ca.crt": await readFile(authority.caFile, "utf8") },
      },
    ],
  };
  return () => ams.stop();
});

afterAll(() => world.stop());

const runOnce = (of: Values, more: Partial<PodHost> = {}): Promise<PodRun> => runOn(of, { ...host, ...more });
/** What APEL's receiver would have stored: each message verified against the authority. */
const received = (): readonly string[] =>
  recordsOf(ams.published.map(({ signed }) => verified(signed, authority.caFile, "smime")));

describe("with ams", () => {
  test("a first month is counted, signed and sent; the next day there is nothing new to send", async () => {
    const first = await runOnce(onlyCurrent(values));
    expect([first.phase, endings(first)], first.containers["account"]?.stderr).toEqual(["Succeeded", { account: 0 }]);
    expect(received()).toEqual(GOOD);
    expect(queuedOn(host)).toEqual([]);
    expect((await runOnce(onlyCurrent(values))).phase).toBe("Succeeded");
    expect(received()).toEqual(GOOD);
  });

  test("a refused month does not keep the good one back; then the pod fails, with account's code", async () => {
    const run = await runOnce(values);
    expect([run.phase, endings(run)]).toEqual(["Failed", { account: 3 }]);
    expect(run.containers["account"]?.stderr).toContain("monitoring_not_seen");
    expect(received()).toEqual(GOOD);
  });

  test("AMS away: the pod fails with 4, messages stay on the volume, and the next pod sends them", async () => {
    ams.misbehave(() => ({ kind: "status", status: 503 }));
    const away = await runOnce(onlyCurrent(values));
    expect([away.phase, endings(away)]).toEqual(["Failed", { account: 4 }]);
    expect(received()).toEqual([]);
    ams.misbehave(() => undefined);
    expect((await runOnce(onlyCurrent(values))).phase).toBe("Succeeded");
    expect(received()).toEqual(GOOD);
  });

  test("Prometheus away: what an earlier run left is sent all the same, and the pod fails with 4", async () => {
    ams.misbehave(() => ({ kind: "status", status: 503 }));
    await runOnce(onlyCurrent(values));
    ams.misbehave(() => undefined);
    const away = withValue(onlyCurrent(values), "accounting.config.PROMETHEUS_SERVER", "http://127.0.0.1:9");
    const run = await runOnce(away);
    expect([run.phase, endings(run)]).toEqual(["Failed", { account: 4 }]);
    expect(received()).toEqual(GOOD);
  });

  test("a pod that is killed while it sends: the next one sends the rest, and nothing older after anything newer", async () => {
    let kill: (() => void) | undefined;
    // Killed when the first message was taken, before its answer.
    ams.misbehave((request) => {
      if (request.what !== "publish" || kill === undefined) return undefined;
      kill();
      kill = undefined;
      return { kind: "lost" };
    });
    const killed = await runOnce(onlyCurrent(values), { started: (_container, _pid, end) => (kill = end) });
    expect(killed.containers["account"]?.signal).toBe("SIGKILL");
    expect((await runOnce(onlyCurrent(values))).phase).toBe("Succeeded");
    // The message whose answer was lost is there twice: APEL replaces it by itself.
    expect([...new Set(received())].toSorted()).toEqual(GOOD.toSorted());
    expect(queuedOn(host)).toEqual([]);
  });

  test("a lost queue: the month is sent again with --force, as the page says", async () => {
    ams.misbehave(() => ({ kind: "status", status: 503 }));
    await runOnce(onlyCurrent(values));
    ams.misbehave(() => undefined);
    rmSync(join(claimFolder(host, CLAIM), "outgoing"), { recursive: true });
    expect((await runOnce(onlyCurrent(values))).phase).toBe("Succeeded");
    expect(received()).toEqual([]);
    expect((await runOnce(withValue(onlyCurrent(values), "accounting.extraArgs", ["--force"]))).phase).toBe(
      "Succeeded",
    );
    expect(received()).toEqual(GOOD);
  });

  test("helm test's pod asks AMS too, and sends nothing", async () => {
    const objects = await render(onlyCurrent(values));
    const check = objects.find(({ kind }) => kind === "Pod");
    const pod = podOf([{ ...check!, kind: "Job", spec: { template: { spec: check!["spec"] } } }], "Job", "-check");
    const run = await runPod(objects, pod, host);
    expect(run.containers["check"]?.stdout).toContain("AMS");
    expect(ams.requests.map(({ what }) => what)).not.toContain("publish");
  });
});

const UNSHARED = ["unshare", process.getuid?.() === 0 ? "-m" : "-rm"];
const mountable = spawnSync("unshare", [...UNSHARED.slice(1), "mount", "-t", "tmpfs", "none", "/mnt"]).status === 0;

test.skipIf(!mountable)(
  "a full volume: nothing is sent, the pod fails with 4; with room again all is made up",
  async () => {
    const full = await runOnce(onlyCurrent(values), {
      before: (_container, data) => {
        const script = `mount -t tmpfs -o size=64k none "${data}" && { dd if=/dev/zero of="${data}/filler" bs=4k 2>/dev/null || true; } && exec "$@"`;
        return [...UNSHARED, "sh", "-c", script, "sh"];
      },
    });
    expect([full.phase, endings(full)]).toEqual(["Failed", { account: 4 }]);
    expect(received()).toEqual([]);
    expect((await runOnce(onlyCurrent(values))).phase).toBe("Succeeded");
    expect(received()).toEqual(GOOD);
  },
);
