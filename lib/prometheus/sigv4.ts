import { GridmeterError, errorText } from "../errors.ts";

/** The name under which Amazon Managed Service for Prometheus checks signatures. */
const SERVICE = "aps";
/** A workspace's own address, also through a VPC endpoint, with FIPS, dual-stack, and in China. */
const WORKSPACE =
  /^(?:[a-z0-9-]+\.)*aps-workspaces(?:-fips)?\.(?<region>[a-z]{2}[a-z0-9-]+)\.(?:vpce\.)?(?:amazonaws\.com(?:\.cn)?|api\.aws)$/;

/** What is signed: a request as it will be sent, with its whole body. */
export type Unsigned = {
  readonly method: string;
  readonly url: URL;
  readonly contentType: string | undefined;
  readonly body: string;
};

/** Gives the headers to add to a request. They hold for some minutes, so a repeated request is signed anew. */
export type Signer = (request: Unsigned) => Promise<Readonly<Record<string, string>>>;

/** The region in the address of a workspace of Amazon Managed Service for Prometheus; undefined for any other address. */
export function workspaceRegion(url: string): string | undefined {
  return URL.canParse(url) ? WORKSPACE.exec(new URL(url).hostname)?.groups?.["region"] : undefined;
}

/**
 * Signs with AWS Signature Version 4 for the service `aps`. Credentials are those that the AWS SDK finds (environment, profile,
 * web identity, container, instance), fetched again before they expire. The SDK is loaded with the first request, not before.
 * The signer throws `prometheus_auth` where no credentials are found.
 */
export function createSigner(region: string): Signer {
  let loaded: ReturnType<typeof load> | undefined;
  return async ({ method, url, contentType, body }) => {
    loaded ??= load(region);
    const signer = await loaded;
    try {
      const { headers } = await signer.sign({
        method,
        protocol: url.protocol,
        hostname: url.hostname,
        path: url.pathname,
        query: Object.fromEntries([...url.searchParams.keys()].map((name) => [name, url.searchParams.getAll(name)])),
        headers: { host: url.host, ...(contentType === undefined ? {} : { "content-type": contentType }) },
        body,
      });
      const { host: _sentAnyway, ...added } = headers;
      return added;
    } catch (thrown) {
      throw new GridmeterError(
        "prometheus_auth",
        `The request to ${url.host} could not be signed for the region ${region}: ${errorText(thrown)}. Nothing was published. ` +
          "Give AWS credentials in a way that the AWS SDK knows: a role (service account, container, instance, function), " +
          "a profile, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. They need the right aps:QueryMetrics on the workspace.",
        { cause: thrown },
      );
    }
  };
}

async function load(region: string) {
  const [{ SignatureV4 }, { defaultProvider }, { Hash }] = await Promise.all([
    import("@smithy/signature-v4"),
    import("@aws-sdk/credential-provider-node"),
    import("@smithy/core/serde"),
  ]);
  return new SignatureV4({
    service: SERVICE,
    region,
    // STS, which turns a web identity into credentials, is asked in the workspace's region.
    credentials: defaultProvider({ clientConfig: { region } }),
    sha256: Hash.bind(null, "sha256"),
  });
}
