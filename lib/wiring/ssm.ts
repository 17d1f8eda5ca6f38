import { SSMClient } from "@aws-sdk/client-ssm";
import { commonSettings } from "./aws.ts";
import type { Environment } from "./aws.ts";

/** The client of SSM, where functions find settings. It is half as large as all else of AWS, and no command needs it. */
export function createSsm(env: Environment): SSMClient {
  return new SSMClient(commonSettings(env, "SSM"));
}
