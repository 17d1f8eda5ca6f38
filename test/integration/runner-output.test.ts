import { describe, expect, test } from "vitest";
import { runCommand } from "../../lib/agent/command/run.ts";
import { command, script } from "../support/process-watch.ts";

const MIB = 1_048_576;

/** The most memory that this process had at a time while the work went on, above what it had before, bytes. */
async function growth(work: () => Promise<void>): Promise<number> {
  const before = process.memoryUsage.rss();
  let most = before;
  const timer = setInterval(() => (most = Math.max(most, process.memoryUsage.rss())), 5);
  await work();
  clearInterval(timer);
  return Math.max(most, process.memoryUsage.rss()) - before;
}

describe("what a command prints", () => {
  test("comes stdout and stderr apart, with the exit code", async () => {
    const { settled } = runCommand(script("echo out; echo err >&2; exit 9"));
    expect(await settled).toStrictEqual({
      kind: "exit_nonzero",
      seconds: expect.any(Number),
      output: { stdout: "out\n", stderr: "err\n", exitCode: 9 },
    });
  });

  test("is whole, up to the last byte that is allowed", async () => {
    const { settled } = runCommand(command(["head", "-c", "3000000", "/dev/zero"], { maxBytes: 3_000_000 }));
    const result = await settled;
    expect(result.kind === "ok" && result.output.stdout.length).toBe(3_000_000);
  });

  test("with bytes that are no UTF-8 is no error", async () => {
    const { settled } = runCommand(command(["printf", "a\\377b"]));
    expect(await settled).toMatchObject({ kind: "ok", output: { stdout: "a\uFFFDb" } });
  });

  test("is in English, with points in numbers, and passwords of the agent are not known to it", async () => {
    process.env["AWS_SECRET_ACCESS_KEY"] = "not for children";
    const { settled } = runCommand(command(["env"]), { environment: { DOCKER_HOST: "unix:///x", LC_ALL: "de_DE" } });
    const result = await settled;
    delete process.env["AWS_SECRET_ACCESS_KEY"];
    const names = result.kind === "ok" ? result.output.stdout.split("\n") : [];
    expect(names).toContain("LC_ALL=C");
    expect(names).toContain("DOCKER_HOST=unix:///x");
    expect(names).toContain(`PATH=${process.env["PATH"]}`);
    expect(names.join()).not.toContain("AWS_SECRET");
  });

  test("is not read by a shell", async () => {
    const { settled } = runCommand(command(["echo", "$HOME; touch /tmp/x", "|", "`id`"]));
    expect(await settled).toMatchObject({ kind: "ok", output: { stdout: "$HOME; touch /tmp/x | `id`\n" } });
  });

  test("does not wait for input", async () => {
    const { settled } = runCommand(command(["cat"]));
    expect(await settled).toMatchObject({ kind: "ok", output: { stdout: "" } });
  });
});

describe("a command that floods", () => {
  const FLOODS: Readonly<Record<string, readonly [string, "stdout" | "stderr"]>> = {
    "stdout with 1 GB": ["head -c 1000000000 /dev/zero", "stdout"],
    "stderr with 1 GB": ["head -c 1000000000 /dev/zero >&2", "stderr"],
    "stdout for ever": ["exec yes", "stdout"],
    "stdout for ever, deaf to TERM and to closed pipes": ['trap "" TERM PIPE; while :; do yes; done 2>&-', "stdout"],
  };

  test.each(Object.entries(FLOODS))("%s: nothing is kept of it", async (_, [text, stream]) => {
    const grown = await growth(async () => {
      const { settled, gone } = runCommand(script(text, { maxBytes: 16 * MIB }), { grace: 0.5 });
      expect(await settled).toStrictEqual({
        kind: "output_too_large",
        seconds: expect.any(Number),
        detail: `more than 16777216 bytes on ${stream}`,
      });
      await gone;
    });
    expect(grown).toBeLessThan(120 * MIB);
  });

  test("stdout after its parent has exited 0: nothing of it is kept, and nobody waits for it", async () => {
    const { settled, gone } = runCommand(script("yes & sleep 0.05; exit 0", { maxBytes: 4096 }), { grace: 0.5 });
    expect(await settled).toMatchObject({ kind: "output_too_large" });
    await gone;
  });

  test("within its limits, but byte by byte, costs no more than a few times the bytes", async () => {
    const bytewise = "$| = 1; syswrite(STDOUT, 'x') for 1 .. 300_000";
    const grown = await growth(async () => {
      const { settled } = runCommand(command(["perl", "-e", bytewise]));
      const result = await settled;
      expect(result.kind === "ok" && result.output.stdout.length).toBe(300_000);
    });
    expect(grown).toBeLessThan(60 * MIB);
  });
});

test("a command that another kills, or that crashes, was killed: no output", async () => {
  const killed = runCommand(script("echo half; kill -KILL $$"));
  expect(await killed.settled).toStrictEqual({
    kind: "killed",
    seconds: expect.any(Number),
    detail: "ended by SIGKILL",
  });
  const crashed = runCommand(script("kill -SEGV $$"));
  expect(await crashed.settled).toMatchObject({ kind: "killed", detail: "ended by SIGSEGV" });
});
