import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { CreateBucketCommand, S3Client } from "@aws-sdk/client-s3";
import { CreateQueueCommand, SQSClient } from "@aws-sdk/client-sqs";
import { createS3, createSqs } from "../../lib/accounting/store/aws.ts";
import { listen } from "./fault-proxy.ts";

const START_SECONDS = 60;
/** Keys on a page of a listing: 1000 at AWS, few here, so that every test meets several pages. */
export const PAGE = 10;

/** A server of S3 and SQS for one test file. */
export type Moto = {
  readonly url: string;
  /** what a program needs to use it, through another address if given (such as a proxy's) */
  env(through?: string): Record<string, string>;
  readonly s3: S3Client;
  readonly sqs: SQSClient;
  /** Makes a bucket and gives its name. */
  bucket(): Promise<string>;
  /** Makes a queue and gives its URL; FIFO if asked for. */
  queue(options?: { readonly fifo?: boolean; readonly visibility?: number }): Promise<string>;
  stop(): Promise<void>;
};

/** Starts moto_server on a free port of 127.0.0.1; `stop` ends it by its own pid. */
export async function startMoto({ page = PAGE }: { readonly page?: number } = {}): Promise<Moto> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  // The shim of pyenv execs the program, so the child is the server itself.
  const child = spawn("moto_server", ["-H", "127.0.0.1", "-p", String(port)], {
    stdio: "ignore",
    env: { ...process.env, MOTO_S3_DEFAULT_MAX_KEYS: String(page) },
  });
  const killAtExit = (): void => void child.kill("SIGKILL");
  process.once("exit", killAtExit);
  await answering(url, () => child.exitCode);
  const env = (through = url): Record<string, string> => ({
    AWS_ENDPOINT_URL: through,
    AWS_ACCESS_KEY_ID: "test",
    AWS_SECRET_ACCESS_KEY: "test",
    AWS_REGION: "eu-central-1",
  });
  // The clients take their credentials from the environment of the test.
  Object.assign(process.env, { AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test" });
  const s3 = createS3(env());
  const sqs = createSqs(env());
  let made = 0;
  return {
    url,
    env,
    s3,
    sqs,
    bucket: async () => {
      const Bucket = `bucket-${(made += 1)}`;
      await s3.send(
        new CreateBucketCommand({ Bucket, CreateBucketConfiguration: { LocationConstraint: "eu-central-1" } }),
      );
      return Bucket;
    },
    queue: async ({ fifo = false, visibility = 30 } = {}) => {
      const QueueName = `queue-${(made += 1)}${fifo ? ".fifo" : ""}`;
      const Attributes = { VisibilityTimeout: String(visibility), ...(fifo ? { FifoQueue: "true" } : {}) };
      const { QueueUrl = "" } = await sqs.send(new CreateQueueCommand({ QueueName, Attributes }));
      return QueueUrl;
    },
    stop: async () => {
      s3.destroy();
      sqs.destroy();
      process.removeListener("exit", killAtExit);
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, "exit");
      child.kill("SIGKILL"); // all is in memory: there is nothing to end in order
      await exited;
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  const port = await listen(server);
  server.close();
  await once(server, "close");
  return port;
}

async function answering(url: string, exitCode: () => number | null): Promise<void> {
  const deadline = Date.now() + START_SECONDS * 1000;
  for (;;) {
    const answer = await fetch(`${url}/moto-api/`).catch(() => undefined);
    await answer?.body?.cancel();
    if (answer !== undefined) return;
    if (exitCode() !== null) throw new Error(`moto_server ended with ${String(exitCode())} before it answered.`);
    if (Date.now() > deadline) throw new Error(`moto_server at ${url} did not answer in ${START_SECONDS} s.`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
