// The function `check` against a real Prometheus and moto: what it says where all is well, and where something cannot be reached.
import { createServer } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { checkDeployment } from "../../functions/check.ts";
import { lambdaParts } from "../../functions/common/runtime.ts";
import type { Parts } from "../../functions/common/runtime.ts";
import { demoCluster, simulate } from "../simulator/index.ts";
import { listen } from "../support/fault-proxy.ts";
import { deployed, putParameter, startDeployable } from "../support/functions-world.ts";
import type { Deployed } from "../support/functions-world.ts";
import type { Moto } from "../support/moto.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { serveSeries } from "../support/serve-series.ts";
import { SendMessageCommand } from "@aws-sdk/client-sqs";

const NOW = Math.floor(Date.now() / 1000);
const HEADER = "/gridmeter/test/header";
const SECRET = "Bearer never-show-me";

let moto: Moto;
let prometheus: PrometheusServer;
let one: Deployed;
/** accepts connections and says nothing */
const deaf = createServer();
let deafUrl: string;

beforeAll(async () => {
  const cluster = demoCluster({ now: NOW, namespace: "grid", rounds: 1, scrapeInterval: 120 });
  [moto, prometheus] = await Promise.all([startDeployable(), serveSeries(simulate(cluster))]);
  await putParameter(moto, HEADER, SECRET);
  deafUrl = `http://127.0.0.1:${await listen(deaf)}`;
  one = await deployed(moto, prometheus.url, {
    NAMESPACE: "grid",
    TENANTS_PARAMETER: "",
    PROMETHEUS_AUTH_HEADER_PARAMETER: HEADER,
  });
}, 120_000);
afterAll(async () => {
  deaf.close();
  await Promise.all([moto.stop(), prometheus.stop()]);
});

const check = (parts: Parts, event: unknown = { patience: 5 }) => checkDeployment(event, NOW, () => 300_000, parts);
const changed = (env: Record<string, string>): Parts => lambdaParts({ ...one.env, ...env });

test("says yes to parameters, bucket, queues, settings and Prometheus, and shows no secret", async () => {
  const { ok, findings } = await check(one.parts);
  expect(ok).toBe(true);
  const answers = new Map(
    findings.map(({ about, question, verdict, answer }) => [`${about}: ${question}`, { ok: verdict === "ok", answer }]),
  );
  expect(Object.fromEntries(answers)).toMatchObject({
    "parameters: Can the parameter that PROMETHEUS_AUTH_HEADER_PARAMETER names be read?": {
      ok: true,
      answer: `yes, ${HEADER}`,
    },
    "bucket: Can the bucket be read?": { ok: true, answer: `yes, ${one.bucket}; nothing was published yet` },
    "queues: Can the work queue be reached?": { ok: true, answer: "yes; 0 messages wait in it" },
    "queues: Is the queue of dead letters empty?": { ok: true, answer: "yes" },
    "queues: Can the spool queue be reached?": { ok: true },
    "settings: Are the settings right?": { ok: true, answer: "yes, of grid" },
    "tenant grid: Is Prometheus reachable?": { ok: true },
    "tenant grid: Is the namespace there?": { ok: true, answer: "yes, grid" },
  });
  expect(JSON.stringify(findings)).not.toContain("never-show-me");
});

describe("what is wrong is a finding with what to do, and hides nothing else", () => {
  test.each<[string, Record<string, string>, string, RegExp]>([
    [
      "a parameter that is missing",
      { PROMETHEUS_CA_PARAMETER: "/none" },
      "parameters",
      /config_invalid: PROMETHEUS_CA_PARAMETER names/,
    ],
    ["a bucket that is missing", { GRIDMETER_BUCKET: "none-of-ours" }, "bucket", /^no: none-of-ours: NoSuchBucket/],
    [
      "a setting that is wrong",
      { BENCHMARK_VALUE: "much" },
      "settings",
      /config_invalid: .*\n.*BENCHMARK_VALUE="much"/,
    ],
    [
      "a Prometheus that refuses connections",
      { PROMETHEUS_SERVER: "http://127.0.0.1:9" },
      "tenant grid",
      /prometheus_unreachable|no answer/,
    ],
    [
      "a Prometheus that says nothing",
      { PROMETHEUS_SERVER: "DEAF" },
      "tenant grid",
      /prometheus_unreachable|did not finish its answer within|no answer within/,
    ],
    ["a bucket that says nothing", { AWS_ENDPOINT_URL_S3: "DEAF" }, "bucket", /^no answer within 5 seconds/],
    ["queues that say nothing", { AWS_ENDPOINT_URL_SQS: "DEAF" }, "queues", /^no answer within 5 seconds/],
  ])(
    "%s",
    async (_what, env, about, answer) => {
      const given = Object.fromEntries(
        Object.entries(env).map(([name, value]) => [name, value === "DEAF" ? deafUrl : value]),
      );
      const { ok, findings } = await check(changed(given));
      expect(ok).toBe(false);
      const found = findings.filter((each) => each.about === about && each.verdict === "BAD");
      expect(found[0]?.answer).toMatch(answer);
      const aws = ["parameters", "bucket", "queues"].filter((each) => each !== about);
      for (const other of aws)
        expect(findings.filter((each) => each.about === other && each.verdict !== "ok")).toEqual([]);
    },
    60_000,
  );

  test("dead letters", async () => {
    const message = { MessageBody: "{}", MessageGroupId: "g", MessageDeduplicationId: "d" };
    await moto.sqs.send(new SendMessageCommand({ QueueUrl: one.dead, ...message }));
    const { findings } = await check(one.parts);
    expect(findings.find(({ question }) => question.includes("dead letters"))).toMatchObject({
      verdict: "BAD",
      answer: "no: 1 units of publishing failed for good",
    });
  });

  test("a wrong event", async () => {
    await expect(check(one.parts, { patient: 1 })).rejects.toThrow('Give {} or {"patience":20}, in seconds.');
  });
});
