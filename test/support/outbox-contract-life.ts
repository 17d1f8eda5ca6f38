import { AsyncLocalStorage } from "node:async_hooks";
import fsp from "node:fs/promises";
import type { S3Client } from "@aws-sdk/client-s3";
import type { SQSClient } from "@aws-sdk/client-sqs";
import { vi } from "vitest";

export class Dead extends Error {
  constructor() {
    super("dead");
  }
}

/** What changes a directory, so that a death between any two of them leaves another state. */
const STEPS = ["open", "link", "unlink", "rename", "mkdir", "lutimes"] as const;

type Life = { steps: number; readonly last: number };
const living = new AsyncLocalStorage<Life>();

async function step<T>(real: () => Promise<T>, undo?: (done: T) => Promise<unknown>): Promise<T> {
  const life = living.getStore();
  if (life === undefined) return real();
  if (life.steps >= life.last) throw new Dead();
  life.steps += 1;
  const done = await real();
  if (life.steps < life.last) return done;
  await undo?.(done);
  throw new Dead();
}

/**
 * Runs something that dies right after its `last`-th step: an answer it never hears. A step is a call that changes a
 * directory, or one of a client that `mortal` was given; nothing of it is carried out after that.
 * @returns how many steps were made, and whether it died; its own errors are thrown
 */
export async function untilStep(last: number, work: () => Promise<unknown>): Promise<{ steps: number; died: boolean }> {
  const life: Life = { steps: 0, last };
  await living.run(life, work).catch((thrown: unknown) => {
    if (life.steps < last) throw thrown;
  });
  return { steps: life.steps, died: life.steps >= last };
}

/** Makes the steps on directories count; `vi.restoreAllMocks` ends it. Outside of `untilStep` nothing changes. */
export function mortalFiles(): void {
  for (const name of STEPS) {
    const real = (fsp[name] as (...args: unknown[]) => Promise<unknown>).bind(fsp);
    const close = name === "open" ? (file: unknown) => (file as fsp.FileHandle).close() : undefined;
    vi.spyOn(fsp, name).mockImplementation(((...args: unknown[]) => step(() => real(...args), close)) as never);
  }
}

/** Makes each call of the client a step. */
export function mortal({ middlewareStack }: S3Client | SQSClient): void {
  const middleware = (next: (args: unknown) => Promise<unknown>) => (args: unknown) => step(() => next(args));
  const options = { step: "initialize", priority: "high", name: "mortal" } as const;
  (middlewareStack as S3Client["middlewareStack"]).add(middleware as never, options);
}
