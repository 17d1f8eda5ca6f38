import { S3Client } from "@aws-sdk/client-s3";
import { SQSClient } from "@aws-sdk/client-sqs";
import { GridmeterError, errorText } from "../../shared/errors.ts";

/** How objects are encrypted at rest; without it, as the bucket says. */
export type Encryption = { readonly sse: "AES256" } | { readonly sse: "aws:kms"; readonly keyId?: string };

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

/** What an AWS client says about a failed request: the error's name and the HTTP status, if an answer came at all. */
type AwsFailure = { readonly name: string; readonly status: number | undefined };

/** Reads what any AWS client threw. */
export function awsFailure(thrown: unknown): AwsFailure {
  if (!(thrown instanceof Error)) return { name: "", status: undefined };
  const metadata: unknown = "$metadata" in thrown ? thrown.$metadata : undefined;
  const status: unknown =
    typeof metadata === "object" && metadata !== null && "httpStatusCode" in metadata
      ? metadata.httpStatusCode
      : undefined;
  return { name: thrown.name, status: typeof status === "number" ? status : undefined };
}

/** The failure in one line, e.g. `AccessDenied (HTTP 403): Access Denied`. */
export function failureText(thrown: unknown): string {
  const { name, status } = awsFailure(thrown);
  const label = name === "" || name === "Error" ? "no answer" : name;
  return `${label}${status === undefined ? "" : ` (HTTP ${status})`}: ${errorText(thrown)}`;
}

const CREDENTIALS = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give this host or function an IAM role.";
const REGION = "Set AWS_REGION to the region where it was made.";
const REMEDIES: Readonly<Record<string, string>> = {
  CredentialsProviderError: CREDENTIALS,
  InvalidAccessKeyId: CREDENTIALS,
  InvalidClientTokenId: CREDENTIALS,
  UnrecognizedClientException: CREDENTIALS,
  ExpiredToken: "The session's credentials have run out: renew them.",
  SignatureDoesNotMatch: "The secret key does not belong to the access key, or this host's clock is off: see to both.",
  RequestTimeTooSkewed: "This host's clock is off: synchronise it (NTP).",
  NoSuchBucket: "Create the bucket, or name another one (s3://BUCKET/PREFIX).",
  QueueDoesNotExist: "Create the queue, or give the URL of another one.",
  PermanentRedirect: REGION,
  AuthorizationHeaderMalformed: REGION,
  SlowDown: "It asks for fewer requests: run again later.",
  NotImplemented:
    "This store cannot do what is needed (conditional puts): use one that can, such as S3, Ceph or MinIO.",
};

/** What to do about a failed request. `need` is the IAM right that it takes, e.g. `s3:GetObject on arn:aws:s3:::b/k`. */
export function awsRemedy(thrown: unknown, need: string): string {
  const { name, status } = awsFailure(thrown);
  if (errorText(thrown).includes("Region is missing")) return REGION;
  const remedy = REMEDIES[name];
  if (remedy !== undefined) return remedy;
  if (status === 403) return `Allow ${need} to the user or role that runs gridmeter.`;
  if (status === undefined)
    return "See that the service can be reached from here (AWS_ENDPOINT_URL, network, TLS) and run again.";
  return status >= 500 || status === 429
    ? "The service is at fault or busy: run again later."
    : "See to the cause named here and run again.";
}

/** Whether the request may have been carried out all the same: no answer came, or the service failed while at it. */
export function mayHaveHappened(thrown: unknown): boolean {
  const { status } = awsFailure(thrown);
  return status === undefined || status >= 500;
}

/** How an object is encrypted at rest, as fields of PutObject and CopyObject. */
export function sseInput(encryption: Encryption | undefined) {
  if (encryption === undefined) return {};
  const { sse } = encryption;
  if (sse === "AES256" || encryption.keyId === undefined) return { ServerSideEncryption: sse };
  return { ServerSideEncryption: sse, SSEKMSKeyId: encryption.keyId };
}
