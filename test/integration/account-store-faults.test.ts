// Directories that cannot be written and ledger files that are damaged: the real command line on real file systems.
import { spawnSync } from "node:child_process";
import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { SummaryRecord } from "../../lib/accounting/apel/record.ts";
import { MIXED, kindsCluster, simulate, truth } from "../simulator/index.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { bundledCli, gap, leastSettings, messagesIn, recordsIn, resultOf, runCli } from "../support/run-cli.ts";
import type { CliRun } from "../support/run-cli.ts";
import { serveSeries } from "../support/serve-series.ts";
import { scratchDirectory } from "../support/store-script.ts";

const REFUSE_LINKS = fileURLToPath(new URL("../support/refuse-links.py", import.meta.url));
const cluster = kindsCluster({ kinds: ["plain", "several-containers"], scrapeInterval: 240 });
const jobs = truth(cluster, "2025-01").get(MIXED)?.jobs ?? 0;
let server: PrometheusServer;
let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let program: readonly string[];
let cwd: string;
let folders = 0;

beforeAll(async () => {
  scratch = await scratchDirectory();
  program = bundledCli(scratch.path);
  server = await serveSeries(simulate(cluster));
}, 120_000);

beforeEach(async () => {
  cwd = join(scratch.path, `${(folders += 1)}`);
  await mkdir(cwd);
});

afterAll(async () => {
  await server.stop();
  await scratch.remove();
});

const ledger = (): string => join(cwd, "gridmeter-data/ledger");
const queue = (): string => join(cwd, "gridmeter-data/outgoing");

/** `gridmeter account --json` over January in `cwd`, with something before it that makes its file system a bad one. */
function account(args: readonly string[] = [], before: readonly string[] = []): Promise<CliRun> {
  return runCli(["account", ...gap("2025-01", "2025-02"), "--json", ...args], {
    cwd,
    env: leastSettings(server.url),
    program: [...before, ...program],
  });
}

/** A mount namespace of its own, so that nothing stays mounted. */
const UNSHARED = ["unshare", process.getuid?.() === 0 ? "-m" : "-rm"];

/** A tmpfs with these options at `place`, then `prepare`, then the program. */
function onTmpfs(place: string, options: string, prepare = "true"): readonly string[] {
  const script = `mount -t tmpfs -o ${options} none "${place}" && cd "${cwd}" && { ${prepare}; } && exec "$@"`;
  return [...UNSHARED, "sh", "-c", script, "sh"];
}

const canMount = spawnSync("unshare", [...UNSHARED.slice(1), "mount", "-t", "tmpfs", "none", "/mnt"]);
const mountable = canMount.status === 0;
/** What the tests say of themselves where some cannot run. */
const ifMountable = mountable ? "" : " (read-only and full ones left out: this machine refuses mounts)";

/** Fills the file system of a directory to the last byte. */
const fill = (place: string): string => `dd if=/dev/zero of="${place}/filler" bs=4k 2>/dev/null || true`;

/** Something wrong with a directory: what makes it so before the run, and what the error must say. */
type Fault = {
  readonly name: string;
  readonly prepare: (place: string) => Promise<unknown>;
  readonly before?: (place: string) => readonly string[];
  readonly code: string;
  readonly says: readonly string[];
};

const none = (): Promise<unknown> => Promise.resolve();
const made = (place: string): Promise<unknown> => mkdir(place, { recursive: true });
const onMounts: readonly Fault[] = [
  {
    name: "is read-only",
    prepare: made,
    before: (place) => onTmpfs(place, "ro"),
    code: "store_failed",
    says: ["EROFS", "mounted read-only: mount it writable or name another directory"],
  },
  {
    name: "is full",
    prepare: made,
    before: (place) => onTmpfs(place, "size=64k", fill(place)),
    code: "store_failed",
    says: ["ENOSPC", "free space"],
  },
];
const anywhere: readonly Fault[] = [
  {
    name: "is a file",
    prepare: (place) => mkdir(dirname(place), { recursive: true }).then(() => writeFile(place, "in the way")),
    code: "store_failed",
    says: ["move it away or name another directory"],
  },
  {
    name: "lies below a file",
    prepare: (place) => writeFile(dirname(place), "in the way"),
    code: "store_failed",
    says: ["ENOTDIR", "move it away or name another directory"],
  },
  ...["EPERM", "ENOTSUP"].map((errno) => ({
    name: `allows no hard links (${errno})`,
    prepare: none,
    before: () => ["/usr/bin/python3", REFUSE_LINKS, errno],
    code: "store_no_hard_links",
    says: [errno, "makes no hard links", "a local file system such as ext4 or XFS"],
  })),
];
const faults: readonly Fault[] = mountable ? [...anywhere, ...onMounts] : anywhere;

describe(`the queue's directory${ifMountable}`, () => {
  const noLinks = (fault: Fault): boolean => fault.code === "store_no_hard_links";

  test.each(faults.filter((fault) => !noLinks(fault)))(
    "$name: the figures are shown, the messages wait for the next run",
    async ({ prepare, before, code, says }) => {
      const place = join(cwd, "place/queue");
      await prepare(place);
      const run = await account(["--output", place], before?.(place));
      expect(run.code).toBe(4);
      const { errors, months } = resultOf(run);
      expect(errors.map((error) => error.code)).toEqual([code]);
      for (const text of [...says, "the next run puts them into the queue"]) expect(errors[0]?.message).toContain(text);
      expect(run.stderr).toContain(`${code}: ${errors[0]?.message}`);
      expect(months[0]?.tenants[0]?.jobs).toBe(jobs);
      expect(await messagesIn(place)).toEqual([]);
      const waiting = await messagesIn(ledger());
      expect(waiting.filter((line) => line.startsWith("outgoing/"))).toHaveLength(2);
      expect(waiting.filter((line) => line.startsWith("spooled/"))).toEqual([]);

      const next = await account();
      expect(next.code).toBe(0);
      expect(next.stderr).toContain("2 messages are in dirq:");
      expect(await recordsIn(queue(), Date.now() / 1000)).toMatchObject([
        { kind: "summary", numberOfJobs: jobs },
        { kind: "sync", numberOfJobs: jobs },
      ]);
    },
  );

  test.each(faults)("$name, and there is no ledger: it says that nothing was published", async (fault) => {
    const place = join(cwd, "place/queue");
    await fault.prepare(place);
    const run = await account(["--ledger", "none", "--output", place], fault.before?.(place));
    expect(run.code).toBe(4);
    const { errors } = resultOf(run);
    expect(errors.map(({ code }) => code)).toEqual([fault.code]);
    for (const text of [...fault.says, "what is not in the queue was not published"])
      expect(errors[0]?.message).toContain(text);
    expect(await messagesIn(cwd)).toEqual([]);
  });

  test.skipIf(!mountable)("has room for one of two messages only: neither is put in", async () => {
    await made(queue());
    // The queue's own lock takes one page, the first message another.
    const after = `"$@"; code=$?; find "${queue()}" -type f >"${cwd}/found"; exit $code`;
    const script = `mount -t tmpfs -o size=12k none "${queue()}" && cd "${cwd}" && echo x >"${queue()}/filler"; ${after}`;
    const run = await account([], [...UNSHARED, "sh", "-c", script, "sh"]);
    expect(run.code).toBe(4);
    expect(resultOf(run).errors[0]?.message).toContain("ENOSPC");
    expect(await readFile(join(cwd, "found"), "utf8")).toBe(`${queue()}/filler\n`);
  });

  test("of ssmsend's path_type directory needs no hard links", async () => {
    const run = await account(
      ["--ledger", "none", "--output", "dir:plain"],
      ["/usr/bin/python3", REFUSE_LINKS, "EPERM"],
    );
    expect(run.code).toBe(0);
    expect((await readdir(join(cwd, "plain"))).filter((name) => !name.startsWith("."))).toHaveLength(2);
  });
});

describe(`the ledger's directory${ifMountable}`, () => {
  test.each(faults)("$name: nothing is published", async ({ prepare, before, code, says }) => {
    const place = join(cwd, "place/ledger");
    await prepare(place);
    const run = await account(["--ledger", place], before?.(place));
    expect(run.code).toBe(4);
    expect(run.stdout).toContain(`"code":"${code}"`);
    for (const text of [`${code}: `, ...says]) expect(run.stderr).toContain(text);
    expect(await messagesIn(cwd)).toEqual([]);
  });
});

describe("damaged files in the ledger", () => {
  const days = (): string => join(ledger(), "ledger/mixed/2025-01");

  async function newest(folder: string, name: string): Promise<string> {
    const versions = (await readdir(folder)).filter((file) => file.startsWith(`${name}.v`)).sort();
    return join(folder, versions.at(-1) ?? "none");
  }

  test("days are set aside, counted again, and said so", async () => {
    expect((await account()).code).toBe(0);
    const before = await recordsIn(queue(), Date.now() / 1000);
    const good = await readFile(await newest(days(), "2025-01-05.json"), "utf8");
    const bad: [day: string, body: string][] = [
      ["2025-01-03", ""],
      ["2025-01-04", "\u0000\u0000\u0000\u0000"],
      ["2025-01-05", good.slice(0, -20)],
      ["2025-01-06", good.replace('"groups":', '"grouse":')],
      ["2025-01-07", good.replace(/"gaps":\[[^\]]*\]/, '"gaps":[{"from":-1,"to":"x"}]')],
    ];
    for (const [day, body] of bad) await writeFile(await newest(days(), `${day}.json`), body);

    const run = await account();
    expect(run.code).toBe(0);
    const { damaged, asked, months } = resultOf(run);
    expect(damaged.map(({ key }) => key).sort()).toEqual(bad.map(([day]) => `ledger/mixed/2025-01/${day}.json`));
    expect(asked.days).toBe(bad.length);
    expect(months[0]?.tenants[0]).toMatchObject({ jobs, days: { settled: 31, open: 0 }, error: null });
    expect(months[0]?.units[0]?.status).toBe("unchanged");
    for (const { key, setAside } of damaged) {
      expect(run.stderr).toContain(`${key} was damaged`);
      expect(run.stderr).toContain(`it is set aside as ${setAside} and made again`);
      const kept = await newest(join(ledger(), "damaged"), setAside.slice("damaged/".length));
      expect(await readFile(kept, "utf8")).toBe(bad.find(([day]) => key.includes(day))?.[1]);
    }
    expect(await recordsIn(queue(), Date.now() / 1000)).toEqual(before);

    const again = resultOf(await account());
    expect(again.damaged).toEqual([]);
    expect(again.asked).toEqual({ days: 0, pieces: 0 });
  });

  test("a unit's state: its generations go on where the messages end, and nothing is published twice over", async () => {
    await account();
    const [before] = await recordsIn(queue(), Date.now() / 1000);
    const folder = join(ledger(), "state/2025-01/EXAMPLE-SITE");
    const state = await newest(folder, "k8s.example.org=3A6443=2Fmixed.json");
    await writeFile(state, (await readFile(state, "utf8")).slice(0, 100));
    const run = await account();
    expect(run.code).toBe(0);
    expect(run.stderr).toContain("was damaged");
    expect(resultOf(run).months[0]?.units[0]).toMatchObject({ status: "published", generation: 2 });
    const records = await recordsIn(queue(), Date.now() / 1000);
    const summaries = records.filter((record): record is SummaryRecord => record.kind === "summary");
    expect(summaries).toEqual([before]);
    expect(records.filter(({ kind }) => kind === "sync")).toHaveLength(1);
  });
});
