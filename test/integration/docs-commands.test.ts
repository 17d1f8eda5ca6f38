// The commands of README.md, docs/deploy.md and docs/rights.md, as they stand there, in a fresh clone: a first deployment step by step,
// the release without osls, and removal. moto stands for AWS; what needs a running function is run in deploy.test.ts.
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { CreateBucketCommand } from "@aws-sdk/client-s3";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startMoto } from "../support/moto.ts";
import type { Moto } from "../support/moto.ts";
import { demoCluster, simulate } from "../simulator/index.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { serveSeries } from "../support/serve-series.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const run = promisify(execFile);
/** They want Lambda itself, or would empty the node_modules that the clone shares. */
const ELSEWHERE = /^npx serverless (invoke|logs) --stage|^npm ci$/;

let moto: Moto;
let prometheus: PrometheusServer;
let clone: string;

beforeAll(async () => {
  const cluster = demoCluster({
    now: Math.floor(Date.now() / 1000),
    namespace: "grid",
    rounds: 1,
    scrapeInterval: 120,
  });
  [moto, prometheus, clone] = await Promise.all([
    startMoto(),
    serveSeries(simulate(cluster)),
    mkdtemp(join(tmpdir(), "gridmeter-clone-")),
  ]);
  const { stdout } = await run("git", ["ls-files", "-co", "--exclude-standard", "-z"], { cwd: ROOT });
  for (const file of stdout.split("\0").filter((each) => each !== "" && existsSync(join(ROOT, each)))) {
    await mkdir(dirname(join(clone, file)), { recursive: true });
    await cp(join(ROOT, file), join(clone, file));
  }
  await symlink(join(ROOT, "node_modules"), join(clone, "node_modules"));
  // The port of the demo may be taken on a machine that runs several tests.
  const example = join(clone, ".env.local.example");
  await writeFile(example, (await readFile(example, "utf8")).replace("http://127.0.0.1:19090", prometheus.url));
}, 120_000);
afterAll(async () => {
  await Promise.all([moto.stop(), prometheus.stop()]);
  await rm(clone, { recursive: true, force: true });
});

/** The commands under a heading, a text for each block, without those that are run elsewhere. */
async function blocksOf(file: string, heading: string): Promise<readonly string[]> {
  const text = await readFile(join(ROOT, file), "utf8");
  const level = heading.split(" ")[0] ?? "";
  const start = text.indexOf(`\n${heading}\n`);
  if (start < 0) throw new Error(`${file} has no ${heading}`);
  const rest = text.slice(start + heading.length + 1);
  const end = rest.search(new RegExp(`^#{1,${level.length}} `, "m"));
  const section = end < 0 ? rest : rest.slice(0, end);
  const blocks = [...section.matchAll(/^```sh\n([^]*?)^```$/gm)].map(([, body = ""]) => body);
  return blocks
    .map((body) =>
      body
        .split("\n")
        .filter((line) => !ELSEWHERE.test(line))
        .join("\n"),
    )
    .filter((body) => body.trim() !== "");
}

/** What a block printed. Throws with all of it if a command fails. */
async function shell(block: string, env: Record<string, string> = {}): Promise<string> {
  const path = join(clone, "node_modules", ".bin") + delimiter + (process.env["PATH"] ?? "");
  const options = { cwd: clone, env: { PATH: path, HOME: clone, ...env } };
  try {
    const { stdout, stderr } = await run("bash", ["--norc", "-euo", "pipefail", "-c", block], options);
    return stdout + stderr;
  } catch (thrown) {
    const { stdout = "", stderr = "" } = thrown as { stdout?: string; stderr?: string };
    throw new Error(`${block}\n${stdout}${stderr}`, { cause: thrown });
  }
}

const aws = (): Record<string, string> => ({ ...moto.env(), AWS_DEFAULT_REGION: "eu-central-1", AWS_PAGER: "" });

test("README.md: the functions on this machine", { timeout: 120_000 }, async () => {
  const blocks = await blocksOf("README.md", "## Quick starts");
  const block = blocks.find((each) => each.includes("npx serverless"));
  expect(block?.trim().split("\n")).toHaveLength(3);
  expect(await shell(block ?? "exit 1")).toContain('"dryRun": true');
});

test(
  "docs/deploy.md: a first deployment in ten steps, each of which prints what it says",
  { timeout: 300_000 },
  async () => {
    const text = await readFile(join(ROOT, "docs/deploy.md"), "utf8");
    expect([...text.matchAll(/^\*\*(\d+)\. /gm)].map(([, step]) => Number(step))).toEqual([
      1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
    ]);
    const blocks = await blocksOf("docs/deploy.md", "## First deployment");
    const printed: string[] = [];
    for (const block of blocks) printed.push(await shell(block, aws()));
    const all = printed.join("\n");
    // moto gives no outputs of a stack that a change set made; template-safety.test.ts looks at them.
    const said = [
      "Packaging gridmeter for stage prod (eu-central-1)",
      "Service packaged",
      "Successfully created/updated stack - gridmeter-rights-prod",
      '"Version": 1',
      "Service deployed to stack gridmeter-prod",
      '"dryRun": true',
    ];
    const missing = said.filter((each) => !all.includes(each));
    expect([missing, missing.length === 0 ? "" : all]).toEqual([[], ""]);
    // What is shown of a mistake is what comes of it.
    await writeFile(
      join(clone, ".env.prod"),
      (await readFile(join(clone, ".env.prod"), "utf8")).replace("NAMESPACE", "NAMSPACE"),
    );
    const shown = /^gridmeter: config_invalid: [^`]*/m.exec(text)?.[0] ?? "none";
    const wrong = await shell("npm run package -- --stage prod || true");
    expect(wrong).toContain(shown.trim());
    await writeFile(
      join(clone, ".env.prod"),
      (await readFile(join(clone, ".env.prod"), "utf8")).replace("NAMSPACE", "NAMESPACE"),
    );
  },
);

test("docs/deploy.md: removal, and what adopts the bucket", { timeout: 120_000 }, async () => {
  const [remove = "", setting = ""] = await blocksOf("docs/deploy.md", "## Removal");
  expect(await shell(remove, aws())).toContain("successfully removed");
  expect(await shell(`cat >> .env.prod <<'END'\n${setting}\nEND\nnpx serverless deploy --stage prod`, aws())).toContain(
    "Service deployed to stack gridmeter-prod",
  );
  expect(await shell(remove, aws())).toContain("successfully removed");
});

test("docs/deploy.md: a release without osls", { timeout: 120_000 }, async () => {
  const [release = "", deploy = ""] = await blocksOf("docs/deploy.md", "## Without osls");
  const said = await shell(release);
  const prefix = /s3:\/\/BUCKET\/(\S+)/.exec(said)?.[1] ?? "";
  const Bucket = "our-deployments";
  const CreateBucketConfiguration = { LocationConstraint: "eu-central-1" } as const;
  await moto.s3.send(new CreateBucketCommand({ Bucket, CreateBucketConfiguration }));
  expect(deploy).toContain(`BUCKET=${Bucket}`);
  const own = deploy.replace(/PREFIX=\S+/, `PREFIX=${prefix}`);
  // moto finds the bucket in the template's address only if the host is called so.
  const env = { ...aws(), AWS_ENDPOINT_URL: moto.url.replace("127.0.0.1", "localhost") };
  expect(await shell(own, env)).toContain("Successfully created/updated stack - gridmeter-prod");
});

test("docs/rights.md: the deployer's rights", { timeout: 60_000 }, async () => {
  const [block = ""] = await blocksOf("docs/rights.md", "## The deployer");
  expect(
    await shell(
      block.replace("gridmeter-rights-prod", "gridmeter-rights-other").replace("Stage=prod", "Stage=other"),
      aws(),
    ),
  ).toContain("Successfully created/updated stack - gridmeter-rights-other");
});

test("commands that need Lambda itself name functions and events that there are", async () => {
  const texts = await Promise.all(
    ["docs/deploy.md", "docs/run.md", "docs/correct.md"].map((file) => readFile(join(ROOT, file), "utf8")),
  );
  const functions = [...texts.join("\n").matchAll(/serverless (?:invoke|logs)[^\n]* -f (\w+)/g)].map(
    ([, name = ""]) => name,
  );
  expect(functions.length).toBeGreaterThan(8);
  expect(functions.filter((name) => !existsSync(join(ROOT, "functions", `${name}.ts`)))).toEqual([]);
  const events = [...texts.join("\n").matchAll(/--path (events\/\S+)/g)].map(([, path = ""]) => path);
  expect(events.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
});
