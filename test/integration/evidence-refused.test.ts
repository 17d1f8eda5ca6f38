// What is asked over a range besides the facts (was monitoring seen, which namespaces are there, has any pod the VO label):
// a server that refuses gets smaller questions, and the answer is that of a server that does not.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Monitoring, Window } from "../../lib/accounting/model/monitoring.ts";
import type { Selection } from "../../lib/accounting/model/tenant.ts";
import { checkPrometheus } from "../../lib/accounting/check.ts";
import { GridmeterError } from "../../lib/shared/errors.ts";
import { createClient } from "../../lib/accounting/prometheus/client.ts";
import { createMonitoring } from "../../lib/accounting/prometheus/monitoring.ts";
import { Random } from "../simulator/index.ts";
import { type Fault, type FaultProxy, prometheusError, startFaultProxy } from "../support/fault-proxy.ts";
import { type PrometheusServer, startPrometheus } from "../support/prometheus-server.ts";
import { tenant } from "../unit/accounting/world.ts";
import { isLong } from "../support/size.ts";

const HOUR = 3600;
/** 2025-03-10T00:00:00Z */
const T0 = 1_741_564_800;
const WINDOW: Window = { from: T0, to: T0 + 10 * HOUR };
const SEED = Date.now() % 2 ** 31;
const uids = new Random("evidence");

type Labels = Readonly<Record<string, string>>;
const text: string[] = [];

function put(metric: string, labels: Labels, value: number, from: number, to: number): void {
  const inside = Object.entries(labels).map(([name, label]) => `${name}="${label}"`);
  for (let at = from; at < to; at += 150) text.push(`${metric}{${inside.join(",")}} ${value} ${at}`);
}

/** Seen from hour 1 to 4 by the phases only, from 6 to 9 by starts as well. */
function putPod(labels: Labels, namespace: Labels, vo: Labels): void {
  const pod = { ...labels, ...namespace };
  put("kube_pod_status_phase", { ...pod, phase: "Running" }, 0, T0 + HOUR, T0 + 4 * HOUR);
  put("kube_pod_start_time", pod, T0, T0 + 6 * HOUR, T0 + 9 * HOUR);
  put("kube_pod_labels", { ...pod, ...vo }, 1, T0 + 6 * HOUR, T0 + 7 * HOUR);
}

function writeSamples(): string {
  for (let n = 0; n < 120; n += 1) {
    const namespace = ["grid", "other", "third"][n % 3] ?? "";
    const vo: Labels = n === 0 ? { label_vo: "cms" } : {};
    putPod({ cluster: "plain", uid: uids.uid() }, { namespace }, vo);
    // Scraped with honor_labels: false. The target is a pod itself, with a namespace and a uid.
    const target = { cluster: "renamed", namespace: "monitoring", uid: "0f000000-0000-4000-8000-000000000000" };
    putPod({ ...target, exported_uid: uids.uid() }, { exported_namespace: namespace }, vo);
  }
  for (let n = 0; n < 20; n += 1) {
    const up = { cluster: "plain", job: "kube-state-metrics", kind: "own", instance: `ksm-${n}` };
    put("up", { ...up, cluster: "up" }, 1, T0 + 2 * HOUR, T0 + 5 * HOUR);
    put("up", { ...up, cluster: "up" }, 0, T0 + 5 * HOUR, T0 + 8 * HOUR);
  }
  writeGaps();
  return [...text, "# EOF\n"].join("\n");
}

/** Pods away from hour 4 to 6: all of them, those of one target of two, and those of one shard of two. */
function writeGaps(): void {
  const away: readonly (readonly [number, number])[] = [
    [2, 4],
    [6, 8],
  ];
  const putPods = (target: Labels, hours: typeof away): void => {
    for (let n = 0; n < 40; n += 1) {
      const pod = { ...target, namespace: n === 0 ? "kube-system" : "grid", uid: uids.uid(), phase: "Running" };
      for (const [from, to] of hours) {
        put("kube_pod_status_phase", pod, 1, T0 + from * HOUR, T0 + to * HOUR);
        put("kube_pod_start_time", pod, T0, T0 + from * HOUR, T0 + to * HOUR);
      }
    }
  };
  const target = (cluster: string, instance: string): Labels => ({ cluster, job: "kube-state-metrics", instance });
  const up = (labels: Labels, value: number, from: number, to: number): void =>
    put("up", labels, value, T0 + from * HOUR, T0 + to * HOUR);
  putPods(target("hole", "a"), away);
  up(target("hole", "a"), 1, 2, 8);
  putPods(target("target", "a"), [[2, 8]]);
  putPods(target("target", "b"), away);
  up(target("target", "a"), 1, 2, 8);
  up(target("target", "b"), 1, 2, 4);
  up(target("target", "b"), 0, 4, 6);
  up(target("target", "b"), 1, 6, 8);
  putPods(target("shard", "a"), [[2, 8]]);
  for (const [ordinal, hours] of [[[2, 8]], away].entries()) {
    for (const [from = 0, to = 0] of hours) {
      const self = target("shard", String(ordinal));
      put("kube_state_metrics_total_shards", self, 2, T0 + from * HOUR, T0 + to * HOUR);
      const shard = { ...self, shard_ordinal: String(ordinal) };
      put("kube_state_metrics_shard_ordinal", shard, ordinal, T0 + from * HOUR, T0 + to * HOUR);
    }
  }
}

const SELECTIONS: readonly (readonly [name: string, selection: Selection])[] = [
  ["pods", { namespace: "grid", matchers: ['cluster="plain"'], labelPrefix: "", voLabel: "label_vo" }],
  [
    "renamed pods",
    { namespace: "grid", matchers: ['cluster="renamed"'], labelPrefix: "exported_", voLabel: "label_vo" },
  ],
  ["up", { namespace: "grid", matchers: ['cluster="up"'], labelPrefix: "", voLabel: "label_none" }],
  ...["hole", "target", "shard"].map((cluster): [string, Selection] => [
    `a ${cluster} away`,
    { namespace: "grid", matchers: [`cluster="${cluster}"`], labelPrefix: "", voLabel: "label_none" },
  ]),
  [
    "a selector of the settings",
    {
      namespace: "none",
      matchers: ['cluster="plain"'],
      labelPrefix: "",
      monitoringSelector: 'up{kind="own"}',
      voLabel: "label_none",
    },
  ],
];

let whole: PrometheusServer;
let small: PrometheusServer;
beforeAll(async () => {
  const openmetrics = writeSamples();
  [whole, small] = await Promise.all([
    startPrometheus({ openmetrics }),
    startPrometheus({ openmetrics, extraFlags: ["--query.max-samples=70"] }),
  ]);
}, 60_000);
afterAll(() => Promise.all([whole.stop(), small.stop()]));

function monitoringOf(url: string, selection: Selection, timeoutSeconds = 30): Monitoring {
  return createMonitoring(createClient({ url, timeoutSeconds, concurrency: 4 }), selection);
}

const QUESTIONS = {
  seen: (monitoring, window) => monitoring.seen(window),
  namespaces: (monitoring, window) => monitoring.namespaces(window),
  voLabel: (monitoring, window) => monitoring.voLabelSeen(window),
} satisfies Record<string, (monitoring: Monitoring, window: Window) => Promise<unknown>>;
const NAMES = ["seen", "namespaces", "voLabel"] as const;

async function answers(monitoring: Monitoring): Promise<Record<string, unknown>> {
  const all = await Promise.all(NAMES.map(async (name) => [name, await QUESTIONS[name](monitoring, WINDOW)] as const));
  return Object.fromEntries(all);
}

/** The error that a question ends with, which must be one of ours. */
async function errorOf(question: Promise<unknown>): Promise<GridmeterError> {
  const thrown: unknown = await question.catch((error: unknown) => error);
  if (thrown instanceof GridmeterError) return thrown;
  throw new Error(`Expected an error, got ${String(thrown)}.`);
}

/** A proxy before the server without limits, for as long as `use` takes. */
async function behind<T>(use: (proxy: FaultProxy) => Promise<T>): Promise<T> {
  const proxy = await startFaultProxy(whole.url);
  try {
    return await use(proxy);
  } finally {
    await proxy.stop();
  }
}

test("without refusals the answers are what was written", async () => {
  const found = await Promise.all(SELECTIONS.map(([, selection]) => answers(monitoringOf(whole.url, selection))));
  const cells = (from: number, to: number): number[] =>
    Array.from({ length: (to - from) * 12 }, (_, index) => T0 + from * HOUR + (index + 1) * 300);
  // Prometheus 2 closes a range at both ends, so that a sample on a cell's start counts in it too.
  const around = (from: number, to: number): number[] => [T0 + from * HOUR, ...cells(from, to)];
  const names = ["grid", "other", "third"];
  const seen = (cells: readonly number[], upOnly: readonly Window[] = []) => ({
    cells,
    partly: [],
    upOnly,
    silent: [],
  });
  const pods = { seen: seen([...around(1, 4), ...around(6, 9)]), namespaces: { names, prefixes: [] }, voLabel: true };
  const upOnly = [{ from: T0 + 2 * HOUR - 300, to: T0 + 5 * HOUR }];
  const none = { seen: seen(around(2, 5), upOnly), namespaces: { names: [], prefixes: [] }, voLabel: false };
  const gap = { cells: [...around(2, 4), ...around(6, 8)], partly: [], upOnly: [], silent: [] };
  const silent = [{ from: T0 + 4 * HOUR, to: T0 + 6 * HOUR - 300 }];
  const gone = { ...none, namespaces: { names: ["grid", "kube-system"], prefixes: [] } };
  expect(found).toEqual([
    pods,
    pods,
    none,
    { ...gone, seen: { ...gap, silent } },
    { ...gone, seen: gap },
    { ...gone, seen: gap },
    { ...none, seen: seen(around(2, 5)), namespaces: pods.namespaces },
  ]);
});

describe("--query.max-samples below what one cell, or one hour, holds", () => {
  test.each(SELECTIONS)("%s: the same answers", async (name, selection) => {
    const proxy = await startFaultProxy(small.url);
    try {
      expect(await answers(monitoringOf(proxy.url, selection))).toEqual(
        await answers(monitoringOf(whole.url, selection)),
      );
      const byUid = proxy.requests.filter(({ form }) => /uid=~/.test(form.get("query") ?? ""));
      // There are few pods behind the others, or none.
      if (name.endsWith("pods")) expect(byUid.length).toBeGreaterThan(10);
      expect(proxy.requests.length).toBeGreaterThan(10);
      // Of a gap its edges are asked for as well.
      expect(proxy.requests.length).toBeLessThan(name.endsWith("away") ? 1200 : 700);
    } finally {
      await proxy.stop();
    }
  });

  // Of the other two it asks a day of `up` at once: more than this server takes, and less than one that holds pods' series.
  test.each(SELECTIONS.slice(0, 2))("%s: gridmeter check finds the same", async (_name, selection) => {
    const findings = (url: string) =>
      checkPrometheus(
        createClient({ url, timeoutSeconds: 30, concurrency: 4 }),
        tenant(selection.namespace, { selection }),
        WINDOW.to,
        [selection.namespace],
      );
    const [found, expected] = await Promise.all([findings(small.url), findings(whole.url)]);
    // It stops counting once there is one.
    const some = found.map((each) => ({ ...each, answer: each.answer.replace(/at least \d+ series/, "some series") }));
    expect(some.filter(({ answer }) => answer.includes("some series"))).toHaveLength(2);
    expect(some.map(({ question, ok }) => ({ question, ok }))).toEqual(
      expected.map(({ question, ok }) => ({ question, ok })),
    );
    for (const [index, { answer }] of some.entries())
      if (!answer.includes("some series")) expect(answer).toBe(expected[index]?.answer);
  });
});

const REFUSALS: Readonly<Record<string, Fault>> = {
  "429": { kind: "answer", status: 429, body: "slow down", headers: { "retry-after": "0" } },
  "503": prometheusError(503, "unavailable", "overloaded"),
  "413": { kind: "answer", status: 413, body: "<html>Request Entity Too Large</html>" },
  "422": prometheusError(
    422,
    "execution",
    "query processing would load too many samples into memory in query execution",
  ),
  "a timeout of the query": prometheusError(503, "timeout", "query timed out in expression evaluation"),
  "a timeout of a gateway": { kind: "answer", status: 504, body: "<h1>504 Gateway Time-out</h1>" },
  "an answer that is cut short": { kind: "cut", body: '{"status":"success","data":{"resultType":"' },
  "no answer": { kind: "hang" },
};

describe("refusals of whatever looks at more than four hours", () => {
  const [, selection] = SELECTIONS[0]!;
  const seconds = (form: URLSearchParams): number => {
    const ranges = [...(form.get("query") ?? "").matchAll(/\[(\d+)s\]/g)].map(([, range]) => Number(range));
    return Math.max(...ranges) + Number(form.get("end") ?? 0) - Number(form.get("start") ?? 0);
  };

  test.concurrent.each(Object.entries(REFUSALS).slice(0, isLong ? undefined : 1))(
    "%s: the same answers, and few are refused",
    async (_name, fault) => {
      await behind(async (proxy) => {
        proxy.draw(({ form }) => (seconds(form) > 4 * HOUR ? fault : undefined));
        expect(await answers(monitoringOf(proxy.url, selection, 0.3))).toEqual(
          await answers(monitoringOf(whole.url, selection)),
        );
        const refused = proxy.requests.filter(({ form }) => seconds(form) > 4 * HOUR);
        expect(refused.length).toBeGreaterThan(0);
        // What may pass is tried four times.
        expect(refused.length).toBeLessThan(80);
      });
    },
  );
});

describe("a server that refuses whatever it is asked", () => {
  const [, selection] = SELECTIONS[0]!;
  const codes: Readonly<Record<string, string>> = {
    "429": "prometheus_unavailable",
    "503": "prometheus_unavailable",
    "an answer that is cut short": "prometheus_bad_answer",
  };
  const asked = {
    seen: "signs of monitoring (kube_pod_info{",
    namespaces: "namespaces",
    voLabel: "the label label_vo",
  };

  test.concurrent.each(Object.entries(REFUSALS))("%s: an error that says what was asked, soon", async (name, fault) => {
    await Promise.all(
      NAMES.map((question) =>
        behind(async (proxy) => {
          proxy.draw(() => fault);
          const monitoring = monitoringOf(proxy.url, selection, fault.kind === "hang" ? 0.1 : 0.4);
          const thrown = await errorOf(QUESTIONS[question](monitoring, WINDOW));
          expect(thrown.code).toBe(codes[name] ?? "prometheus_too_large");
          expect(thrown.message).toContain(`Given up on ${asked[question]}`);
          expect(thrown.message).toMatch(/from 2025-03-\d\d \d\d:\d\d:\d\d UTC to 2025-03-.*, after \d+ queries\. /);
          expect(thrown.message).toContain("Nothing was published.");
          expect(proxy.requests.length).toBeLessThan(30);
        }),
      ),
    );
  });

  test.concurrent.each(["422", "429", "no answer"])(
    "%s of pods, over 40 days: few queries, and none after the error",
    async (name) => {
      const days = { from: T0 - 30 * 24 * HOUR, to: T0 + 10 * 24 * HOUR };
      await Promise.all(
        NAMES.map((question) =>
          behind(async (proxy) => {
            // That there is no `up` is answered.
            proxy.draw(({ form }) => (form.get("query")?.includes("kube_pod_") === true ? REFUSALS[name] : undefined));
            const monitoring = monitoringOf(proxy.url, selection, name === "no answer" ? 0.15 : 0.4);
            expect((await errorOf(QUESTIONS[question](monitoring, days))).message).toContain("Given up on");
            const asked = proxy.requests.length;
            expect(asked).toBeLessThan(20);
            // Longer than it would take to try again.
            await new Promise((resolve) => setTimeout(resolve, 1000));
            expect(proxy.requests.length).toBe(asked);
          }),
        ),
      );
    },
  );

  test.concurrent.each<[name: string, fault: Fault, code: string]>([
    ["a query that is wrong", prometheusError(400, "bad_data", "parse error"), "prometheus_bad_query"],
    ["a web page", { kind: "answer", status: 200, body: "<html>Sign in</html>" }, "prometheus_bad_answer"],
    ["a connection that is reset", { kind: "reset" }, "prometheus_unreachable"],
  ])("%s: no less is asked", async (_name, fault, code) => {
    await Promise.all(
      NAMES.map((question) =>
        behind(async (proxy) => {
          proxy.draw(() => fault);
          const thrown = await errorOf(QUESTIONS[question](monitoringOf(proxy.url, selection), WINDOW));
          expect(thrown.code).toBe(code);
          expect(thrown.message).not.toContain("Given up");
          expect(proxy.requests.length).toBe(fault.kind === "reset" ? 4 : 1);
        }),
      ),
    );
  });
});

describe(`refusals and broken answers by chance (seed ${SEED})`, () => {
  const faults: readonly Fault[] = [
    ...Object.values(REFUSALS).filter(({ kind }) => kind !== "hang"),
    { kind: "reset" },
    { kind: "shortened", share: 0.5, tells: true },
    { kind: "shortened", share: 0.9, tells: false },
  ];

  test.concurrent.each(
    (isLong ? [10, 40] : [10]).flatMap((percent) =>
      SELECTIONS.slice(0, -1).map(([name, selection]) => ({ percent, name, selection })),
    ),
  )("$percent of 100, $name: the same answer or a clean error", async ({ percent, name, selection }) => {
    const expected = await answers(monitoringOf(whole.url, selection));
    const random = new Random(`${SEED} ${percent} ${name}`);
    await behind(async (proxy) => {
      proxy.draw(() => (random.int(1, 100) > percent ? undefined : random.pick(faults)));
      for (const question of NAMES) {
        const found: unknown = await QUESTIONS[question](monitoringOf(proxy.url, selection, 0.5), WINDOW).catch(
          (error: unknown) => error,
        );
        if (found instanceof GridmeterError) {
          expect(found.code).toMatch(/^prometheus_(?:too_large|unavailable|bad_answer|unreachable)$/);
          expect(found.message).toContain("Nothing was published.");
        } else expect(found).toEqual(expected[question]);
      }
    });
  });
});
