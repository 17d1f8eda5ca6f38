// The files for ssmsend's host: what docs/ssmsend-host.md has root install, below a folder instead of /, and then the cron job's
// and the unit's own command lines, run as the user that they name.
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { bundle } from "../../scripts/build.ts";
import { ensureTools } from "../../scripts/setup.ts";
import { demoCluster, simulate } from "../simulator/index.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { recordsIn } from "../support/run-cli.ts";
import { serveSeries } from "../support/serve-series.ts";
import { scratchDirectory } from "../support/store-script.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");
const isRoot = process.getuid?.() === 0;
/** The user `apel`, which this machine does not have, and its group. Without root all is this user's own. */
const APEL = 10_321;

/** The lines of the document's blocks that install something. */
const INSTALLS = [...read("docs/ssmsend-host.md").matchAll(/^ *(install .*?)(?: {2,}#.*)?$/gm)].map(
  ([, line = ""]) => line,
);

let server: PrometheusServer;
let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let root: string;

const here = (text: string): string => text.replaceAll(/(?<![\w.])\/(?=etc\/|var\/|usr\/local\/)/g, `${root}/`);

beforeAll(async () => {
  scratch = await scratchDirectory();
  chmodSync(scratch.path, 0o755);
  const now = Math.floor(Date.now() / 1000);
  server = await serveSeries(simulate(demoCluster({ now, namespace: "atlas-jobs", rounds: 1, scrapeInterval: 120 })));
  await bundle();
}, 180_000);

beforeEach(() => {
  root = mkdtempSync(join(scratch.path, "host-"));
  chmodSync(root, 0o755);
  // What a host has before: these folders, ssmsend's queue, and Node.
  for (const path of ["etc/systemd/system", "etc/cron.d", "etc/logrotate.d", "var/lib", "var/log", "usr/local/bin"])
    mkdirSync(join(root, path), { recursive: true });
  mkdirSync(join(root, "var/spool/apel"), { recursive: true });
  if (isRoot) spawnSync("chown", [`${APEL}:${APEL}`, join(root, "var/spool/apel")]);
  spawnSync("ln", ["-s", process.execPath, join(root, "usr/local/bin/node")]);
  for (const line of INSTALLS) {
    const mapped = here(line).replaceAll(/-([og]) apel/g, isRoot ? `-$1 ${APEL}` : "");
    const command = isRoot ? mapped : mapped.replaceAll(/-[og] root/g, "");
    const { status, stderr } = spawnSync("sh", ["-c", command], { cwd: ROOT, encoding: "utf8" });
    expect([status, stderr], line).toEqual([0, ""]);
  }
  // Every file names paths of a real host.
  for (const path of [
    "etc/gridmeter/account.env",
    "etc/cron.d/gridmeter",
    "etc/systemd/system/gridmeter-account.service",
  ]) {
    const file = join(root, path);
    const text = here(readFileSync(file, "utf8")).replace("https://prometheus.example.org:9090", server.url);
    writeFileSync(file, text);
  }
});

afterAll(async () => {
  await server.stop();
  await scratch.remove();
});

const asApel = (program: string, args: readonly string[], env: Record<string, string>) =>
  spawnSync(program, args, {
    cwd: "/",
    env: { HOME: "/", ...env },
    encoding: "utf8",
    ...(isRoot ? { uid: APEL, gid: APEL } : {}),
  });

/** The queue has what was counted, and the ledger is nobody else's. */
async function expectPublished(): Promise<void> {
  const records = await recordsIn(join(root, "var/spool/apel/outgoing"), Date.now() / 1000);
  expect(records.map(({ kind }) => kind)).toEqual(expect.arrayContaining(["summary", "sync"]));
  const ledger = statSync(join(root, "var/lib/gridmeter/ledger"));
  expect(ledger.mode & 0o777).toBe(0o700);
  if (isRoot) expect(ledger.uid).toBe(APEL);
}

test("are all installed by the document's lines, with rights for the user that they name alone", () => {
  const modes = Object.fromEntries(
    [
      "usr/local/bin/gridmeter",
      "etc/gridmeter/account.env",
      "var/lib/gridmeter",
      "var/log/gridmeter",
      "etc/cron.d/gridmeter",
      "etc/logrotate.d/gridmeter",
      "etc/systemd/system/gridmeter-account.timer",
    ].map((path) => [path, (statSync(join(root, path)).mode & 0o777).toString(8)]),
  );
  expect(modes).toEqual({
    "usr/local/bin/gridmeter": "755",
    "etc/gridmeter/account.env": "640",
    "var/lib/gridmeter": "700",
    "var/log/gridmeter": "750",
    "etc/cron.d/gridmeter": "644",
    "etc/logrotate.d/gridmeter": "644",
    "etc/systemd/system/gridmeter-account.timer": "644",
  });
});

describe("the cron job", () => {
  const lines = read("deploy/cron/gridmeter").split("\n");
  const [, user = "", command = ""] = /^[\d*]+ [\d*]+ \* \* \* (\S+) (.*)$/m.exec(lines.join("\n")) ?? [];

  /** As cron does it: sh, the file's variables, and the user's home. */
  const run = () => {
    const path = /^PATH=(.*)$/m.exec(readFileSync(join(root, "etc/cron.d/gridmeter"), "utf8"))?.[1] ?? "";
    // cron knows no other variable, and takes % for a line feed.
    expect(command).not.toContain("%");
    return asApel("/bin/sh", ["-c", here(command)], {
      PATH: path,
      SHELL: "/bin/sh",
    });
  };

  test("counts and publishes, logs into its folder, and mails nothing", async () => {
    expect(user).toBe("apel");
    const { stdout, stderr, status } = run();
    const log = readFileSync(join(root, "var/log/gridmeter/account.log"), "utf8");
    expect([status, stdout, stderr], log).toEqual([0, "", ""]);
    expect(log).toMatch(/published \(new\)/);
    await expectPublished();
  });

  test("mails one line where a run does not end with 0, and says where the log is", () => {
    const env = join(root, "etc/gridmeter/account.env");
    writeFileSync(env, readFileSync(env, "utf8").replace(/^SITE_NAME=.*$/m, ""));
    const { stdout } = run();
    expect(stdout).toBe(`gridmeter account ended with exit code 2: see ${root}/var/log/gridmeter/account.log\n`);
    expect(readFileSync(join(root, "var/log/gridmeter/account.log"), "utf8")).toContain("SITE_NAME");
  });

  test("has a log that logrotate rotates", () => {
    const file = join(root, "logrotate");
    const log = join(root, "var/log/gridmeter/account.log");
    writeFileSync(log, "a run\n");
    if (isRoot) spawnSync("chown", [`${APEL}:${APEL}`, log]);
    const text = here(readFileSync(join(root, "etc/logrotate.d/gridmeter"), "utf8"));
    // This machine has no user apel; rotating as another user is what `su` is for.
    writeFileSync(file, text.replace(/^ *su apel apel\n/m, ""), { mode: 0o644 });
    const { status, stderr } = spawnSync(
      ensureTools(["logrotate"]).get("logrotate") ?? "",
      ["--force", "--state", join(root, "state"), file],
      {
        encoding: "utf8",
      },
    );
    expect([status, stderr]).toEqual([0, ""]);
    expect(readdirSync(dirname(log))).toEqual(["account.log.1"]);
  });
});

describe("the systemd unit", () => {
  const unit = read("deploy/systemd/gridmeter-account.service");

  test("runs as the same user, makes the ledger's folder, and may write on it and the queue alone", () => {
    expect(unit).toMatch(/^User=apel$/m);
    expect(unit).toMatch(/^StateDirectory=gridmeter$/m);
    expect(unit).toMatch(/^ReadWritePaths=\/var\/spool\/apel\/outgoing( |$)/m);
    const settings = read("deploy/account.env.example");
    expect(settings).toContain("OUTPUT_PATH=dirq:/var/spool/apel/outgoing");
    expect(settings).toContain("LEDGER_PATH=/var/lib/gridmeter/ledger");
  });

  test("has a command line that counts and publishes", async () => {
    const installed = readFileSync(join(root, "etc/systemd/system/gridmeter-account.service"), "utf8");
    const [program = "", ...args] = (/^ExecStart=(.*)$/m.exec(installed)?.[1] ?? "").split(" ");
    const { status, stdout, stderr } = asApel(program, args, { PATH: join(root, "usr/local/bin") });
    expect(status, stderr).toBe(0);
    expect(stdout).toMatch(/published \(new\)/);
    await expectPublished();
  });

  test("is one that systemd takes, and its timer too, where there is systemd to ask", () => {
    const verify = "/usr/bin/systemd-analyze";
    if (!existsSync(verify)) return;
    const file = join(root, "gridmeter-account.service");
    writeFileSync(file, unit.replace(/^ExecStart=\S+/m, "ExecStart=/bin/true"));
    writeFileSync(join(root, "gridmeter-account.timer"), read("deploy/systemd/gridmeter-account.timer"));
    const { stdout, stderr } = spawnSync(verify, ["verify", file, join(root, "gridmeter-account.timer")], {
      encoding: "utf8",
    });
    expect(`${stdout}${stderr}`).not.toContain("gridmeter-account");
  });
});
