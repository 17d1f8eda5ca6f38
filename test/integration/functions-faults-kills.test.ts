// The functions killed between any two of their calls to S3, SQS and SSM, called twice and at once, and with S3 and SQS at
// fault: in this process, against a real Prometheus and moto. What comes of it is judged where it ends, at ssmsend.
import { ListObjectsV2Command, PutObjectCommand } from "@aws-sdk/client-s3";
import type { SQSRecord } from "aws-lambda";
import pLimit from "p-limit";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { readState } from "../../lib/accounting/publishing/state.ts";
import { parseNotification } from "../../lib/accounting/delivery/notifications.ts";
import { parseOutgoingKey } from "../../lib/accounting/delivery/outgoing.ts";
import { manualFile } from "../../functions/manual.ts";
import { lambdaParts, neededStore } from "../../functions/common/runtime.ts";
import { Random, simulate } from "../simulator/index.ts";
import { startAwsFaults } from "../support/aws-faults.ts";
import type { AwsFault } from "../support/aws-faults.ts";
import { dyingParts } from "../support/dying-parts.ts";
import type { Death } from "../support/dying-parts.ts";
import { FEW_DAYS, MONTH, SsmsendHost, invoke, item, record, settled } from "../support/functions-host.ts";
import { CLUSTER, UNIT, deployed, newest, reference, startDeployable } from "../support/functions-world.ts";
import type { Deployed } from "../support/functions-world.ts";
import type { Moto } from "../support/moto.ts";
import { RANDOM_KILLS } from "../support/outbox-contract-kills.ts";
import { startDirqReader } from "../support/outbox-contract-reader.ts";
import type { DirqReader } from "../support/outbox-contract-reader.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { serveSeries } from "../support/serve-series.ts";
import { scratchDirectory } from "../support/store-script.ts";
import { emptied } from "../support/work-queue.ts";

vi.hoisted(() => {
  // Their log and CloudWatch lines would drown the tests' own.
  Object.assign(process.env, { POWERTOOLS_LOG_LEVEL: "SILENT", POWERTOOLS_METRICS_DISABLED: "true" });
});

let moto: Moto;
let prometheus: PrometheusServer;
let reader: DirqReader;
let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let expected: string[];
/** of the month, both tenants */
let jobs: number;

beforeAll(async () => {
  reader = startDirqReader();
  scratch = await scratchDirectory();
  [moto, prometheus] = await Promise.all([startDeployable(), serveSeries(simulate(CLUSTER))]);
  expected = (await reference(prometheus.url, MONTH, FEW_DAYS)).toSorted();
  jobs = Number(/NumberOfJobs: (\d+)/.exec(expected.find((body) => body.startsWith("APEL-sync"))!)![1]);
  expect(jobs).toBeGreaterThan(0);
}, 180_000);
afterAll(async () => {
  await Promise.all([moto.stop(), prometheus.stop(), reader.stop()]);
  await scratch.remove();
});

const host = (env: Record<string, string>) => new SsmsendHost(scratch.path, env, reader);
const work = (more: Parameters<typeof item>[0] = {}) => record(JSON.stringify(item(more)));
/** So many at a time: each waits for others most of its time. */
const sideBySide = <T>(work: readonly (() => Promise<T>)[]): Promise<T[]> => {
  const limit = pLimit(3);
  return Promise.all(work.map((each) => limit(each)));
};

/** And what APEL must hold: each job once. */
async function sentOnce(env: Record<string, string>): Promise<void> {
  const table = await host(env).quiet();
  expect(table.totals(MONTH).get(UNIT.site)).toMatchObject({ jobs, syncJobs: jobs });
}

describe("account killed and its message delivered again", () => {
  let one: Deployed;
  const prefixes: string[] = [];
  beforeAll(async () => {
    one = await deployed(moto, prometheus.url, FEW_DAYS);
  });
  const under = (prefix: string) => {
    prefixes.push(prefix);
    const env = { ...one.env, GRIDMETER_PREFIX: prefix };
    return { env, store: neededStore(lambdaParts(env)) };
  };

  test("before the first call, and once each single one was carried out", async () => {
    const whole = under("whole");
    const { calls, done } = await invoke(whole.env, work());
    expect(done).toBe(true);
    expect(await settled(whole.store, expected)).toBe(1);
    expect(calls).toBeGreaterThan(30);
    const deaths = Array.from({ length: calls }, (_, index): Death => ({ at: index + 1, when: "after" }));
    const generations = await sideBySide(
      [{ at: 1, when: "before" } as const, ...deaths].map((death) => async () => {
        const { env, store } = under(`k-${death.at}-${death.when}`);
        const message = work();
        expect(await invoke(env, message, death)).toMatchObject({ died: true, done: false });
        expect(await invoke(env, message)).toMatchObject({ done: true });
        return settled(store, expected);
      }),
    );
    // Some died with a generation reserved, and the next one was taken.
    expect(new Set(generations)).toEqual(new Set([1, 2]));
  }, 150_000);

  test("and the spooler was told of all that lies in the newest generations, and hands it to ssmsend", async () => {
    const bells = (await emptied(moto.sqs, one.spool)).map(({ body }) => parseNotification(body));
    const rung = new Set(bells.map((bell) => (bell.ok ? bell.notification.key : "")));
    expect(prefixes.length).toBeGreaterThan(30);
    await sideBySide(
      prefixes.map((prefix) => async () => {
        const env = { ...one.env, GRIDMETER_PREFIX: prefix };
        const keys = (await neededStore(lambdaParts(env)).list("outgoing/")).map((key) => parseOutgoingKey(key)!);
        const generation = Math.max(...keys.map((key) => key.generation));
        const unrung = keys.filter((key) => key.generation === generation && !rung.has(`${prefix}/${key.key}`));
        expect(unrung).toEqual([]);
        await sentOnce(env);
      }),
    );
  }, 150_000);

  const SEED = "killed";
  const A_ROUND = 4;
  test(`${RANDOM_KILLS.account} times at random (seed "${SEED}"), while benchmarks change, the spooler runs and ssmsend sends`, async () => {
    const random = new Random(SEED);
    const rounds = Array.from({ length: RANDOM_KILLS.account / A_ROUND }, (_, round) => ({
      env: { ...one.env, GRIDMETER_PREFIX: `r-${round}` },
      chance: new Random(`${SEED} ${random.int(0, 1e9)}`),
    }));
    const deaths = await sideBySide(
      rounds.map(({ env, chance }) => async () => {
        const ssmsend = host(env);
        let died = 0;
        while (died < A_ROUND) {
          const death: Death = { at: chance.int(1, died === 0 ? 40 : 18), when: chance.pick(["before", "after"]) };
          // --force: each publishes a generation of its own, under another benchmark with other rows and tombstones.
          const message = work({ force: true });
          const attempt = await invoke({ ...env, BENCHMARK_VALUE: chance.pick(["9", "10", "11"]) }, message, death);
          if (attempt.died) died += 1;
          if (chance.unit() < 0.4) await ssmsend.spool();
          if (chance.unit() < 0.4) await ssmsend.take();
        }
        expect(await invoke(env, work({ force: true }))).toMatchObject({ done: true });
        const table = await ssmsend.quiet();
        expect(table.totals(MONTH).get(UNIT.site)).toMatchObject({ jobs, syncJobs: jobs });
        const store = neededStore(lambdaParts(env));
        const held = (await readState(store, { ...UNIT, month: MONTH }, () => undefined))!.state!;
        expect([held.pending, held.published!.generation]).toEqual([undefined, held.generation]);
        return died;
      }),
    );
    expect(deaths.reduce((sum, died) => sum + died, 0)).toBe(RANDOM_KILLS.account);
  }, 240_000);
});

describe("manual killed and told of its file again", () => {
  let one: Deployed;
  let body: string;
  beforeAll(async () => {
    one = await deployed(moto, prometheus.url);
    body = expected.find((text) => text.startsWith("APEL-summary"))!;
  });
  const envOf = (prefix: string) => ({ ...one.env, GRIDMETER_PREFIX: prefix });
  const attempt = async (prefix: string, death?: Death) => {
    const parts = dyingParts(envOf(prefix), death);
    const told = { bucket: one.bucket, key: `${prefix}/manual/incoming/a+b%C3%BC.txt` };
    const outcome = await manualFile(told, Math.floor(Date.now() / 1000), parts).catch(() => undefined);
    parts.destroy();
    return { outcome: outcome?.outcome, calls: parts.calls() };
  };
  const put = (prefix: string, text = body) =>
    moto.s3.send(new PutObjectCommand({ Bucket: one.bucket, Key: `${prefix}/manual/incoming/a bü.txt`, Body: text }));
  const files = async (prefix: string) => {
    const { Contents = [] } = await moto.s3.send(
      new ListObjectsV2Command({ Bucket: one.bucket, Prefix: `${prefix}/manual/` }),
    );
    return Contents.map(({ Key }) => Key!.slice(prefix.length + 1)).filter((key) =>
      /^manual\/(incoming|accepted|refused)\//.test(key),
    );
  };

  test("before the first call, and once each single one was carried out: it is sent and the file is moved", async () => {
    await put("whole");
    const { calls, outcome } = await attempt("whole");
    expect(outcome).toBe("accepted");
    for (let at = 0; at <= calls; at += 1) {
      const prefix = `m-${at}`;
      await put(prefix);
      await attempt(prefix, at === 0 ? { at: 1, when: "before" } : { at, when: "after" });
      await attempt(prefix);
      expect(await files(prefix)).toEqual(["manual/accepted/a bü.txt"]);
      // Sent twice at worst, under two generations: records replace.
      const { generation, messages } = await newest(neededStore(lambdaParts(envOf(prefix))), MONTH);
      expect(messages).toEqual([body]);
      expect(generation).toBeLessThanOrEqual(2);
      const bells = (await emptied(moto.sqs, one.spool)).map(
        ({ body: text }) => JSON.parse(text) as { generation: number },
      );
      expect(Math.max(...bells.map((bell) => bell.generation))).toBe(generation);
      await host(envOf(prefix)).quiet();
    }
  }, 180_000);

  const SEED = "killed by hand";
  test(`${RANDOM_KILLS.manual} times at random (seed "${SEED}"), over corrections of one row: APEL holds the last one`, async () => {
    const random = new Random(SEED);
    const prefix = "random";
    const ssmsend = host(envOf(prefix));
    let died = 0;
    let last = "";
    for (let version = 1; died < RANDOM_KILLS.manual; version += 1) {
      last = body.replace(/^NumberOfJobs: .*$/m, `NumberOfJobs: ${version}`);
      await put(prefix, last);
      for (let outcome: string | undefined; outcome === undefined;) {
        const death: Death = { at: random.int(1, 18), when: random.pick(["before", "after"]) };
        const tried = await attempt(prefix, death);
        if (tried.calls >= death.at) died += 1;
        else ({ outcome } = tried);
        if (random.unit() < 0.3) await ssmsend.spool();
        if (random.unit() < 0.3) await ssmsend.take();
      }
    }
    const table = await ssmsend.quiet();
    const [row] = table.rows.filter(({ kind }) => kind === "summary");
    expect(row).toMatchObject({ numberOfJobs: Number(/NumberOfJobs: (\d+)/.exec(last)![1]) });
    expect(await files(prefix)).toEqual(["manual/accepted/a bü.txt"]);
  }, 180_000);
});

describe("account at once", () => {
  const now = (): number => Math.floor(Date.now() / 1000);
  test.each([
    ["the same message delivered three times", () => Array<string>(3).fill("same")],
    ["three work items of the unit, in which both its tenants are counted", () => ["a", "b", "c"]],
    ["an older work item that comes after a newer one", () => ["b", "a"]],
  ])(
    "%s",
    async (_what, ids) => {
      for (let round = 0; round < 3; round += 1) {
        const one = await deployed(moto, prometheus.url, FEW_DAYS);
        let waiting: readonly SQSRecord[] = ids().map((id) => work({ run: { id, now: now() } }));
        for (let tries = 0; waiting.length > 0; tries += 1) {
          expect(tries).toBeLessThan(5);
          const results = await Promise.all(waiting.map(async (each) => ({ each, ...(await invoke(one.env, each)) })));
          waiting = results.filter(({ done }) => !done).map(({ each }) => each);
        }
        await settled(one.store, expected);
        await sentOnce(one.env);
      }
    },
    150_000,
  );
});

describe("S3 and SQS at fault", () => {
  const FAULTS: readonly AwsFault[] = [
    { kind: "error", status: 500, code: "InternalError" },
    { kind: "error", status: 503, code: "SlowDown" },
    { kind: "error", status: 409, code: "ConditionalRequestConflict" },
    { kind: "lost", how: "500" },
    { kind: "lost", how: "reset" },
    { kind: "cut" },
  ];
  const SEED = "at fault";

  test(`every sixth request meets 500, 503, 409, a lost answer or a body that is cut (seed "${SEED}"): in the end all is as it should be`, async () => {
    const random = new Random(SEED);
    const proxy = await startAwsFaults(moto.url);
    const met = new Set<string>();
    try {
      const envs = await Promise.all(
        Array.from({ length: 8 }, async () => {
          const one = await deployed(moto, prometheus.url, { ...FEW_DAYS, AWS_ENDPOINT_URL: proxy.url });
          return { env: one.env, direct: { ...one.env, ...moto.env() } };
        }),
      );
      proxy.set(({ target }) => {
        if (target?.startsWith("AmazonSSM.") === true || random.unit() > 1 / 6) return undefined;
        const fault = random.pick(target === undefined ? FAULTS : FAULTS.filter(({ kind }) => kind !== "cut"));
        met.add(`${target === undefined ? "s3" : "sqs"} ${fault.kind === "error" ? fault.status : fault.kind}`);
        return fault;
      });
      const tries = await sideBySide(
        envs.map(({ env, direct }) => async () => {
          const message = work();
          let count = 1;
          while (!(await invoke(env, message)).done) count += 1;
          await settled(neededStore(lambdaParts(direct)), expected);
          await sentOnce(direct);
          return count;
        }),
      );
      expect(Math.max(...tries)).toBeLessThan(10);
      expect([...met]).toEqual(expect.arrayContaining(["s3 500", "s3 503", "s3 409", "s3 cut", "s3 lost"]));
    } finally {
      await proxy.stop();
    }
  }, 180_000);
});
