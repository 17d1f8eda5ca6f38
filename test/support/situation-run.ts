import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { vi } from "vitest";
import { check } from "../../bin/commands/check.ts";
import { readMessage } from "../../lib/accounting/apel/read.ts";
import type { ApelRecord } from "../../lib/accounting/apel/record.ts";
import { simulate } from "../simulator/index.ts";
import type { Series } from "../simulator/index.ts";
import { BATCH } from "../simulator/situations/index.ts";
import type { Published, Right, Run, Situation } from "../simulator/situations/index.ts";
import type { PrometheusServer } from "./prometheus-server.ts";
import { bundledCli, leastSettings, runCli } from "./run-cli.ts";
import type { CliRun } from "./run-cli.ts";
import { serveSeries } from "./serve-series.ts";
import { startWatchProxy } from "./watch-proxy.ts";
import type { WatchProxy } from "./watch-proxy.ts";

/** What a run came to, in the terms of `Right`. */
export type Outcome = {
  readonly exit: number | null;
  readonly codes: readonly string[];
  readonly published: Readonly<Record<string, Published>>;
  readonly vos: Readonly<Record<string, number>>;
  readonly leftOut: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly said: string;
  readonly askedDays: number | undefined;
};

const idOf = ({ name }: Situation): string => createHash("sha256").update(name).digest("hex").slice(0, 8);
const replicaOf = (id: string): string => `${id}--replica`;

const labelled = (series: readonly Series[], cluster: string): Series[] =>
  series.map((one) => ({ ...one, labels: { ...one.labels, cluster } }));

function seriesOf(situation: Situation): Series[] {
  const { cluster, held = (shown) => shown, replica } = situation;
  const shown = simulate(cluster);
  const id = idOf(situation);
  return [...labelled(held(shown), id), ...(replica === undefined ? [] : labelled(replica.held(shown), replicaOf(id)))];
}

/** One situation at a time, so that not all of them are in memory. */
function* seriesOfAll(situations: readonly Situation[]): Generator<Series> {
  for (const situation of situations) yield* seriesOf(situation);
}

/** Situations side by side in one real Prometheus, each under its own label `cluster`, and the command line to run on them. */
export class SituationRuns {
  readonly #server: PrometheusServer;
  readonly #folder: string;
  readonly #program: readonly string[];
  readonly #proxies: WatchProxy[] = [];

  private constructor(server: PrometheusServer, folder: string) {
    this.#server = server;
    this.#folder = folder;
    this.#program = bundledCli(folder);
  }

  static async open(situations: readonly Situation[], folder: string): Promise<SituationRuns> {
    const server = await serveSeries(seriesOfAll(situations));
    return new SituationRuns(server, folder);
  }

  async close(): Promise<void> {
    await Promise.all([this.#server.stop(), ...this.#proxies.map((proxy) => proxy.stop())]);
  }

  get url(): string {
    return this.#server.url;
  }

  /** One run of `gridmeter account`. */
  async account(situation: Situation, run: Run): Promise<Outcome> {
    const { cwd, env } = await this.#prepare(situation, "account", run);
    const queue = join(cwd, "queue");
    const args = ["account", ...periodOf(situation), "--json", "--ledger", join(cwd, "ledger")];
    const ended = await runCli([...args, "--output", `dirq:${queue}`, ...(run.args ?? [])], {
      cwd,
      env,
      program: this.#program,
    });
    return outcomeOf(ended, await recordsBelow(queue));
  }

  /**
   * What `gridmeter check` says before the first run, and its exit code. In this process, which has all code at hand: a
   * process of its own for each would take as long as everything else here.
   */
  async check(situation: Situation): Promise<{ readonly code: number; readonly said: string }> {
    const { cwd, env } = await this.#prepare(situation, "check", situation.runs[0]);
    const [start, end] = bounds(situation);
    let said = "";
    const hear = (text: string | Uint8Array): boolean => {
      said += text.toString();
      return true;
    };
    const heard = [
      vi.spyOn(process.stdout, "write").mockImplementation(hear),
      vi.spyOn(process.stderr, "write").mockImplementation(hear),
    ];
    for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
    try {
      const code = await check({ ledger: join(cwd, "ledger"), mode: "gap", start, end });
      return { code, said };
    } finally {
      vi.unstubAllEnvs();
      for (const each of heard) each.mockRestore();
    }
  }

  async #prepare(
    situation: Situation,
    command: string,
    run: Run,
  ): Promise<{ cwd: string; env: Record<string, string> }> {
    const id = idOf(situation);
    const cwd = join(this.#folder, id, command);
    await mkdir(cwd, { recursive: true });
    const { replica } = situation;
    const url = replica === undefined ? this.#server.url : await this.#behindOneAddress(id, replica.asked);
    const settings = { NAMESPACE: BATCH, PROMETHEUS_LABELS: `cluster="${id}"`, ...situation.env, ...run.env };
    const env: Record<string, string> = {
      ...leastSettings(url, settings),
      NODE_COMPILE_CACHE: join(this.#folder, "compiled"),
    };
    if (situation.tenants !== undefined) {
      const file = join(cwd, "tenants.json");
      const text = JSON.stringify({ tenants: situation.tenants })
        .replaceAll("@LOCALHOST@", url.replace("127.0.0.1", "localhost"))
        .replaceAll("@CLUSTER@", id);
      await writeFile(file, text);
      env["TENANTS_FILE"] = file;
    }
    return { cwd, env };
  }

  /** One address before both replicas. */
  async #behindOneAddress(id: string, asked: RegExp | "in turn"): Promise<string> {
    let questions = 0;
    const proxy = await startWatchProxy(this.#server.url, (form) => {
      const query = form.get("query");
      if (query === null) return;
      questions += 1;
      const second = asked === "in turn" ? questions % 2 === 0 : asked.test(query);
      if (second) form.set("query", query.replaceAll(`cluster="${id}"`, `cluster="${replicaOf(id)}"`));
    });
    this.#proxies.push(proxy);
    return proxy.url;
  }
}

function bounds({ months = ["2025-01", "2025-02"] }: Situation): [start: string, end: string] {
  const [start, end] = months.map((month) => `${month}-01T00:00:00Z`);
  return [start ?? "", end ?? ""];
}

function periodOf(situation: Situation): string[] {
  const [start, end] = bounds(situation);
  return ["--mode", "gap", "--start", start, "--end", end];
}

/** The records of all messages in a queue. */
async function recordsBelow(queue: string): Promise<ApelRecord[]> {
  const entries = await readdir(queue, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = entries.filter((entry) => entry.isFile() && /^[0-9a-f]{14}$/.test(entry.name));
  const bodies = await Promise.all(files.map((entry) => readFile(join(entry.parentPath, entry.name), "utf8")));
  return bodies.flatMap((body) => readMessage(body, Date.now() / 1000));
}

type Summary = {
  readonly months?: readonly {
    readonly month: string;
    readonly tenants: readonly { readonly leftOut: Readonly<Record<string, number>> }[];
  }[];
  readonly asked?: { readonly days: number };
};

function outcomeOf({ code, stdout, stderr }: CliRun, records: readonly ApelRecord[]): Outcome {
  const summary = JSON.parse(stdout === "" ? "{}" : stdout) as Summary;
  const published: Record<string, Published> = {};
  const vos: Record<string, number> = {};
  for (const record of records) {
    if (record.kind === "individual") continue;
    const month = `${record.year}-${String(record.month).padStart(2, "0")}`;
    const held = published[month] ?? { jobs: 0, coreHours: 0 };
    published[month] = held;
    if (record.kind === "sync") continue;
    const coreHours = held.coreHours + record.wallDuration / 3600;
    published[month] = { jobs: held.jobs + record.numberOfJobs, coreHours };
    vos[record.vo] = (vos[record.vo] ?? 0) + record.numberOfJobs;
  }
  const leftOut: Record<string, Record<string, number>> = {};
  for (const { month, tenants } of summary.months ?? []) {
    const held = (leftOut[month] ??= {});
    for (const [reason, count] of tenants.flatMap((tenant) => Object.entries(tenant.leftOut)))
      held[reason] = (held[reason] ?? 0) + count;
  }
  return {
    exit: code,
    codes: [...new Set([...stdout.matchAll(/"code":"(\w+)"/g)].map(([, found]) => found ?? ""))],
    published,
    vos,
    leftOut,
    said: stderr,
    askedDays: summary.asked?.days,
  };
}

/** What of an outcome is not as it must be; nothing if all is. */
export function faultsOf(outcome: Outcome, right: Right): string[] {
  const faults: string[] = [];
  const must = (what: string, found: unknown, wanted: unknown): void => {
    const [a, b] = [JSON.stringify(found), JSON.stringify(wanted)];
    if (a !== b) faults.push(`${what}: ${a}, not ${b}`);
  };
  must("exit code", outcome.exit, right.exit);
  const { codes = [] } = right;
  if (outcome.codes.some((code) => !codes.includes(code)) || (codes.length > 0 && outcome.codes.length === 0))
    faults.push(`error codes: ${outcome.codes.join(", ") || "none"}, not ${codes.join(" or ") || "none"}`);
  for (const [month, wanted] of Object.entries(right.published))
    must(`published of ${month}`, outcome.published[month] ?? "nothing", wanted);
  if (right.vos !== undefined) must("jobs by VO", sorted(outcome.vos), sorted(right.vos));
  for (const [month, reasons] of Object.entries(right.leftOut ?? {}))
    for (const [reason, count] of Object.entries(reasons))
      must(`left out of ${month} as ${reason}`, outcome.leftOut[month]?.[reason] ?? 0, count);
  for (const pattern of right.says ?? []) if (!pattern.test(outcome.said)) faults.push(`does not say ${pattern}`);
  for (const pattern of right.saysOnce ?? []) must(`lines that say ${pattern}`, lines(outcome, pattern).length, 1);
  for (const pattern of right.silent ?? []) for (const line of lines(outcome, pattern)) faults.push(`says: ${line}`);
  if (right.askedDays !== undefined) must("days asked for", outcome.askedDays, right.askedDays);
  return faults;
}

const lines = ({ said }: Outcome, pattern: RegExp): string[] => said.split("\n").filter((line) => pattern.test(line));

const sorted = (counts: Readonly<Record<string, number>>): [string, number][] =>
  Object.entries(counts).sort(([a], [b]) => (a < b ? -1 : 1));
