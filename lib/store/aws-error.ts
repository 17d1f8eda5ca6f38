import { errorText } from "../errors.ts";

/** What an AWS client says about a failed request: the error's name and the HTTP status, if an answer came at all. */
export type AwsFailure = { readonly name: string; readonly status: number | undefined };

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
