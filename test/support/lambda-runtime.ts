import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { listen } from "./fault-proxy.ts";

/** How an invocation ended: with the handler's answer, with the error it threw, or by the time limit. */
export type Invoked =
  | { readonly kind: "answer"; readonly value: unknown }
  | {
      readonly kind: "error";
      readonly errorType: string;
      readonly errorMessage: string;
      /** lines of the stack */
      readonly trace?: readonly string[];
    }
  | { readonly kind: "timeout" };

export type LambdaOptions = {
  /** the bundle, e.g. dist/functions/plan.cjs; its export `handler` is called */
  readonly bundle: string;
  /** all of the environment but PATH and what Lambda sets */
  readonly env: Readonly<Record<string, string>>;
  /** as in serverless.yml; default 1024 */
  readonly memoryMb?: number;
  /** as in serverless.yml, seconds; default 60 */
  readonly timeoutSeconds?: number;
};

/** A function as Lambda runs it: a process of its own that is kept warm between invocations. */
export type LambdaFunction = {
  /**
   * One at a time, as an instance of a function does.
   * @param timeoutSeconds for this invocation only
   * @param killSeconds kills it so early although the function was told of `timeoutSeconds`
   */
  invoke(event: unknown, timeoutSeconds?: number, killSeconds?: number): Promise<Invoked>;
  /** All that it wrote on stdout and stderr. */
  readonly log: () => string;
  stop(): Promise<void>;
};

const RIC = fileURLToPath(new URL("../../node_modules/aws-lambda-ric/index.mjs", import.meta.url));

/**
 * The native part of the runtime client does nothing but HTTP: get the next invocation, post its answer. This does the
 * same in plain JavaScript, and answers in the same form.
 */
const SHIM = `
const http = require("node:http");
const base = "http://" + process.env.AWS_LAMBDA_RUNTIME_API + "/2018-06-01/runtime/invocation/";
function request(method, path, body, headers) {
  return new Promise((resolve, reject) => {
    const sent = http.request(base + path, { method, headers }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part) => (text += part)).on("end", () => resolve({ bodyJson: text, headers: response.headers }));
    });
    sent.on("error", reject).end(body);
  });
}
const fail = (error) => { console.error(error); process.exit(1); };
let posted = Promise.resolve();
const native = {
  initializeClient() {},
  next: () => posted.then(() => request("GET", "next")),
  done(id, body) { posted = request("POST", id + "/response", body, { "content-type": "application/json" }).catch(fail); },
  error(id, body) { posted = request("POST", id + "/error", body, { "content-type": "application/json" }).catch(fail); },
};
const Module = require("node:module");
const load = Module._load;
Module._load = function (name, ...rest) { return name.endsWith("rapid-client.node") ? native : load.call(this, name, ...rest); };
`;

/** A test runner that is torn down must not leave functions behind. */
const atExit = new Set<() => void>();
process.once("exit", () => atExit.forEach((kill) => kill()));

type Next = { readonly id: string; readonly event: string; readonly deadline: number };

/**
 * Runs a bundle under the real runtime client (aws-lambda-ric) against a Runtime API on 127.0.0.1. A function that
 * overruns its time is killed, as Lambda does; the next invocation starts it again. `stop` ends all by their own pids.
 */
export async function startLambda(options: LambdaOptions): Promise<LambdaFunction> {
  const { bundle, env, memoryMb = 1024, timeoutSeconds = 60 } = options;
  const folder = await mkdtemp(join(tmpdir(), "gridmeter-lambda-"));
  await cp(RIC, join(folder, "index.mjs"));
  await writeFile(join(folder, "shim.cjs"), SHIM);
  const name = basename(bundle, ".cjs");
  let log = "";
  let waiting: ((next: Next) => void) | undefined;
  let queued: Next | undefined;
  let settle: ((invoked: Invoked) => void) | undefined;

  const server = createServer((incoming, outgoing) => void answer(incoming, outgoing));
  async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const path = incoming.url ?? "";
    const body = await text(incoming);
    if (path.endsWith("/invocation/next")) {
      const give = ({ id, event, deadline }: Next): void => {
        outgoing.writeHead(200, {
          "content-type": "application/json",
          "lambda-runtime-aws-request-id": id,
          "lambda-runtime-deadline-ms": String(deadline),
          "lambda-runtime-invoked-function-arn": `arn:aws:lambda:eu-central-1:123456789012:function:gridmeter-test-${name}`,
          "lambda-runtime-trace-id": "Root=1-00000000-000000000000000000000000;Sampled=0",
        });
        outgoing.end(event);
      };
      const next = queued;
      queued = undefined;
      if (next === undefined) waiting = give;
      else give(next);
      return;
    }
    outgoing.writeHead(202).end();
    if (path.endsWith("/response")) settle?.({ kind: "answer", value: body === "" ? undefined : JSON.parse(body) });
    else settle?.({ kind: "error", ...JSON.parse(body) });
  }
  const port = await listen(server);

  let child: ReturnType<typeof start> | undefined;
  function start() {
    const started = spawn(
      process.execPath,
      [
        `--max-old-space-size=${memoryMb}`,
        "--enable-source-maps",
        "--require",
        join(folder, "shim.cjs"),
        join(folder, "index.mjs"),
      ],
      {
        stdio: ["ignore", "pipe", "pipe"],
        cwd: dirname(bundle),
        env: {
          PATH: process.env["PATH"],
          TZ: ":UTC",
          AWS_LAMBDA_RUNTIME_API: `127.0.0.1:${port}`,
          AWS_LAMBDA_FUNCTION_NAME: `gridmeter-test-${name}`,
          AWS_LAMBDA_FUNCTION_VERSION: "$LATEST",
          AWS_LAMBDA_FUNCTION_MEMORY_SIZE: String(memoryMb),
          AWS_LAMBDA_LOG_GROUP_NAME: `/aws/lambda/gridmeter-test-${name}`,
          AWS_LAMBDA_LOG_STREAM_NAME: "test",
          AWS_EXECUTION_ENV: "AWS_Lambda_nodejs24.x",
          AWS_LAMBDA_INITIALIZATION_TYPE: "on-demand",
          LAMBDA_TASK_ROOT: dirname(bundle),
          _HANDLER: `${name}.handler`,
          ...env,
        },
      },
    );
    started.stdout.setEncoding("utf8").on("data", (part: string) => (log += part));
    started.stderr.setEncoding("utf8").on("data", (part: string) => (log += part));
    started.once("exit", (code, signal) => {
      if (started !== child) return;
      child = undefined;
      waiting = undefined;
      settle?.({ kind: "error", errorType: "Runtime.ExitError", errorMessage: `ended with ${code ?? signal}` });
    });
    return started;
  }
  async function end(): Promise<void> {
    const ended = child;
    child = undefined;
    waiting = undefined;
    if (ended === undefined || ended.exitCode !== null || ended.signalCode !== null) return;
    const exited = once(ended, "exit");
    ended.kill("SIGKILL");
    await exited;
  }
  const killAtExit = (): void => void child?.kill("SIGKILL");
  atExit.add(killAtExit);

  let invocations = 0;
  let last: Promise<unknown> = Promise.resolve();
  const invoke = async (event: unknown, limit: number, kill: number): Promise<Invoked> => {
    child ??= start();
    invocations += 1;
    const next = {
      id: `00000000-0000-4000-8000-${String(invocations).padStart(12, "0")}`,
      event: JSON.stringify(event) ?? "null",
      deadline: Date.now() + limit * 1000,
    };
    const invoked = new Promise<Invoked>((resolve) => (settle = resolve));
    const timer = setTimeout(() => settle?.({ kind: "timeout" }), kill * 1000);
    const give = waiting;
    waiting = undefined;
    if (give === undefined) queued = next;
    else give(next);
    const result = await invoked;
    clearTimeout(timer);
    settle = undefined;
    queued = undefined;
    if (result.kind === "timeout") await end();
    return result;
  };
  return {
    invoke: (event, limit = timeoutSeconds, killSeconds = limit) => {
      const result = last.then(() => invoke(event, limit, killSeconds));
      last = result.catch(() => undefined);
      return result;
    },
    log: () => log,
    stop: async () => {
      await end();
      atExit.delete(killAtExit);
      server.closeAllConnections();
      server.close();
      await once(server, "close");
      await rm(folder, { recursive: true, force: true });
    },
  };
}
