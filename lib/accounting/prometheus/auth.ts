import { GridmeterError, errorText } from "../../shared/errors.ts";
import { readTextFile } from "../../shared/fs.ts";
import { hiderOfRequest } from "../../shared/proxy.ts";

/** No server takes a longer header, bytes. */
const LONGEST_TOKEN = 65_536;

const JWT = /^eyJ[\w-]*\.[\w-]+\.[\w-]*$/;

/**
 * The value of the Authorization header, or undefined where none is configured. The token file is read again on every
 * call, since Kubernetes replaces projected tokens under a running program.
 * Throws `config_invalid` for a file that cannot be read and for a value that no HTTP header can hold.
 */
export function authorization(settings: {
  readonly authHeader?: string;
  readonly tokenFile?: string;
}): string | undefined {
  if (settings.tokenFile !== undefined) {
    const token = readToken(settings.tokenFile);
    return checked(token.includes(" ") ? token : `Bearer ${token}`, `the token file ${settings.tokenFile}`);
  }
  if (settings.authHeader === undefined || settings.authHeader.trim() === "") return undefined;
  const header = settings.authHeader.trim();
  // KAPEL's users set the bare token of a service account here.
  return checked(JWT.test(header) ? `Bearer ${header}` : header, "PROMETHEUS_AUTH_HEADER");
}

/**
 * Takes out of a text what must never be shown, since a server or a proxy may repeat it: the header, the address's and the proxy's
 * passwords and query strings, and the session token of signed requests, which Amazon repeats when it finds a signature wrong.
 */
export function hider(base: URL, header: string | undefined): (text: string) => string {
  const hide = hiderOfRequest(base, header);
  return (text) => hide(text).replace(/(x-amz-security-token["']?\s*[:=]\s*["']?)[\w+/=%-]+/gi, "$1***");
}

function readToken(path: string): string {
  let token: string;
  try {
    token = readTextFile(path, LONGEST_TOKEN).trim();
  } catch (thrown) {
    throw new GridmeterError(
      "config_invalid",
      `The token file "${path}" (PROMETHEUS_TOKEN_FILE) could not be read: ${errorText(thrown)}. ` +
        "Nothing was asked or published. Give a file that this user may read.",
      { cause: thrown },
    );
  }
  if (token !== "") return token;
  throw new GridmeterError(
    "config_invalid",
    `The token file "${path}" (PROMETHEUS_TOKEN_FILE) is empty. Nothing was asked or published. Put a token into it.`,
  );
}

function checked(header: string, source: string): string {
  if (/^[\x20-\x7e]+$/.test(header)) return header;
  throw new GridmeterError(
    "config_invalid",
    `The value of ${source} has a line break or a character that no HTTP header can hold (it is not shown here). ` +
      "Nothing was asked or published. Write it on one line, in ASCII.",
  );
}

/** The name under which Amazon Managed Service for Prometheus checks signatures. */
const SERVICE = "aps";
/** A workspace's own address, also through a VPC endpoint, with FIPS, dual-stack, and in China. */
const WORKSPACE =
  /^(?:[a-z0-9-]+\.)*aps-workspaces(?:-fips)?\.(?<region>[a-z]{2}[a-z0-9-]+)\.(?:vpce\.)?(?:amazonaws\.com(?:\.cn)?|api\.aws)$/;

/** What is signed: a request as it will be sent, with its whole body. */
type Unsigned = {
  readonly method: string;
  readonly url: URL;
  readonly contentType: string | undefined;
  readonly body: string;
};

/** Gives the headers to add to a request. They hold for some minutes, so a repeated request is signed again. */
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
