import { createS3, createSqs } from "../../lib/accounting/store/aws.ts";
import { type Parts, createSsm } from "../../functions/common/runtime.ts";

/** Where a function dies: at its n-th call to S3, SQS or SSM (from 1), before it was made or once it was carried out. */
export type Death = { readonly at: number; readonly when: "before" | "after" };

export class Dead extends Error {
  constructor() {
    super("the function is dead");
  }
}

/**
 * What a function is given, with clients that die: from the deadly call on every call fails, so nothing that the function
 * still does can leave a trace. `calls` counts the calls that were made.
 */
export function dyingParts(
  env: Record<string, string>,
  death?: Death,
): Parts & { readonly calls: () => number; readonly destroy: () => void } {
  let calls = 0;
  let dead = false;
  const mortal = (next: (args: unknown) => Promise<unknown>) => async (args: unknown) => {
    calls += 1;
    const deadly = death !== undefined && calls >= death.at;
    if (dead || (deadly && death.when === "before")) throw new Dead();
    const answer = await next(args);
    if (!deadly) return answer;
    dead = true;
    throw new Dead();
  };
  const [s3, sqs, ssm] = [createS3(env), createSqs(env), createSsm(env)];
  const step = { step: "initialize", priority: "high", name: "death" } as const;
  s3.middlewareStack.add(mortal as never, step);
  sqs.middlewareStack.add(mortal as never, step);
  ssm.middlewareStack.add(mortal as never, step);
  return {
    env,
    s3,
    sqs,
    ssm,
    calls: () => calls,
    destroy: () => [s3, sqs, ssm].forEach((client) => client.destroy()),
  };
}
