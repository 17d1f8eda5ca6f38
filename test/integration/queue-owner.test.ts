// Who may run gridmeter as whom: real users, and the real python-dirq of the queue's owner.
import { execFile, spawnSync } from "node:child_process";
import fs from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { makeVictim } from "../support/hostile-files.ts";
import { bundledCli } from "../support/run-cli.ts";
import { bundledScript, scratchDirectory } from "../support/store-script.ts";

const DIRQ_TOOL = fileURLToPath(new URL("../support/dirq-tool.py", import.meta.url));
const isRoot = process.getuid?.() === 0;
const SELF = process.getuid?.() ?? 0;
/** ssmsend's user where the tests run as root; else the one that runs them. */
const APEL = isRoot ? 65534 : SELF;
const APEL_GROUP = isRoot ? 65534 : (process.getgid?.() ?? 0);
const SITE = 54321;
const OTHERS = 54322;

let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let putter: string;
let program: readonly string[];
let folder: string;
let folders = 0;
beforeAll(async () => {
  scratch = await scratchDirectory();
  fs.chmodSync(scratch.path, 0o755);
  putter = bundledScript("queue-putter.ts");
  fs.chmodSync(dirname(putter), 0o755);
  program = bundledCli(scratch.path);
}, 60_000);
afterAll(() => scratch.remove());
beforeEach(() => {
  folder = join(scratch.path, `${(folders += 1)}`);
  fs.mkdirSync(folder);
});

type User = {
  readonly uid: number;
  readonly gid: number;
  readonly groups?: readonly number[];
  readonly umask?: string;
};

/** A command as another user, or as it is where that is the one that runs the tests. */
function as({ uid, gid, groups = [], umask = "022" }: User, ...command: string[]): [string, string[]] {
  const sets = groups.length === 0 ? ["--clear-groups"] : ["--groups", groups.join()];
  const switched = uid === SELF ? [] : ["setpriv", `--reuid=${uid}`, `--regid=${gid}`, ...sets];
  return ["sh", ["-c", `umask ${umask}; exec "$@"`, "sh", ...switched, ...command]];
}

const outcome = z.object({
  result: z.object({ status: z.string(), names: z.array(z.string()).optional() }).optional(),
  error: z.object({ code: z.string(), message: z.string() }).optional(),
  warnings: z.array(z.string()),
});

async function put(user: User, body: string, kind = "dirq"): Promise<z.infer<typeof outcome>> {
  const [file, args] = as(user, process.execPath, putter, join(folder, "ledger"), join(folder, "queue"), kind, body);
  const { stdout } = await promisify(execFile)(file, args, { cwd: folder });
  return outcome.parse(JSON.parse(stdout));
}

/** The real python-dirq as ssmsend's user. */
function ssmsend(action: "read" | "lock" | "send", ...names: string[]): unknown {
  const command = as(
    { uid: APEL, gid: APEL_GROUP },
    "/usr/bin/python3",
    DIRQ_TOOL,
    action,
    join(folder, "queue"),
    ...names,
  );
  const run = spawnSync(...command, { cwd: "/", encoding: "utf8" });
  if (run.status !== 0) throw new Error(run.stderr);
  return JSON.parse(run.stdout);
}

type Entry = { readonly name: string; readonly uid: number; readonly gid: number; readonly mode: string };

function entriesOf(name: "queue" | "ledger"): readonly Entry[] {
  const root = join(folder, name);
  return fs.readdirSync(root, { recursive: true }).map((entry) => {
    const { uid, gid, mode } = fs.lstatSync(join(root, String(entry)));
    return { name: String(entry), uid, gid, mode: (mode & 0o7777).toString(8) };
  });
}

function makeRoot(name: "queue" | "ledger", uid: number, gid: number, mode: number): void {
  fs.mkdirSync(join(folder, name));
  if (isRoot) fs.chownSync(join(folder, name), uid, gid);
  fs.chmodSync(join(folder, name), mode);
}

/** ssmsend sends what gridmeter put there, and gridmeter replaces what ssmsend did not send. */
async function goesThrough(user: User): Promise<void> {
  const first = await put(user, "1\n");
  expect(first).toMatchObject({ result: { status: "added" }, warnings: [] });
  expect(ssmsend("read")).toEqual(["1\n"]);
  expect((await put(user, "2\n")).result?.status).toBe("added");
  const { result } = await put(user, "3\n");
  expect(ssmsend("read")).toEqual(["3\n"]);
  const [name = ""] = result?.names ?? [];
  expect(ssmsend("lock", name)).toEqual([true]);
  expect((await put(user, "4\n")).result).toEqual({ status: "busy" });
  ssmsend("send", name);
  expect((await put(user, "5\n")).result?.status).toBe("added");
  expect(ssmsend("read")).toEqual(["5\n"]);
}

describe("the queue's owner", () => {
  test.each(["022", "002"])("writes as ever: its umask decides (%s)", async (umask) => {
    makeRoot("queue", APEL, APEL_GROUP, 0o755);
    makeRoot("ledger", APEL, APEL_GROUP, 0o755);
    await goesThrough({ uid: APEL, gid: APEL_GROUP, umask });
    const [folderMode, fileMode] = umask === "022" ? ["755", "644"] : ["775", "664"];
    for (const { name, ...entry } of entriesOf("queue"))
      expect(entry).toEqual({ uid: APEL, gid: APEL_GROUP, mode: /[0-9a-f]{14}/.test(name) ? fileMode : folderMode });
  });

  test.each(["000", "022", "077"])("keeps the ledger to itself, whatever the umask (%s)", async (umask) => {
    makeRoot("queue", APEL, APEL_GROUP, 0o755);
    makeRoot("ledger", APEL, APEL_GROUP, 0o755);
    await put({ uid: APEL, gid: APEL_GROUP, umask }, "1\n");
    const entries = entriesOf("ledger");
    expect(entries.length).toBeGreaterThanOrEqual(4);
    for (const { name, mode } of entries) expect([name, mode]).toEqual([name, name.includes(".v0") ? "600" : "700"]);
  });
});

describe.runIf(isRoot)("root", () => {
  const ROOT = { uid: 0, gid: 0 };

  test.each(["022", "077", "000"])("gives all that it makes to the queue's owner (umask %s)", async (umask) => {
    makeRoot("queue", APEL, APEL_GROUP, 0o755);
    makeRoot("ledger", SITE, SITE, 0o700);
    await goesThrough({ ...ROOT, umask });
    for (const entry of entriesOf("queue")) expect(entry).toMatchObject({ uid: APEL, gid: APEL_GROUP });
    const entries = entriesOf("ledger");
    expect(entries.length).toBeGreaterThanOrEqual(4);
    for (const entry of entries)
      expect(entry).toMatchObject({ uid: SITE, gid: SITE, mode: entry.name.includes(".v0") ? "600" : "700" });
  });

  test("makes a queue that is missing for the owner of the folder above", async () => {
    fs.chownSync(folder, APEL, APEL_GROUP);
    await goesThrough(ROOT);
    expect(fs.statSync(join(folder, "queue"))).toMatchObject({ uid: APEL, gid: APEL_GROUP });
  });

  test("mends folders that an older gridmeter of root's left in the queue", async () => {
    makeRoot("queue", APEL, APEL_GROUP, 0o755);
    fs.mkdirSync(join(folder, "queue", ".gridmeter"));
    await goesThrough(ROOT);
    expect(fs.statSync(join(folder, "queue", ".gridmeter")).uid).toBe(APEL);
  });

  test("in its own queue that ssmsend's group shares, shares with the group", async () => {
    makeRoot("queue", 0, APEL_GROUP, 0o2770);
    await goesThrough({ ...ROOT, umask: "077" });
    for (const entry of entriesOf("queue")) expect(entry).toMatchObject({ uid: 0, gid: APEL_GROUP });
  });

  test("in a plain directory too", async () => {
    makeRoot("queue", APEL, APEL_GROUP, 0o755);
    expect((await put(ROOT, "1\n", "dir")).result?.status).toBe("added");
    for (const entry of entriesOf("queue")) expect(entry).toMatchObject({ uid: APEL, gid: APEL_GROUP });
  });

  test("neither reads, clears away nor owns what a link in nobody's queue points to", async () => {
    makeRoot("queue", APEL, APEL_GROUP, 0o755);
    makeRoot("ledger", APEL, APEL_GROUP, 0o755);
    const victim = makeVictim(join(folder, "victim"));
    const before = fs.statSync(victim.folder).ctimeMs;
    const links = [".gridmeter", "67748580", "queue-is-not-this"].map((name) => join(folder, "queue", name));
    for (const link of [...links, join(folder, "ledger", ".tmp")]) fs.symlinkSync(victim.folder, link);
    fs.mkdirSync(join(folder, "queue", "67748584"));
    fs.symlinkSync(victim.secret, join(folder, "queue", "67748584", "67748584000001"));
    const { result, warnings } = await put(ROOT, "1\n");
    expect(result?.status).toBe("added");
    expect(warnings).toHaveLength(4);
    expect(warnings.join()).not.toContain("root:");
    expect(victim.unharmed()).toBe(true);
    expect(fs.statSync(victim.folder).ctimeMs).toBe(before);
    expect(ssmsend("read")).toEqual(["1\n"]);
  });

  test("leaves a folder of a third user alone, with what is in it", async () => {
    makeRoot("queue", APEL, APEL_GROUP, 0o755);
    const theirs = join(folder, "queue", "67748580");
    fs.mkdirSync(theirs);
    fs.writeFileSync(join(theirs, "67748580000001"), "theirs\n");
    fs.chownSync(theirs, OTHERS, OTHERS);
    const { result, warnings } = await put(ROOT, "1\n");
    expect(result?.status).toBe("added");
    expect(warnings).toEqual([
      expect.stringContaining(`67748580 is a folder of another user (${OTHERS}). It is left alone`),
    ]);
    expect(fs.readFileSync(join(theirs, "67748580000001"), "utf8")).toBe("theirs\n");
  });
});

describe.runIf(isRoot)("another user", () => {
  const member = { uid: SITE, gid: SITE, groups: [APEL_GROUP] };

  test.each(["022", "077", "000"])("of the queue's group shares all that it makes (umask %s)", async (umask) => {
    makeRoot("queue", APEL, APEL_GROUP, 0o2770);
    fs.chmodSync(folder, 0o777);
    await goesThrough({ ...member, umask });
    for (const { name, ...entry } of entriesOf("queue"))
      expect(entry).toEqual({ uid: SITE, gid: APEL_GROUP, mode: /[0-9a-f]{14}/.test(name) ? "660" : "2770" });
  });

  test("of its group, without the setgid bit, too; and the owner and root go on beside it", async () => {
    makeRoot("queue", APEL, APEL_GROUP, 0o770);
    makeRoot("ledger", APEL, APEL_GROUP, 0o777);
    for (const user of [member, { uid: APEL, gid: APEL_GROUP, umask: "002" }, { uid: 0, gid: 0 }]) {
      const { result, error } = await put(user, `${user.uid}\n`);
      if (error?.code !== "store_failed" || !error.message.includes("ledger")) expect(result?.status).toBe("added");
      expect(ssmsend("read")).toEqual([`${user.uid}\n`]);
    }
  });

  test.each([
    ["not of the group", 0o2770, { uid: OTHERS, gid: OTHERS }],
    ["not of the group, in a folder open to all", 0o777, { uid: OTHERS, gid: OTHERS }],
    ["of a group that may not write", 0o2755, member],
  ])("%s is refused: nothing is written", async (_name, mode, user) => {
    makeRoot("queue", APEL, APEL_GROUP, mode);
    fs.chmodSync(folder, 0o777);
    const { error } = await put(user, "1\n");
    expect(error).toMatchObject({ code: "queue_owner", message: expect.stringContaining("chmod g+rwxs") });
    expect(fs.readdirSync(join(folder, "queue"))).toEqual([]);
  });

  test("is refused by the command line before anything is published: exit code 2", () => {
    makeRoot("queue", APEL, APEL_GROUP, 0o755);
    fs.chmodSync(folder, 0o777);
    const record =
      "APEL-summary-job-message: v0.2\nSite: S\nMonth: 1\nYear: 2025\nVO: a\nSubmitHost: h\nServiceLevelType: si2k\nServiceLevel: 2500\n" +
      "WallDuration: 1\nCpuDuration: 1\nNumberOfJobs: 1\nProcessors: 0\nNodeCount: 0\n%%\n";
    fs.writeFileSync(join(folder, "x.apel"), record);
    const settings =
      "PROMETHEUS_SERVER=http://127.0.0.1:1\nNAMESPACE=n\nSITE_NAME=S\nSUBMIT_HOST=h\nVO_NAME=v\nBENCHMARK_VALUE=10\n";
    fs.writeFileSync(join(folder, "env"), settings);
    const places = ["--output", `dirq:${join(folder, "queue")}`, "--ledger", join(folder, "ledger")];
    const runs = [
      ["manual", "x.apel", ...places],
      ["account", "-e", "env", ...places],
      ["spool", "--source", "s3://bucket/prefix", "--once", ...places.slice(0, 2)],
    ];
    for (const args of runs) {
      const [file, all] = as({ uid: OTHERS, gid: OTHERS }, ...program, ...args);
      const run = spawnSync(file, all, {
        cwd: folder,
        encoding: "utf8",
        env: { PATH: process.env["PATH"], HOME: folder },
      });
      expect([args[0], run.status]).toEqual([args[0], 2]);
      expect(run.stderr).toContain(`queue_owner: The queue ${join(folder, "queue")} belongs to the user ${APEL}`);
      expect(fs.existsSync(join(folder, "ledger"))).toBe(false);
      expect(fs.readdirSync(join(folder, "queue"))).toEqual([]);
    }
  });

  test("makes no queue in another user's folder", async () => {
    fs.chownSync(folder, APEL, APEL_GROUP);
    fs.chmodSync(folder, 0o2777);
    const { error } = await put(member, "1\n");
    expect(error).toMatchObject({ code: "queue_owner", message: expect.stringContaining("There is no queue") });
    expect(fs.readdirSync(folder)).toEqual([]);
  });

  test("a file that cannot be read is set aside if it is not the owner's", async () => {
    makeRoot("queue", APEL, APEL_GROUP, 0o755);
    makeRoot("ledger", APEL, APEL_GROUP, 0o755);
    const path = join(folder, "queue", "67748580");
    fs.mkdirSync(path);
    fs.chownSync(path, APEL, APEL_GROUP);
    fs.writeFileSync(join(path, "67748580000001"), "root's\n", { mode: 0o600 });
    const { result, warnings } = await put({ uid: APEL, gid: APEL_GROUP }, "1\n");
    expect(result?.status).toBe("added");
    expect(warnings).toEqual([
      expect.stringContaining("a file of another user (0) that cannot be read. It is set aside"),
    ]);
    expect(ssmsend("read")).toEqual(["1\n"]);
  });
});
