import { S3Client } from "@aws-sdk/client-s3";
import { SQSClient } from "@aws-sdk/client-sqs";
import { GridmeterError } from "../errors.ts";
import type { Encryption } from "../store/s3-store.ts";

/** Environment variables. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** A long poll of SQS takes up to 20 s; a request that takes longer than this is given up and repeated. */
const REQUEST_TIMEOUT = 30_000;

const filled = (text: string | undefined): string | undefined => (text?.trim() ? text.trim() : undefined);

/** The custom endpoint of a service, under the SDK's own names; the SDK reads it by itself. */
function endpointOf(env: Environment, service: "S3" | "SQS" | "SSM"): string | undefined {
  return filled(env[`AWS_ENDPOINT_URL_${service}`]) ?? filled(env["AWS_ENDPOINT_URL"]);
}

/** What the clients of all services are given. */
export function commonSettings(env: Environment, service: "S3" | "SQS" | "SSM") {
  const endpoint = endpointOf(env, service);
  const region = filled(env["AWS_REGION"]) ?? filled(env["AWS_DEFAULT_REGION"]);
  return {
    maxAttempts: 5,
    retryMode: "standard",
    requestHandler: { connectionTimeout: 5_000, requestTimeout: REQUEST_TIMEOUT, throwOnRequestTimeout: true },
    ...(endpoint === undefined ? {} : { endpoint }),
    // A store of one's own has no regions, but requests are signed for one.
    ...(region !== undefined ? { region } : endpoint === undefined ? {} : { region: "us-east-1" }),
  };
}

/** The S3 client, for AWS or, with AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, for Ceph, MinIO and the like (path-style). */
export function createS3(env: Environment): S3Client {
  const own = endpointOf(env, "S3") !== undefined;
  return new S3Client({
    ...commonSettings(env, "S3"),
    followRegionRedirects: !own,
    // Stores other than AWS know neither bucket names in host names nor, often, the newer trailing checksums.
    ...(own
      ? {
          forcePathStyle: true,
          requestChecksumCalculation: "WHEN_REQUIRED",
          responseChecksumValidation: "WHEN_REQUIRED",
        }
      : {}),
  });
}

/** The SQS client. With AWS_ENDPOINT_URL_SQS or AWS_ENDPOINT_URL it goes there, whatever host the queue's URL names. */
export function createSqs(env: Environment): SQSClient {
  return new SQSClient({ ...commonSettings(env, "SQS"), useQueueUrlAsEndpoint: endpointOf(env, "SQS") === undefined });
}

/** S3_SSE (AES256 or aws:kms) and S3_KMS_KEY_ID; undefined where neither is set. @throws GridmeterError `config_invalid` */
export function encryptionOf(env: Environment): Encryption | undefined {
  const sse = filled(env["S3_SSE"]);
  const keyId = filled(env["S3_KMS_KEY_ID"]);
  if (sse === "aws:kms") return keyId === undefined ? { sse } : { sse, keyId };
  if (sse === "AES256" && keyId === undefined) return { sse };
  if (sse === undefined && keyId === undefined) return undefined;
  const text =
    keyId !== undefined && (sse === undefined || sse === "AES256")
      ? `S3_KMS_KEY_ID=${JSON.stringify(keyId)} is set, but S3_SSE is ${sse ?? "not set"}: it goes with S3_SSE=aws:kms only`
      : `S3_SSE=${JSON.stringify(sse)} is neither AES256 nor aws:kms`;
  throw new GridmeterError("config_invalid", `${text}. Nothing was published. Correct it.`);
}
