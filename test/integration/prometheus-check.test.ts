// The questions of `gridmeter check` about the monitoring, put to the real Prometheus.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Selection } from "../../lib/accounting/model/tenant.ts";
import { checkPrometheus } from "../../lib/accounting/check.ts";
import { type Client, createClient } from "../../lib/accounting/prometheus/client.ts";
import { type PrometheusServer, startPrometheus } from "../support/prometheus-server.ts";
import { KSM, type Labels, podOf, WrittenSamples } from "../support/written-samples.ts";
import { tenant } from "../unit/accounting/world.ts";

const HOUR = 3600;
const DAY = 86_400;
/** 2025-03-10T00:00:00Z */
const T0 = 1_741_564_800;
const now = T0 + DAY + 600;
const written = new WrittenSamples(T0 + HOUR, T0 + 2 * HOUR);

function writeSamples(): void {
  const own: Labels = { ...KSM, namespace: "monitoring", pod: "kube-state-metrics-0", uid: "own" };
  // No scrape falls on the edge of a cell.
  const scraped = (metric: string, labels: Labels, value: number, from: number, to: number): void =>
    written.put(metric, labels, value, T0 + from * HOUR + 7, T0 + to * HOUR - 1);
  const NOW = 24 + 1 / 6;
  scraped("up", KSM, 1, 0, 6);
  scraped("up", KSM, 0, 6, 8);
  scraped("up", KSM, 1, 8, NOW);
  scraped("kube_pod_info", own, 1, 0, 6);
  // Up without pods from ten to eleven: it may list none.
  scraped("kube_pod_info", own, 1, 8, 10);
  scraped("kube_pod_info", own, 1, 11, NOW);
  for (const n of [6, 7, 8]) written.phases(podOf("phases", n), n === 8 ? "Running" : "Succeeded");
  for (const name of ["phases", "idle"])
    written.put("kube_namespace_status_phase", { ...KSM, namespace: name, phase: "Active" }, 1);
  const renamed = { ...KSM, cluster: "renamed", namespace: "monitoring", exported_namespace: "prod", uid: "u" };
  scraped("kube_pod_start_time", renamed, T0, 0, NOW);
  const chosen = { ...KSM, cluster: "chosen", namespace: "monitoring", orig_namespace: "prod", uid: "u" };
  scraped("kube_pod_start_time", chosen, T0, 0, NOW);
  // It may list no namespace that has pods: `up` is all there is for two days.
  scraped("up", { ...KSM, cluster: "confined" }, 1, -24, NOW);
  scraped("kube_pod_start_time", { ...podOf("phases", 9), cluster: "confined" }, T0 - DAY, -24, -23);
}

let server: PrometheusServer;
let client: Client;
beforeAll(async () => {
  writeSamples();
  server = await startPrometheus({ openmetrics: written.openmetrics });
  client = createClient({ url: server.url, timeoutSeconds: 30, concurrency: 4 });
});
afterAll(() => server.stop());

async function answers(namespace: string, pods: Partial<Selection> = {}, at: number = now) {
  const matchers = ['cluster=""'];
  const findings = await checkPrometheus(client, tenant(namespace, { pods: { matchers, ...pods } }), at, [namespace]);
  for (const finding of findings) expect(finding.ok || finding.remedy !== undefined).toBe(true);
  return Object.fromEntries(findings.map((each) => [each.question, `${each.ok ? "ok" : "not ok"}: ${each.answer}`]));
}

describe("gridmeter check", () => {
  it("answers each question", async () => {
    const found = await answers("phases", { voLabel: "label_vo" });
    expect(found).toEqual({
      "Is Prometheus reachable?": expect.stringMatching(/^ok: yes, version 2\./),
      "Was monitoring seen in the last hour?": "ok: yes, last at 2025-03-11 00:10 UTC",
      "When was it not seen in the last 35 days?":
        "not ok: not seen: 2025-03-10 06:00 to 2025-03-10 08:00 UTC (2 h), 2025-03-10 10:00 to 2025-03-10 11:00 UTC (1 h)",
      "Is the namespace there?": "ok: yes, phases",
      "How far back does the data go?": "not ok: to 2025-03-10, 1 day",
      "Does kube_pod_status_phase exist in the namespace?": "ok: yes, 15 series in the last 7 days",
      "Does kube_pod_completion_time exist in the namespace?": "not ok: no, not in the last 7 days",
      "Does kube_pod_start_time exist in the namespace?": "not ok: no, not in the last 7 days",
      "Does kube_pod_container_resource_requests exist in the namespace?": "not ok: no, not in the last 7 days",
      "Does the VO label exist?": "not ok: no pod has label_vo in kube_pod_labels",
    });
  });

  it("lists the known namespaces for an unknown one", async () => {
    const found = await answers("prodd");
    expect(found["Is the namespace there?"]).toMatch(/^not ok: no, "prodd" .* known are: idle, phases$/);
  });

  it("says so where there is nothing at all", async () => {
    const found = await answers("phases", { matchers: ['cluster="none"'] });
    expect(found["Was monitoring seen in the last hour?"]).toMatch(/^not ok: no: nothing for kube_pod_info\{/);
    expect(found["How far back does the data go?"]).toBe("not ok: there is none in the last 400 days");
  });

  it("warns of long stretches in which it was up and showed no pod", async () => {
    const found = await answers("phases", { matchers: ['cluster="confined"'] });
    expect(found["When was it not seen in the last 35 days?"]).toMatch(
      /^not ok: it was up but showed no pod of any namespace: 2025-03-09 01:00 to 2025-03-11 00:10 UTC \(47\.2 h\)$/,
    );
  });

  it("takes labels renamed by honor_labels: false as they are, and finds another prefix", async () => {
    const question = "Is the namespace there?";
    const renamed = await answers("prod", { matchers: ['cluster="renamed"'] });
    expect(renamed[question]).toBe("ok: yes, prod");
    expect(renamed["Does kube_pod_start_time exist in the namespace?"]).toBe("ok: yes, 1 series in the last 7 days");
    const chosen = tenant("prod", { pods: { matchers: ['cluster="chosen"'] } });
    const findings = await checkPrometheus(client, chosen, now, ["prod"]);
    expect(findings.find((each) => each.question === question)).toMatchObject({
      ok: false,
      answer: "only under the label orig_namespace",
      remedy: expect.stringContaining("PROMETHEUS_LABEL_PREFIX=orig_"),
    });
  });

  it("stops at a server that is not there", async () => {
    const nowhere = createClient({ url: "http://prometheus.invalid", timeoutSeconds: 5, concurrency: 1 });
    const findings = await checkPrometheus(nowhere, tenant("phases"), now, ["phases"]);
    expect(findings).toHaveLength(1);
    expect(findings[0]).toMatchObject({ ok: false, answer: expect.stringMatching(/^prometheus_unreachable: /) });
  });
});
